"""Submission status: the ledger's states, and Batch's states for jobs that are not in the ledger yet."""

import csv
import io
from typing import Any

import pytest

from tests.support.ledger_items import job_key
from tests.support.sample_deployment import SAMPLE
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.export import write_rows
from traingrid.cli.status_table import JOB_ROWS, reasons, status_rows, status_table
from traingrid.grid.deployment import Deployment
from traingrid.job.facts import JobFacts
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.submission.batch_children import ChildStatus
from traingrid.submission.files import jobs_key, normalised
from traingrid.submission.status import SubmissionStatus, submission_status


class FakeBatch:
    """A queue with one array with children in the given states."""

    def __init__(self, *children: str, reason: str = "") -> None:
        self.states, self.reason = children, reason

    def state(self, _head: dict[str, Any]) -> str:
        return "FAILED" if all(state in ("SUCCEEDED", "FAILED") for state in self.states) else "PENDING"

    def of(self, _head: dict[str, Any], lines: dict[int, Any], *, is_exact: bool) -> dict[int, ChildStatus]:
        assert is_exact
        return {
            index: ChildStatus(id=f"array:{index}", status=state, reason=self.reason)
            for index, state in enumerate(self.states)
            if index in lines
        }


@pytest.fixture
def jobs(deployment: Deployment, storage: Storage, ledger: Ledger) -> list[Job]:
    """The jobs of the submitted sample."""
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
    ledger.record_job(job_key(2), {"state": JobState.IN_PROGRESS, "phase": "Training"})
    status = seen(deployment, ledger, storage, FakeBatch("RUNNABLE", "STARTING", "RUNNING", "RUNNABLE"))
    assert [(job.region, job.state, job.phase) for job in status.jobs] == [
        ("us-east-1", "Pending", "RUNNABLE"),
        ("us-west-2", "Pending", "STARTING"),
        ("eu-west-1", "InProgress", "Training"),
        ("eu-central-1", "Pending", "RUNNABLE"),
    ]
    assert not status.ended


def test_a_failed_child_is_shown_with_its_reason_until_the_job_closes(
    deployment: Deployment, ledger: Ledger, storage: Storage, jobs: list[Job]
) -> None:
    for job in jobs:
        ledger.open_job("0123abcd", job)
    ledger.record_job(job_key(1), {"reason": "ResourceLimitExceeded: no instances"})
    status = seen(deployment, ledger, storage, FakeBatch(*["FAILED"] * 4, reason="Terminated by Ada"))
    assert [(job.state, job.reason) for job in status.jobs[:2]] == [
        ("Pending", "Terminated by Ada"),
        ("Pending", "ResourceLimitExceeded: no instances"),
    ]
    assert status.jobs[0].phase == "child failed, closed within two passes"
    assert not status.ended
    for job in jobs:
        ledger.record_job(job_key(job.index), {"state": JobState.FAILED})
    assert seen(deployment, ledger, storage, FakeBatch(*["FAILED"] * 4)).ended


def test_a_reason_is_escaped_and_names_the_available_log(
    deployment: Deployment, ledger: Ledger, storage: Storage, jobs: list[Job]
) -> None:
    for job in jobs[:3]:
        ledger.open_job("0123abcd", job)
    failed: JobFacts = {"state": JobState.FAILED, "training_job": "x", "reason": "boom \x1b[2J\nmore"}
    ledger.record_job(job_key(), {**failed, "training_job_arn": "arn"})
    ledger.record_job(job_key(1), {"reason": "no instances"})
    ledger.record_job(job_key(2), failed)  # requested and refused
    first, second, third = reasons(seen(deployment, ledger, storage, FakeBatch()))
    assert "boom \\x1b[2J\n  complete log: traingrid logs 0123abcd 0" in first
    assert second == "us-west-2 resized: no instances"
    assert third.endswith("\n  log of its child: traingrid logs --child 0123abcd 2")


