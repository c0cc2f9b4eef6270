"""Model copy: the model with which a job begins is copied to the job's Region, and nothing else of its folder."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import boto3
import pytest

from tests.support.copies import SOURCE_REGION, TARGET_REGION, stored
from tests.support.sample_deployment import ACCOUNT, sample_deployment
from tests.support.sample_job import sample_job
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.child.attempt import Attempt, Clock
from traingrid.child.model_copy import model_copy
from traingrid.child.supervisor import needs_copy
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.initial_model import InitialModel
from traingrid.job.job import Job
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.moves import Moves
from traingrid.ledger.submission_item import Array
from traingrid.submission.files import jobs_key, normalised

TRAINED, SUBMISSION = "89abcdef", "0123abcd"
KEY = f"{TRAINED}/0/traingrid-{TRAINED}-0-1/output"
OUTPUT = {region: f"traingrid-output-{ACCOUNT}-{region}" for region in (SOURCE_REGION, TARGET_REGION)}
MODEL = InitialModel(
    submission=TRAINED, index=0, region=SOURCE_REGION, artifact=f"s3://{OUTPUT[SOURCE_REGION]}/{KEY}/model.tar.gz"
)
Begin = Callable[..., Attempt]


@pytest.fixture
def moving() -> Deployment:
    made = sample_deployment()
    return replace(made, grid=made.grid.model_copy(update={"moves": True}))


@pytest.fixture
def s3(aws: None) -> Any:
    """S3 with the output of a job in another Region."""
    client: Any = boto3.client("s3", SOURCE_REGION)
    client.create_bucket(Bucket=OUTPUT[SOURCE_REGION])
    client.create_bucket(Bucket=OUTPUT[TARGET_REGION], CreateBucketConfiguration={"LocationConstraint": TARGET_REGION})
    for name, body in {"model.tar.gz": b"weights", "output.tar.gz": b"large"}.items():
        client.put_object(Bucket=OUTPUT[SOURCE_REGION], Key=f"{KEY}/{name}", Body=body)
    return client


@pytest.fixture
def begin(ledger: Ledger, storage: Storage, moving: Deployment, moves: Moves) -> Begin:
    """Return the first attempt of a job in the other Region, after the job that trained its model."""

    def attempt(**trained: Any) -> Attempt:
        source = sample_job(SOURCE_REGION).model_copy(update=trained)
        body, index = normalised([source])
        storage.write(S3Uri(moving.manifest_bucket, jobs_key(TRAINED)), body, "application/x")
        storage.write(S3Uri(moving.manifest_bucket, f"submissions/{TRAINED}/jobs.index"), index, "application/x")
        ledger.claim_submission(TRAINED, "test", {"manifest": "s3://m/a.csv", "jobs": 1})
        ledger.record_submitted(TRAINED, "b", [Array(batch_job="b", file="jobs.jsonl", count=1)])
        ledger.open_job(TRAINED, source)
        job = sample_job(TARGET_REGION).model_copy(
            update={"init_from": MODEL, "output": f"s3://{OUTPUT[TARGET_REGION]}/{SUBMISSION}/0/"}
        )
        ledger.open_job(SUBMISSION, job)
        return _attempt(job, ledger)

    return attempt


def _attempt(job: Job, ledger: Ledger) -> Attempt:
    unused: Any = None
    return Attempt(
        grid="traingrid",
        submission=SUBMISSION,
        number=1,
        job=job,
        batch_child="child",
        array_file="",
        backend=unused,
        ledger=ledger,
        clock=Clock(sleep=lambda _: None),
    )


def test_only_the_archive_of_the_model_is_copied(s3: Any, begin: Begin, moving: Deployment, moves: Moves) -> None:
    assert model_copy(begin(), moving).run()
    target = S3Uri(OUTPUT[TARGET_REGION], f"initial-models/{KEY}")
    assert stored(s3, target) == {"model.tar.gz": b"weights"}
    item = moves.find(str(target))
    assert item is not None
    assert (item.state, item.objects, item.job) == ("copied", 1, f"{SUBMISSION}/0")


def test_the_next_job_uses_the_same_copy(s3: Any, begin: Begin, moving: Deployment, moves: Moves) -> None:
    attempt = begin()
    assert model_copy(attempt, moving).run()
    before = moves.find(f"s3://{OUTPUT[TARGET_REGION]}/initial-models/{KEY}")
    assert model_copy(attempt, moving).run()
    assert moves.find(f"s3://{OUTPUT[TARGET_REGION]}/initial-models/{KEY}") == before


def test_a_model_that_is_gone_fails_the_job_with_the_next_step(
    s3: Any, begin: Begin, moving: Deployment, ledger: Ledger
) -> None:
    s3.delete_object(Bucket=OUTPUT[SOURCE_REGION], Key=f"{KEY}/model.tar.gz")
    assert not model_copy(begin(), moving).run()
    item = ledger.job(SUBMISSION, 0)
    assert item is not None
    assert item.state == "Failed"
    assert item.reason.endswith("has no objects to copy. Correct copy_from or init_from, or restore the objects.")


def test_the_residency_of_the_job_that_trained_the_model_is_enforced(s3: Any, begin: Begin, moving: Deployment) -> None:
    with pytest.raises(UsageError, match=r"cannot be copied to eu-west-1: its data may only be in us\."):
        model_copy(begin(residency=("us",)), moving)


def test_a_grid_that_stopped_moving_data_copies_no_model(s3: Any, begin: Begin, deployment: Deployment) -> None:
    with pytest.raises(UsageError, match="`moves` is not set"):
        model_copy(begin(), deployment)


def test_a_child_only_copies_a_model_of_another_region(s3: Any, begin: Begin, ledger: Ledger) -> None:
    attempt = begin()
    assert needs_copy(attempt.job, attempt.item())
    here = attempt.job.model_copy(update={"init_from": MODEL.model_copy(update={"region": TARGET_REGION})})
    assert not needs_copy(here, attempt.item())


def test_a_child_does_not_copy_a_model_that_is_too_large(
    s3: Any, begin: Begin, moving: Deployment, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traingrid.child.model_copy.MAX_COPIED_BYTES", 3)
    assert not model_copy(begin(), moving).run()
    assert stored(s3, S3Uri(OUTPUT[TARGET_REGION], "initial-models")) == {}
    item = ledger.job(SUBMISSION, 0)
    assert item is not None
    assert "has 7 bytes, and at most 3 bytes are copied." in item.reason
