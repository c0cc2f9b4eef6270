"""Line closer: records the outcomes of unwatched lines, and fails lines that will never have a training job."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.job.ownership import conflict
from traingrid.job.state import UNLAUNCHED_STATES, JobState
from traingrid.ledger.preconditions import Precondition
from traingrid.ledger.record_outcome import facts_of_deleted, record_seen
from traingrid.ledger.user_requests import cancel_of

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from traingrid.job.backend_traits import BackendName
    from traingrid.job.facts import JobFacts
    from traingrid.job.job import Job
    from traingrid.job.observed import Describer, TrainingJobDescription
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.ledger.user_requests import Cancel
    from traingrid.reconciler.pass_report import PassReport
    from traingrid.submission.batch_children import ChildStatus


@dataclass(frozen=True, kw_only=True)
class UnendedLine:
    """A line that has not ended, or that has no ledger item yet.

    Attributes:
        region: The Region in which it trains or would train.
        child: The Batch child that is responsible for it.
        cancels: The recorded cancels of its submission.
        item: Its ledger item; None if no child has created it.
        job: The job, if the line has no ledger item.
        lost: The reason why the job cannot be read either, as a sentence; empty if it can.
    """

    submission: str
    index: int
    region: str
    child: ChildStatus
    cancels: Mapping[str, Cancel]
    item: JobItem | None = None
    job: Job | None = None
    lost: str = ""


@dataclass(frozen=True, kw_only=True)
class Closer:
    """Closes lines.

    Attributes:
        backend: Returns a backend in a Region.
        grace_seconds: The minimum age of a line that is closed.
    """

    grid: str
    ledger: Ledger
    backend: Callable[[str, BackendName], Describer]
    grace_seconds: float

    def is_worth_a_look(self, item: JobItem, child: ChildStatus, running: Container[str]) -> bool:
        """Return True if SageMaker may have news of a line, to limit DescribeTrainingJob calls, which are throttled.

        Args:
            item: The line's ledger item.
            child: The child that is responsible for the line.
            running: The names of all running training jobs.
        """
        name = names.training_job(self.grid, item.submission, item.index, item.attempt)
        if (
            item.state == JobState.WAITING and not child.is_gone
        ):  # SageMaker rejected the request, and the child retries it
            return name in running
        if item.state in UNLAUNCHED_STATES:
            return name in running or item.training_job == name or self.is_over(item, child)
        return name not in running

    def look_at(self, line: UnendedLine, done: PassReport) -> None:
        """Record the outcome of a line's training job, or close the line if it will never have one.

        While a child watches the line, the child decides if a failure is retried. Without a child, a failure is final.
        """
        if line.item is None:
            self._end_unopened(line, done)
            return
        name = names.training_job(self.grid, line.submission, line.index, line.item.attempt)
        backend = self.backend(line.region, line.item.backend)
        cancel = cancel_of(line.cancels, line.index, line.region)
        if record_seen(self.grid, self.ledger, backend, name, watched=not line.child.is_gone, cancel=cancel):
            done.recorded.append(name)
        elif self.is_over(line.item, line.child):
            training_job = backend.describe(name)
            facts = (
                self._conflict(training_job, backend.tags(training_job), line.item)
                if training_job
                else _end(line, line.item, name)
            )
            if facts:
                self._close(line.item, facts, done)

    def is_over(self, item: JobItem | SubmissionItem, child: ChildStatus) -> bool:
        """Return True if the child ended so long ago that none of its requests can be in flight."""
        return child.is_gone and time.time() - child.ended_at >= self.grace_seconds and self.is_old(item)

    def is_old(self, item: JobItem | SubmissionItem) -> bool:
        """Return True if the item has not changed for `grace_seconds`."""
        return time.time() - item.changed_at >= self.grace_seconds

    def _conflict(
        self, training_job: TrainingJobDescription, tags: Mapping[str, str] | None, item: JobItem
    ) -> JobFacts | None:
        """Return the outcome of a line without child if another training job has the name of its training job.

        None if SageMaker no longer has that job, or it is this line's own, which another process has just recorded.
        """
        expected = item.fingerprint
        if tags is None or (expected and expected in (training_job.fingerprint, tags.get(names.TAG_FINGERPRINT))):
            return None
        failure, reason = conflict(self.grid, tags, training_job, expected)
        return {"state": JobState.FAILED, "failure": failure.name, "reason": reason}

    def _end_unopened(self, line: UnendedLine, done: PassReport) -> None:
        """Fail or stop a line without ledger item, unless a child creates the item at the same time."""
        has_ended = False
        if line.lost:
            has_ended = self.ledger.end_unreadable(line.submission, line.index, _end(line))
        if line.job:
            has_ended = self.ledger.end_unopened(line.submission, line.job, line.job.regions, _end(line))
        if has_ended:
            done.closed.append(names.training_job(self.grid, line.submission, line.index, 1))

    def _close(self, item: JobItem, facts: JobFacts, done: PassReport) -> None:
        """Record the outcome of a line without training job, unless its item has changed since it was read."""
        if self.ledger.record_job(item.key, facts, Precondition(as_read=item)):
            done.closed.append(names.training_job(self.grid, item.submission, item.index, item.attempt))


def _end(line: UnendedLine, item: JobItem | None = None, training_job: str = "") -> JobFacts:
    """Return the outcome of a line that has no training job (any longer) and will never have one."""
    child = line.child
    deletion = facts_of_deleted(training_job, item.backend) if item and item.was_seen else None
    if cancel := cancel_of(line.cancels, line.index, line.region):
        reason = deletion["reason"] if deletion else cancel.before_creation
        return {"state": JobState.STOPPED, "reason": reason}
    if deletion:
        return deletion
    recorded_reason = item.reason if item else ""
    waited = recorded_reason if item and item.state == JobState.WAITING else ""
    cause = line.lost or ("" if waited else recorded_reason) or child.reason or "no reason was recorded"
    child_text = f"Its Batch child {child.id} is {child.status}" if child.id else "It has no Batch child"
    if waited:
        cause = f"{cause.rstrip('.')}. Until then, it waited: {waited}"
    return {"state": JobState.FAILED, "reason": f"{child_text}: {cause}"}
