"""Stops: ends training jobs that no line needs, and releases those that have ended."""

from __future__ import annotations

import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traingrid.backends.inventory import MAX_ACTIVE_SECONDS, ListingTimeoutError, Window
from traingrid.backends.joint_inventory import PartlyListedError
from traingrid.backends.training_job import is_ours, is_superseded, owns
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.damage import Damaged
from traingrid.ledger.submissions import SubmissionState
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.ledger.user_requests import cancel_of, is_cancelled

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

    from traingrid.backends.inventory import Inventory
    from traingrid.backends.training_job import TrainingJob
    from traingrid.job.facts import JobFacts
    from traingrid.ledger.ledger import Ledger
    from traingrid.reconciler.line_closer import Closer
    from traingrid.reconciler.pass_report import PassReport
    from traingrid.reconciler.reach import Reach

_TRAINING_JOB = ":training-job/"


@dataclass(frozen=True, kw_only=True)
class Stops:
    """The stops of one pass.

    Attributes:
        submissions: The open submissions, as the pass read them.
        deadline: The time at which it starts no more work.
    """

    ledger: Ledger
    inventory: Callable[[str], Inventory]
    closer: Closer
    submissions: Mapping[str, SubmissionState]
    reach: Reach
    deadline: float
    done: PassReport

    def stop_unwanted(self, active: Iterable[TrainingJob]) -> None:
        """Stop those of some training jobs that are cancelled or orphaned."""
        for job in active:
            if time.time() >= self.deadline:
                return  # the next pass stops the rest
            label = self.reach.label(job.region, job.backend)
            if self.reach.is_given_up(label):
                continue
            with self.reach.record_errors(label):
                submission = self.submissions.get(job.line[0], SubmissionState())
                if self._is_unwanted(job, submission) and self.inventory(job.region).stop(job):
                    self.done.stopped.append(job.name)
                    self._record_why(job, submission)

    def complete(self, active: Iterable[TrainingJob]) -> None:
        """Complete the stops of training jobs, and stop those that wait for a failed host."""
        for job in active:
            label = self.reach.label(job.region, job.backend)
            is_asked = job.may_hang or job.state == JobState.STOPPING
            if is_asked and time.time() < self.deadline and not self.reach.is_given_up(label):
                with self.reach.record_errors(label):
                    self.inventory(job.region).complete_stop(job)

    def stop_older(self, regions: Collection[str], since: float) -> None:
        """Stop unwanted training jobs that are older than those that each pass lists, as a part of the daily scan.

        A list by state has no position at which the next pass could continue, so all of them are listed.
        """
        progress = self.ledger.history_scan()
        oldest = time.time() - MAX_ACTIVE_SECONDS
        scan_positions = dict(progress.listed)
        for region in regions:
            before = scan_positions.get(region, int(since))
            if before <= oldest or time.time() >= self.deadline or self.reach.is_given_up(region):
                continue
            older: list[TrainingJob] = []
            with self.reach.record_errors(region), suppress(ListingTimeoutError, PartlyListedError):
                for job in self.inventory(region).listed(
                    window=Window(since=oldest, before=before, deadline=self.deadline)
                ):
                    if _TRAINING_JOB in job.arn:
                        scan_positions[region] = min(int(job.created_at) + 1, before)
                    if job.is_active:
                        older.append(job)
                scan_positions[region] = int(oldest)
            self.stop_unwanted(older)
        if scan_positions != progress.listed:
            self.ledger.record_history_scan(replace(progress, listed=scan_positions))

    def release(self, regions: Collection[str]) -> None:
        """Release ended training jobs that their service keeps until their ends are recorded."""
        for region in regions:
            label = self.reach.label(region, "eks")  # SageMaker releases nothing
            if self.reach.is_given_up(label):
                continue
            with self.reach.record_errors(label):
                inventory = self.inventory(region)
                for job in inventory.ended():
                    if time.time() >= self.deadline:
                        return  # the next pass releases the rest
                    if self._is_settled(job) and inventory.release(job):
                        self.done.released.append(job.name)

    def _is_unwanted(self, job: TrainingJob, submission: SubmissionState) -> bool:
        """Return True if a training job of this grid is cancelled or orphaned, and must be stopped."""
        index = job.identity.index
        item = submission.live.get(index)
        if not owns(item, job):
            current = self.ledger.look_up(*job.line)  # the pass's copy may be older than the training job
            if isinstance(current, Damaged):  # its line may own it, so only a cancel stops it
                unwanted = is_cancelled(submission.cancels, index, job.region) and job.state != "Stopping"
                return unwanted and is_ours(self.inventory(job.region), job, None)
            item = current
        if owns(item, job):
            unwanted = is_cancelled(submission.cancels, index, job.region)
        elif is_superseded(item, job):
            unwanted = True  # at once: no later write can make it the line's again, however young it is
        else:
            unwanted = time.time() - job.created_at >= self.closer.grace_seconds
        return unwanted and job.state != "Stopping" and is_ours(self.inventory(job.region), job, item)

    def _is_settled(self, job: TrainingJob) -> bool:
        """Return True if an ended training job is recorded, and no request to create it can be in flight.

        Another attempt begins after the end of the previous one is recorded. The end of an orphan, which the ledger
        does not have, is never recorded.
        """
        now = time.time()
        item = self.ledger.look_up(*job.line)
        if isinstance(item, Damaged):
            return False  # its end may not be recorded
        if now - (job.ended_at or job.created_at) < self.closer.grace_seconds:
            return False
        if item is None or (item.attempt, item.backend) != (job.identity.attempt, job.backend):
            return item is None or now - epoch_seconds(item.opened_at) >= self.closer.grace_seconds
        return item.state in FINAL_STATES and self.closer.is_old(item)

    def _record_why(self, job: TrainingJob, submission: SubmissionState) -> None:
        """Record the reason of a cancel in the item of the job whose training job was stopped for it."""
        item = submission.live.get(job.identity.index)
        cancel = cancel_of(submission.cancels, job.identity.index, job.region)
        if item and owns(item, job) and cancel:
            stopping: JobFacts = {"state": JobState.STOPPING, "phase": "Stopping", "reason": cancel.while_stopping}
            self.ledger.record_job(item.key, stopping)
