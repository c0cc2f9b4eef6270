"""Submissions by hand: the lines that children store and train if a manifest was given to Batch without the intake."""

import json
from contextlib import nullcontext
from dataclasses import replace
from typing import Any

import pytest

from tests.support.ledger_items import existing
from tests.support.sample_deployment import SAMPLE
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.child.environment import Child, find_job, with_stored_jobs
from traingrid.child.main import run_child
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.ledger.damage import intact
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.rejections import Rejection, unresolved
from traingrid.submission.batch_children import ChildStatus
from traingrid.submission.files import submission_id
from traingrid.submission.status import submission_status
from traingrid.submission.submitted_jobs import submitted_jobs

ONE_LINE = SAMPLE.splitlines(keepends=True)[0]


def found(environment: dict[str, str], deployment: Deployment, storage: Storage, ledger: Ledger) -> tuple[str, Job]:
    """Return the submission and the job of a child."""
    child = with_stored_jobs(Child.from_environment(environment), deployment, storage, ledger)
    return child.submission, find_job(child, storage)


@pytest.mark.parametrize(
    "case",
    [
        (SAMPLE, "3", "4 lines, but this Batch job is an array of 3"),
        (SAMPLE, "5", "4 lines, but this Batch job is an array of 5"),
        (SAMPLE, None, "4 lines, but this Batch job is not an array"),
        (ONE_LINE, "2", "1 line, but this Batch job is an array of 2"),
    ],
)
def test_a_raw_manifest_is_refused_unless_the_array_has_a_child_for_each_line(
    storage: Storage,
    ledger: Ledger,
    environment: dict[str, str],
    capsys: pytest.CaptureFixture[str],
    case: tuple[str, str | None, str],
) -> None:
    content, size, sentence = case
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), content.encode(), "text/csv")
    for index in range(int(size or 1)):
        array = {"AWS_BATCH_JOB_ARRAY_INDEX": str(index), "AWS_BATCH_JOB_ARRAY_SIZE": size} if size else {}
        own = {name: value for name, value in environment.items() if "_ARRAY_" not in name or name == "S3_ARRAY_FILE"}
        assert run_child(own | array) == 2
        message = json.loads(capsys.readouterr().err)["message"]
        assert f"{sentence}. No job was started." in message
        fix = "with an array size of 4" if content == SAMPLE else "as a single job, without an array size"
        assert f"Submit the job definition again {fix}." in message
    assert list(ledger.submissions()) == []
    (rejection,) = ledger.rejections()  # of the first child only
    assert isinstance(rejection, Rejection)
    assert rejection.sentence.startswith(f"Batch job {environment['AWS_BATCH_JOB_ID'].partition(':')[0]} with ")
    assert f"{sentence}. No job was started. Submit the job definition again {fix}." in rejection.sentence


def test_a_raw_manifest_with_errors_is_recorded_until_it_is_submitted_again(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), b"us-east-1\n" * 4, "text/csv")
    for _ in range(2):
        assert run_child(environment | {"AWS_BATCH_JOB_ID": "1111:0", "AWS_BATCH_JOB_ARRAY_INDEX": "0"}) == 2
    (rejection,) = unresolved(intact(ledger.rejections()), [])
    assert (rejection.errors, rejection.batch_job) == (4, "1111")
    assert "Batch job 1111 with " in rejection.sentence
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), SAMPLE.encode(), "text/csv")
    found(environment, deployment, storage, ledger)
    earlier = replace(rejection, at="2026-01-01T00:00:00Z")
    assert unresolved([earlier], intact(ledger.submissions())) == []


def test_a_raw_manifest_of_one_line_needs_no_array(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), ONE_LINE.encode(), "text/csv")
    own = {name: value for name, value in environment.items() if not name.startswith("AWS_BATCH_JOB_ARRAY_")}
    submission, job = found(own, deployment, storage, ledger)
    assert job.index == 0
    (array,) = existing(ledger.submission(submission)).arrays
    assert (array.count, array.batch_job) == (1, own["AWS_BATCH_JOB_ID"].partition(":")[0])


def test_retries_of_a_batch_job_share_a_submission(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), SAMPLE.encode(), "text/csv")

    def submission(batch_job: str, attempt: str) -> str:
        variables = environment | {"AWS_BATCH_JOB_ID": batch_job, "AWS_BATCH_JOB_ATTEMPT": attempt}
        return found(variables, deployment, storage, ledger)[0]

    assert submission("1111:0", "1") == submission("1111:3", "2") != submission("2222:0", "1")


