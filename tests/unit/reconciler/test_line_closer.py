"""Closing lines without a child: another training job with the line's name fails it, a vanished one does not."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.ledger_items import existing, job_key
from tests.support.training_jobs import COMPLETED, STOPPED, TRAINING, FakeBackend
from traingrid.job.facts import JobFacts
from traingrid.job.failures import CONFLICT, OTHER_REQUEST
from traingrid.job.job import Job
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.user_requests import CANCEL_ALL
from traingrid.names import TAG_GRID
from traingrid.reconciler.line_closer import Closer, UnendedLine
from traingrid.reconciler.pass_report import PassReport
from traingrid.submission.batch_children import ChildStatus

SUBMISSION, NAME = "0123abcd", "traingrid-0123abcd-0-1"


def item_after_look(ledger: Ledger, job: Job, tags: dict[str, str] | None) -> tuple[JobItem, PassReport]:
    """Close the line of a child that has ended, while a training job with other fingerprint has the line's name."""
    ledger.open_job(SUBMISSION, job)
    ledger.record_job(job_key(), {"state": JobState.PENDING, "fingerprint": "asked"})
    item = ledger.job(SUBMISSION, 0)
    assert item is not None
    backend: Any = FakeBackend()
    backend.theirs, backend.their_tags = "theirs", tags
    done = PassReport()
    closer = Closer(grid="traingrid", ledger=ledger, backend=lambda *_: backend, grace_seconds=0.0)
    child = ChildStatus(id="array:0", status="FAILED")
    closer.look_at(
        UnendedLine(submission=SUBMISSION, index=0, region=job.region, child=child, cancels={}, item=item), done
    )
    after = ledger.job(SUBMISSION, 0)
    assert after is not None
    return after, done


def test_a_training_job_of_others_with_the_name_fails_the_line(ledger: Ledger, job: Job) -> None:
    item, done = item_after_look(ledger, job, {})
    assert (item.state, item.failure, done.closed) == ("Failed", CONFLICT.name, [NAME])


def test_another_request_of_the_grid_with_the_name_fails_the_line(ledger: Ledger, job: Job) -> None:
    item, done = item_after_look(ledger, job, {TAG_GRID: "traingrid"})
    assert (item.state, item.failure, done.closed) == ("Failed", OTHER_REQUEST.name, [NAME])
    assert "its fingerprint is theirs, and this job's is asked" in item.reason


def test_a_training_job_that_is_gone_before_its_tags_are_read_leaves_the_line_open(ledger: Ledger, job: Job) -> None:
    item, done = item_after_look(ledger, job, None)
    assert (item.state, item.failure, done.closed) == ("Pending", "", [])


SUSPENDED: JobFacts = {
    "state": JobState.IN_PROGRESS,
    "reason": "It waits because its object is suspended.",
    "training_job": NAME,
}
UNANSWERED: JobFacts = {"state": JobState.WAITING, "reason": "The quota is used up.", "failure": "quota"}
STOPPING: JobFacts = {
    "state": JobState.STOPPING,
    "reason": "No capacity in us-east-1 within 60 s.",
    "stopped_for": "capacity",
}
DELETED = replace(STOPPED, reason="The Job was deleted in the cluster, but not by traingrid.")
OVERTIME = replace(STOPPED, phase="MaxRuntimeExceeded")


@pytest.mark.parametrize("cancelled", [False, True], ids=["", "cancelled"])
@pytest.mark.parametrize("recorded", [SUSPENDED, UNANSWERED], ids=["waits", "was refused"])
@pytest.mark.parametrize(
    ("seen", "failure"),
    [(COMPLETED, ""), (OVERTIME, "max_runtime"), (DELETED, "stopped_by_user"), (STOPPED, "stopped_by_user")],
    ids=["completed", "overtime", "deleted", "stopped"],
)
def test_an_end_replaces_the_reason_of_a_wait(  # noqa: PLR0917  # fixtures and parameters
    ledger: Ledger, job: Job, recorded: JobFacts, seen: TrainingJobDescription, failure: str, cancelled: bool
) -> None:
    item = item_after_end(ledger, job, recorded, seen, cancelled=cancelled)
    reason = "Cancelled by Ada" if cancelled and seen is STOPPED else seen.reason
    assert (item.state, item.failure, item.reason) == (seen.state, failure, reason)


def test_an_end_keeps_the_reason_of_a_stop(ledger: Ledger, job: Job) -> None:
    item = item_after_end(ledger, job, STOPPING, STOPPED)
    assert (item.failure, item.reason) == ("capacity", STOPPING["reason"])


def test_a_stop_ends_the_reason_of_a_wait(ledger: Ledger, job: Job) -> None:
    stopping = replace(TRAINING, state=JobState.STOPPING, phase="Stopping")
    item = item_after_end(ledger, job, SUSPENDED, stopping)
    assert (item.state, item.reason) == ("Stopping", "")


def test_a_line_whose_child_failed_while_it_waited_has_the_reason_of_the_child(ledger: Ledger, job: Job) -> None:
    ledger.open_job(SUBMISSION, job)
    ledger.record_job(job_key(), UNANSWERED)
    child = ChildStatus(id="array:0", status="FAILED", reason="Host terminated.")
    item = item_after(ledger, job, FakeBackend(), child)
    assert item.reason == (
        "Its Batch child array:0 is FAILED: Host terminated. Until then, it waited: The quota is used up."
    )


def item_after_end(
    ledger: Ledger, job: Job, recorded: JobFacts, seen: TrainingJobDescription, *, cancelled: bool = False
) -> JobItem:
    """Close a line without a child, of which the ledger has the recorded facts, and its service the seen state."""
    ledger.open_job(SUBMISSION, job)
    ledger.record_job(job_key(), recorded)
    if cancelled:
        ledger.request_cancel(SUBMISSION, CANCEL_ALL, {"by": "Ada", "reason": ""})
    backend = FakeBackend(seen)
    backend.created.append(NAME)
    return item_after(ledger, job, backend, ChildStatus(id="array:0", status="FAILED"))


def item_after(ledger: Ledger, job: Job, backend: FakeBackend, child: ChildStatus) -> JobItem:
    closer = Closer(grid="traingrid", ledger=ledger, backend=lambda *_: backend, grace_seconds=0.0)
    item, cancels = ledger.job(SUBMISSION, 0), ledger.cancels(SUBMISSION)
    line = UnendedLine(submission=SUBMISSION, index=0, region=job.region, child=child, cancels=cancels, item=item)
    closer.look_at(line, PassReport())
    return existing(ledger.job(SUBMISSION, 0))
