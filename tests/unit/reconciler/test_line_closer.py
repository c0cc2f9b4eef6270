"""Closing lines without a child: another training job with the line's name fails it, a vanished one does not."""

from typing import Any

from tests.support.ledger_items import job_key
from tests.support.training_jobs import FakeBackend
from traingrid.job.failures import CONFLICT, OTHER_REQUEST
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem
from traingrid.ledger.ledger import Ledger
from traingrid.names import TAG_GRID
from traingrid.reconciler.line_closer import Closer, Line
from traingrid.reconciler.sweep import Sweep
from traingrid.submission.batch_children import ChildStatus

SUBMISSION, NAME = "0123abcd", "traingrid-0123abcd-0-1"


def item_after_look(ledger: Ledger, job: Job, tags: dict[str, str] | None) -> tuple[JobItem, Sweep]:
    """Close the line of a child that has ended, while a training job with other fingerprint has the line's name."""
    ledger.open_job(SUBMISSION, job)
    ledger.record_job(job_key(), {"state": JobState.PENDING, "fingerprint": "asked"})
    item = ledger.job(SUBMISSION, 0)
    assert item is not None
    backend: Any = FakeBackend()
    backend.theirs, backend.their_tags = "theirs", tags
    done = Sweep()
    closer = Closer(grid="traingrid", ledger=ledger, backend=lambda *_: backend, grace_seconds=0.0)
    child = ChildStatus(id="array:0", status="FAILED")
    closer.look_at(Line(submission=SUBMISSION, index=0, region=job.region, child=child, cancels={}, item=item), done)
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
