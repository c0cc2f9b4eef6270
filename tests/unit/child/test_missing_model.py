"""Missing model: a completed job whose program wrote no model has none, also if SageMaker returns its URI."""

from typing import Any

import pytest

from tests.support.ledger_items import existing, job_key
from tests.support.refused_calls import refuse
from tests.support.sample_deployment import ACCOUNT, sample_deployment
from traingrid.aws.clients import client
from traingrid.child.missing_model import record_missing_model
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem
from traingrid.ledger.ledger import NO_MODEL, Ledger

BUCKET = f"traingrid-output-{ACCOUNT}-us-east-1"
KEY = "0123abcd/0/traingrid-0123abcd-0/output/model.tar.gz"


@pytest.fixture
def s3(aws: None) -> Any:
    s3 = client("s3", "us-east-1")
    s3.create_bucket(Bucket=BUCKET)
    return s3


def looked_at(job: Job, ledger: Ledger, state: JobState = JobState.COMPLETED) -> JobItem:
    ledger.open_job("0123abcd", job)
    ledger.record_job(job_key(), {"state": state, "artifact": f"s3://{BUCKET}/{KEY}"})
    record_missing_model(existing(ledger.job("0123abcd", 0)), sample_deployment(), ledger)
    return existing(ledger.job("0123abcd", 0))


def test_a_job_that_wrote_nothing_has_no_model(s3: Any, job: Job, ledger: Ledger) -> None:
    s3.put_object(Bucket=BUCKET, Key=f"{KEY}.part", Body=b"x")
    item = looked_at(job, ledger)
    assert (item.model, item.reason, item.state) == ("", NO_MODEL, JobState.COMPLETED)
    assert item.artifact.endswith("model.tar.gz"), "the ledger still has what SageMaker returned"


def test_a_model_stays(s3: Any, job: Job, ledger: Ledger) -> None:
    s3.put_object(Bucket=BUCKET, Key=KEY, Body=b"x")
    item = looked_at(job, ledger)
    assert (item.model, item.reason) == (f"s3://{BUCKET}/{KEY}", "")


@pytest.mark.parametrize("state", [JobState.FAILED, JobState.STOPPED])
def test_only_completed_jobs_are_looked_at(s3: Any, job: Job, ledger: Ledger, state: JobState) -> None:
    assert looked_at(job, ledger, state).model


def test_a_folder_that_may_not_be_listed_proves_nothing(
    s3: Any, job: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    refuse(monkeypatch, "ListObjectsV2")
    assert looked_at(job, ledger).model