def test_a_waiting_job_shows_its_quota_and_previous_attempts(
    deployment: Deployment, ledger: Ledger, storage: Storage, jobs: list[Job]
) -> None:
    ledger.open_job("0123abcd", jobs[0], ["us-east-1", "us-west-2"])
    tried: AttemptFacts = {"region": "us-east-1", "state": JobState.FAILED, "failure": "capacity"}
    ledger.next_attempt(job_key(), tried, "us-west-2")
    ledger.record_job(job_key(0, 2), {"state": JobState.WAITING, "reason": "ml.p3.16xlarge for training job usage: 0"})
    status = seen(deployment, ledger, storage, FakeBatch(*["RUNNING"] * 4))
    assert (status.jobs[0].state, status.jobs[0].region) == ("Waiting", "us-west-2")
    assert status.jobs[0].tried == ("us-east-1 (capacity)",)
    assert "ml.p3.16xlarge for training job usage" in reasons(status)[0]
    assert status_table(status).headings[-1] == "previous attempts"
    assert not status.ended


def test_a_cancelled_job_is_marked_until_its_child_is_gone(
    deployment: Deployment, ledger: Ledger, storage: Storage, jobs: list[Job]
) -> None:
    ledger.request_cancel("0123abcd", "region#us-east-1", {"by": "Ada", "reason": ""})
    going = seen(deployment, ledger, storage, FakeBatch(*["RUNNING"] * 4))
    assert [job.cancelled for job in going.jobs] == [True, False, False, False]
    gone = seen(deployment, ledger, storage, FakeBatch(*["FAILED"] * 4, reason="Terminated"))
    assert [(job.state, job.reason) for job in gone.jobs[:2]] == [
        ("Stopped", "Cancelled by Ada"),
        ("Pending", "Terminated"),
    ]


def test_a_stopped_job_shows_the_reason_of_its_cancel(
    deployment: Deployment, ledger: Ledger, storage: Storage, jobs: list[Job]
) -> None:
    for index, reason in ((0, ""), (1, "it diverged")):
        ledger.open_job("0123abcd", jobs[index])
        ledger.record_job(job_key(index), {"state": JobState.STOPPED, "reason": reason})
    ledger.request_cancel("0123abcd", "all", {"by": "the reconciler", "reason": "the budget is reached"})
    status = seen(deployment, ledger, storage, FakeBatch(*["RUNNING"] * 4))
    why = "Cancelled by the reconciler: the budget is reached"
    assert [job.reason for job in status.jobs] == [why, "it diverged", "", ""]
    assert reasons(status)[0].endswith(why)


def test_formulas_become_text_in_an_export(
    deployment: Deployment,
    ledger: Ledger,
    storage: Storage,
    jobs: list[Job],
    capsys: pytest.CaptureFixture[str],
) -> None:
    named = jobs[0].model_copy(update={"name": "=HYPERLINK(1)"})
    ledger.open_job("0123abcd", named)
    facts: JobFacts = {"state": JobState.COMPLETED, "reason": "@x\x1b[2J", "metrics": {"loss": -0.5}}
    ledger.record_job(job_key(), facts)
    write_rows(status_rows(seen(deployment, ledger, storage, FakeBatch(*["RUNNING"] * 4))), JOB_ROWS, "csv")
    first, *others = csv.DictReader(io.StringIO(capsys.readouterr().out))
    assert (first["name"], first["reason"], first["metrics.loss"]) == ("'=HYPERLINK(1)", "'@x\\x1b[2J", "-0.5")
    assert [row["metrics.loss"] for row in others] == ["", "", ""]


def test_the_remaining_time_of_a_training_is_that_of_its_epochs_in_the_ledger(
    deployment: Deployment, ledger: Ledger, storage: Storage, jobs: list[Job]
) -> None:
    ledger.open_job("0123abcd", jobs[0])
    assert ledger.record_job(job_key(0), {"state": JobState.IN_PROGRESS, "epochs": 20, "training_started_at": 1})
    for epoch, epoch_seconds, remaining in ((1.0, 0.0, None), (2.0, 30.0, 540.0)):
        assert ledger.record_progress(job_key(0), {"epoch": epoch}, epoch_seconds)
        assert seen(deployment, ledger, storage, FakeBatch("RUNNING")).jobs[0].remaining == remaining
