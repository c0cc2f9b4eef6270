"""A submission's jobs as a person sees them: the ledger's word, and Batch's where the ledger has none yet."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.domain.deployments import SAMPLE
from traingrid.cli.status_table import reasons
from traingrid.deployment import Deployment
from traingrid.job import Job
from traingrid.ledger import Ledger
from traingrid.manifest import parse
from traingrid.s3_uri import S3Uri
from traingrid.status import SubmissionStatus, submission_status
from traingrid.storage import Storage
from traingrid.submission import jobs_key, jobs_of_lines, normalised


class FakeBatch:
    """A queue with one array, whose children are in these states."""

    def __init__(self, *children: str, reason: str = "") -> None:
        self.states, self.reason = children, reason

    def describe(self, _job: str) -> dict[str, Any]:
        ended = all(state in ("SUCCEEDED", "FAILED") for state in self.states)
        return {"status": "FAILED" if ended else "PENDING"}

    def children(self, job: str, _count: int) -> Iterator[dict[str, Any]]:
        for index, state in enumerate(self.states):
            yield {"jobId": f"{job}:{index}", "status": state, "statusReason": self.reason}


@pytest.fixture
def jobs(deployment: Deployment, storage: Storage, ledger: Ledger) -> list[Job]:
    """The sample, submitted."""
    made = jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")
    storage.write(S3Uri(deployment.manifest_bucket, jobs_key("0123abcd")), normalised(made)[0], "application/jsonl")
    ledger.claim_submission("0123abcd", "request-1", {"jobs": 4, "manifest": "s3://bucket/manifests/x.csv"})
    ledger.record_submitted("0123abcd", "array")
    return made


def seen(deployment: Deployment, ledger: Ledger, storage: Storage, batch: Any) -> SubmissionStatus:
    return submission_status("0123abcd", deployment.manifest_bucket, ledger, batch, storage)


def test_jobs_that_no_child_has_opened_wait_in_the_order_of_the_manifest(
    deployment: Deployment, ledger: Ledger, storage: Storage, jobs: list[Job]
) -> None:
    ledger.open_job("0123abcd", jobs[2])
    ledger.record_job("0123abcd", 2, 1, {"state": "InProgress", "phase": "Training"})
    status = seen(deployment, ledger, storage, FakeBatch("RUNNABLE", "STARTING", "RUNNING", "RUNNABLE"))
    assert [(job.region, job.state, job.phase) for job in status.jobs] == [
        ("us-east-1", "Pending", "RUNNABLE"),
        ("us-west-2", "Pending", "STARTING"),
        ("eu-west-1", "InProgress", "Training"),
        ("eu-central-1", "Pending", "RUNNABLE"),
    ]
    assert not status.ended


def test_a_child_that_gave_up_before_its_training_job_began_has_failed_and_says_why(
    deployment: Deployment, ledger: Ledger, storage: Storage, jobs: list[Job]
) -> None:
    for job in jobs:
        ledger.open_job("0123abcd", job)
    ledger.record_job("0123abcd", 1, 1, {"reason": "ResourceLimitExceeded: no instances"})
    status = seen(deployment, ledger, storage, FakeBatch(*["FAILED"] * 4, reason="Terminated by Ada"))
    assert [(job.state, job.reason) for job in status.jobs[:2]] == [
        ("Failed", "Terminated by Ada"),
        ("Failed", "ResourceLimitExceeded: no instances"),
    ]
    assert status.ended


def test_a_reason_cannot_steer_the_terminal_and_names_a_log_only_where_there_is_one(
    deployment: Deployment, ledger: Ledger, storage: Storage, jobs: list[Job]
) -> None:
    for job in jobs[:2]:
        ledger.open_job("0123abcd", job)
    ledger.record_job("0123abcd", 0, 1, {"state": "Failed", "training_job": "x", "reason": "boom \x1b[2J\nmore"})
    ledger.record_job("0123abcd", 1, 1, {"reason": "no instances"})
    first, second = reasons(seen(deployment, ledger, storage, FakeBatch()))
    assert "boom \\x1b[2J\n  its whole log: traingrid logs 0123abcd 0" in first
    assert second == "us-west-2 resized: no instances"