def test_a_manifest_given_to_batch_is_a_normal_submission(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), SAMPLE.encode(), "text/csv")
    for index in ("3", "1"):
        variables = environment | {"AWS_BATCH_JOB_ID": f"1111:{index}", "AWS_BATCH_JOB_ARRAY_INDEX": index}
        submission, job = found(variables, deployment, storage, ledger)
        ledger.open_job(submission, job)

    class RunningArray:
        def state(self, _head: Any) -> str:
            return "PENDING"

        def of(self, head: Any, lines: Any, *, is_exact: bool) -> dict[int, ChildStatus]:
            return {index: ChildStatus(id=f"{head.batch_job}:{index}", status="RUNNING") for index in lines}

    (item,) = intact(ledger.submissions())
    assert (item.submission, item.state, item.jobs) == (submission, "Submitted", 4)
    children: Any = RunningArray()
    status = submission_status(submission, deployment.manifest_bucket, ledger, children, storage)
    assert (status.batch_job, status.ended) == ("1111", False)
    assert [(job.region, job.phase) for job in status.jobs] == [
        (region, "RUNNING") for region in ("us-east-1", "us-west-2", "eu-west-1", "eu-central-1")
    ]


def test_a_manifest_submitted_by_the_intake_is_not_trained_twice(
    deployment: Deployment,
    storage: Storage,
    ledger: Ledger,
    environment: dict[str, str],
    capsys: pytest.CaptureFixture[str],
) -> None:
    uri = S3Uri(deployment.manifest_bucket, "manifests/x.csv")
    version = storage.write(uri, SAMPLE.encode(), "text/csv")
    for address in (str(uri), f"{uri}?versionId={version}"):
        assert run_child(environment | {"S3_ARRAY_FILE": address}) == 2
        output = capsys.readouterr().err
        assert "manifests/x.csv" in output
        assert f"upload it below s3://{deployment.manifest_bucket}/by-hand/ instead" in output
    assert list(ledger.submissions()) == []


def test_the_lines_that_the_first_child_read_are_those_of_all_children(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    uri = S3Uri.parse(environment["S3_ARRAY_FILE"])
    storage.write(uri, SAMPLE.encode(), "text/csv")
    first = found(environment, deployment, storage, ledger)
    storage.write(uri, SAMPLE.replace("resized", "other").encode(), "text/csv")
    assert found(environment, deployment, storage, ledger) == first
    storage.write(uri, b"damaged", "text/csv")
    assert found(environment | {"AWS_BATCH_JOB_ID": "11111111-2222:0"}, deployment, storage, ledger) == first
    assert ledger.rejections() == []


@pytest.mark.parametrize("writes", [0, 1, 2, 3])
def test_a_first_child_that_dies_while_it_stores_the_lines_is_continued_by_the_next(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str], writes: int
) -> None:
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), SAMPLE.encode(), "text/csv")

    class KilledError(Exception):
        pass

    class MortalStorage(Storage):
        left = writes

        def write_if_none(self, uri: S3Uri, content: bytes, content_type: str) -> bool:
            if not self.left:
                raise KilledError
            self.left -= 1
            return super().write_if_none(uri, content, content_type)

        def current_version(self, uri: S3Uri) -> str | None:
            if self.left < 1:
                raise KilledError
            return super().current_version(uri)

    with pytest.raises(KilledError) if writes < 3 else nullcontext():
        found(environment, deployment, MortalStorage(), ledger)
    submission, job = found(environment, deployment, storage, ledger)
    (array,) = existing(ledger.submission(submission)).arrays
    jobs = S3Uri(deployment.manifest_bucket, f"submissions/{submission}/{array.file}")
    assert (job.index, array.version) == (3, storage.current_version(jobs))
    stored = submitted_jobs(storage, deployment.manifest_bucket, existing(ledger.submission(submission)))
    assert [job.index for job in intact(stored)] == [0, 1, 2, 3]


def test_a_batch_job_whose_submission_id_is_taken_trains_nothing(
    deployment: Deployment, storage: Storage, ledger: Ledger, environment: dict[str, str]
) -> None:
    storage.write(S3Uri.parse(environment["S3_ARRAY_FILE"]), SAMPLE.encode(), "text/csv")
    taken = submission_id("11111111-2222")
    ledger.claim_submission(taken, "request", {"manifest": "s3://m/manifests/x.csv", "jobs": 4})
    with pytest.raises(UsageError, match=f"Another submission has the id of this one, {taken}"):
        found(environment, deployment, storage, ledger)
