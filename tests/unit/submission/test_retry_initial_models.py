"""Retrying a line with `init_from`: refused before any cost if its model cannot be read any more."""

from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError, EndpointConnectionError

from tests.support.ledger_items import job_key
from tests.support.recording_queue import RecordingQueue
from tests.support.sample_deployment import ACCOUNT
from tests.support.sample_job import sample_job
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.initial_model import InitialModel
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submission_item import Array
from traingrid.models import archives as model_archives
from traingrid.submission.files import jobs_key, normalised
from traingrid.submission.retry import Retrier

HERE, THERE, TRAINED, AGAIN = "us-east-1", "eu-west-1", "89abcdef", "0123abcd"
BUCKET, KEY = f"traingrid-output-{ACCOUNT}-{HERE}", f"{TRAINED}/0/traingrid-{TRAINED}-0-1/output/model.tar.gz"
MODEL = InitialModel(submission=TRAINED, index=0, region=HERE, artifact=f"s3://{BUCKET}/{KEY}")
WHO = f"ine 1 cannot begin with the model of job {TRAINED}/0:"


class NoChildren:
    def of(self, *_: Any) -> dict[int, Any]:
        return {}


@pytest.fixture
def batch() -> RecordingQueue:
    return RecordingQueue()


@pytest.fixture
def retrier(deployment: Deployment, storage: Storage, ledger: Ledger, batch: Any) -> Retrier:
    """A retrier after a completed job, whose archive is in S3."""
    children: Any = NoChildren()
    made = Retrier(deployment=deployment, ledger=ledger, storage=storage, batch=batch, children=children)
    recorded(made, TRAINED, [sample_job(HERE)], {"state": JobState.COMPLETED, "artifact": MODEL.artifact})
    boto3.client("s3", HERE).create_bucket(Bucket=BUCKET)
    boto3.client("s3", HERE).put_object(Bucket=BUCKET, Key=KEY, Body=b"weights")
    return made


def recorded(retrier: Retrier, submission: str, jobs: list[Job], facts: Any) -> None:
    target = S3Uri(retrier.deployment.manifest_bucket, jobs_key(submission))
    body, index = normalised(jobs)
    retrier.storage.write(target, body, "application/jsonl")
    retrier.storage.write(S3Uri(target.bucket, target.key.replace(".jsonl", ".index")), index, "application/x")
    retrier.ledger.claim_submission(submission, "test", {"jobs": len(jobs), "manifest": "s3://bucket/x.csv"})
    retrier.ledger.record_submitted(submission, "array", [Array(batch_job="array", file="jobs.jsonl", count=len(jobs))])
    for job in jobs:
        retrier.ledger.open_job(submission, job)
        retrier.ledger.record_job(job_key(job.index, submission=submission), facts)


def failed(retrier: Retrier, region: str = HERE, others: int = 0) -> None:
    """Record a submission whose first job began with the model, and which has failed."""
    job = sample_job(region).model_copy(update={"init_from": MODEL})
    recorded(
        retrier,
        AGAIN,
        [job, *(sample_job(HERE, index) for index in range(1, others + 1))],
        {"state": JobState.FAILED},
    )


def refused(retrier: Retrier, index: int | None = None) -> str:
    with pytest.raises(UsageError) as error:
        retrier.retry(AGAIN, "me", index=index)
    item = retrier.ledger.job(AGAIN, 0)
    assert item is not None
    assert (item.attempt, item.state) == (1, JobState.FAILED)
    return str(error.value)


def test_a_line_whose_model_exists_is_retried(retrier: Retrier) -> None:
    failed(retrier)
    assert retrier.retry(AGAIN, "me").indices == [0]


def test_a_deleted_model_is_refused_with_the_line_the_model_and_the_next_step(
    retrier: Retrier, batch: RecordingQueue
) -> None:
    failed(retrier)
    boto3.client("s3", HERE).delete_object(Bucket=BUCKET, Key=KEY)
    assert refused(retrier) == (
        f"L{WHO} its archive {MODEL.artifact} does not exist any more. Nothing was retried. Name the job of another "
        "model in init_from, or restore the archive."
    )
    assert refused(retrier, index=0).startswith(f"L{WHO}")


def test_the_other_jobs_are_retried(retrier: Retrier) -> None:
    failed(retrier, others=1)
    boto3.client("s3", HERE).delete_object(Bucket=BUCKET, Key=KEY)
    done = retrier.retry(AGAIN, "me")
    assert done.indices == [1]
    assert done.left[0].startswith(f"l{WHO} its archive {MODEL.artifact} does not exist any more.")


def answering(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    class S3:
        def head_object(self, **_: Any) -> None:
            raise error

    monkeypatch.setattr(model_archives, "client", lambda *_: S3())


def test_a_model_that_may_not_be_read_is_refused(retrier: Retrier, monkeypatch: pytest.MonkeyPatch) -> None:
    failed(retrier)
    answering(monkeypatch, ClientError({"Error": {"Code": "403", "Message": "Forbidden"}}, "HeadObject"))
    assert refused(retrier).startswith(f"L{WHO} S3 denies access to its archive {MODEL.artifact}.")


def test_an_outage_of_s3_does_not_refuse_a_retry(retrier: Retrier, monkeypatch: pytest.MonkeyPatch) -> None:
    failed(retrier)
    answering(monkeypatch, EndpointConnectionError(endpoint_url="https://s3"))
    assert retrier.retry(AGAIN, "me").indices == [0]


def test_a_model_in_the_former_account_of_its_region_is_refused(
    retrier: Retrier, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed(retrier)
    monkeypatch.setattr(type(retrier.deployment), "account_of", lambda *_: "999999999999")
    text = refused(retrier)
    assert f"its archive is in {BUCKET}, which is not the output bucket of {HERE} in 999999999999" in text


def test_a_grid_that_stopped_moving_data_does_not_retry_a_line_that_needs_a_copy(retrier: Retrier) -> None:
    failed(retrier, THERE)
    assert f"the model is in {HERE}, and this grid does not copy data to {THERE}" in refused(retrier)
