"""Folders in use: every folder that a job may still read is found."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.sample_job import sample_job
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.grid.deployment import Deployment
from traingrid.job.initial_model import InitialModel
from traingrid.job.job import Channel, Job, JobReplica
from traingrid.job.state import JobState
from traingrid.ledger.items import JobKey
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submission_item import Array
from traingrid.submission.files import jobs_key, normalised, retry_key
from traingrid.submission.folders_in_use import FolderFinder, FoldersInUse

COPY, REGION = "s3://traingrid-data-123456789012-eu-west-1/copies/day1", "eu-west-1"
SUBMISSION = "0123abcd"
Find = Callable[[], FoldersInUse]


@pytest.fixture
def find(storage: Storage, ledger: Ledger, deployment: Deployment) -> Find:
    finder = FolderFinder(storage=storage, bucket=deployment.manifest_bucket)
    return lambda: finder.find(ledger.everything())


def reading(uri: str, **changes: Any) -> Job:
    return sample_job(REGION).model_copy(update={"inputs": {"train": Channel(uri=uri)}, **changes})


def submit(storage: Storage, ledger: Ledger, deployment: Deployment, *jobs: Job) -> None:
    body, _ = normalised(jobs)
    storage.write(S3Uri(deployment.manifest_bucket, jobs_key(SUBMISSION)), body, "application/x")
    ledger.claim_submission(SUBMISSION, "test", {"manifest": "s3://m/a.csv", "jobs": len(jobs)})
    ledger.record_submitted(SUBMISSION, "b", [Array(batch_job="b", file="jobs.jsonl", count=len(jobs))])


@pytest.mark.parametrize(
    ("job", "expected"),
    [
        (reading("s3://other/x/", copy_to=COPY), True),
        (reading("s3://other/x/", copy_from=COPY), True),
        (reading(f"{COPY}/train/"), True),
        (reading("s3://traingrid-data-123456789012-eu-west-1/copies/"), True),
        (reading("s3://traingrid-data-123456789012-eu-west-1/copies/da"), True),
        (reading(f"{COPY}0/train/"), False),
        (reading("s3://other/x/"), False),
        (reading("", inputs={"train": Channel(file_system="fs-01234567", type="EFS", path="/a")}), False),
        (
            reading(
                "s3://other/x/",
                replicas={REGION: JobReplica(inputs={"train": Channel(uri=f"{COPY}/")}, output="s3://o/")},
            ),
            True,
        ),
        (reading("s3://other/list", inputs={"train": Channel(uri="s3://other/list", manifest=True)}), True),
    ],
)
def test_a_job_that_no_child_has_opened_uses_its_folders(  # noqa: PLR0917  # fixtures
    find: Find,
    storage: Storage,
    ledger: Ledger,
    deployment: Deployment,
    job: Job,
    expected: bool,  # a parameter of the test
) -> None:
    assert find().user_of(COPY, REGION) == ""
    submit(storage, ledger, deployment, job)
    assert find().user_of(COPY, REGION).startswith(f"job 0 of {SUBMISSION}") == expected


def test_an_ended_job_uses_no_folder_until_it_is_retried(
    find: Find, storage: Storage, ledger: Ledger, deployment: Deployment
) -> None:
    first, second = reading(f"{COPY}/"), reading("s3://other/x/", index=1)
    submit(storage, ledger, deployment, first, second)
    ledger.open_job(SUBMISSION, first)
    assert find().user_of(COPY, REGION)
    ledger.record_job(JobKey(submission=SUBMISSION, index=0, attempt=1), {"state": JobState.FAILED})
    assert find().user_of(COPY, REGION) == ""
    moved = second.model_copy(update={"copy_to": COPY})
    storage.write(S3Uri(deployment.manifest_bucket, retry_key(SUBMISSION, 1)), normalised([moved])[0], "application/x")
    ledger.record_array(SUBMISSION, Array(batch_job="c", file=retry_key(SUBMISSION, 1).rpartition("/")[2], count=1))
    assert find().user_of(COPY, REGION) == f"job 1 of {SUBMISSION}"


def test_a_submission_whose_jobs_are_not_written_yet_may_use_every_folder(find: Find, ledger: Ledger) -> None:
    ledger.claim_submission(SUBMISSION, "request", {"manifest": "s3://m/a.csv", "jobs": 1})
    assert find().user_of(COPY, REGION) == f"{SUBMISSION}, which is being submitted"


def test_a_model_with_which_an_open_job_begins_and_its_copy_are_in_use(
    find: Find, storage: Storage, ledger: Ledger, deployment: Deployment
) -> None:
    key = "89abcdef/0/traingrid-89abcdef-0-1/output"
    model = InitialModel(
        submission="89abcdef", index=0, region="us-east-1", artifact=f"s3://earlier-output/{key}/model.tar.gz"
    )
    job = reading("s3://other/x/", init_from=model, output="s3://output-there/0123abcd/0/")
    submit(storage, ledger, deployment, job)
    copy = f"s3://output-there/initial-models/{key}"
    assert find().user_of(copy, REGION) == f"job 0 of {SUBMISSION}"
    assert find().user_of(copy.replace("-0-1", "-0-2"), REGION) == ""
