"""Deadline: moves a job between spot and on-demand instances, so that it ends by its `finish_by` at the least cost.

`traingrid.child.spot_policy` decides. On-demand instances are a field of the ledger's item that changes together with
the attempt, so every child of an attempt sends the same request. A stop lets the training save a checkpoint, from which
the next attempt continues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from traingrid.child.early_stop import EarlyStop
from traingrid.child.spot_policy import must_leave_spot, reason_of, return_to_spot
from traingrid.job.failures import DEADLINE
from traingrid.ledger.errors import ItemError
from traingrid.ledger.shortages import CapacityPool

if TYPE_CHECKING:
    from traingrid.child.attempt import Attempt
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem

_UPLOADING = "Uploading"
"""The phase in which a training job has trained, and uploads its model."""


def leave_spot(attempt: Attempt, item: JobItem) -> bool:
    """Start the next attempt with on-demand instances if a spot job must leave, and has no training job.

    Returns:
        True if this attempt is over.
    """
    now = attempt.clock.wall()
    if not item.is_unrequested or not must_leave_spot(attempt.job, item, now):
        return False
    reason = f"{DEADLINE.sentence} {reason_of(attempt.job, item, now)}"
    attempt.skip(DEADLINE, reason, attempt.candidate, on_demand=True)  # or another child of this line was faster
    return True


@dataclass(kw_only=True)
class DeadlineWatch(EarlyStop):
    """The time at which the spot training job of an attempt must be stopped, so that the line can end on demand."""

    stop_reason: ClassVar = "deadline"

    def is_over(self, item: JobItem, *, runs: bool) -> bool:
        """Return True if the training job must be stopped.

        A training that runs without reporting its progress is not stopped, because it may be about to end; nor is one
        whose next attempt could not start on demand, or that has trained and uploads its model.

        Args:
            runs: Whether the training job has its instances.
        """
        decided = self.is_decided(item)
        if decided is not None:
            return decided
        is_kept = item.phase == _UPLOADING or (runs and "epoch" not in item.progress)
        if is_kept or not must_leave_spot(self.attempt.job, item, self.attempt.clock.wall(), runs=runs):
            return False
        return _may_launch(self.attempt) and not (runs and _is_short(self.attempt, spot=False))

    def look(self, item: JobItem, *, runs: bool) -> bool:
        """Stop the training job if its time is over; return True if it was stopped now.

        Args:
            runs: Whether the training job has its instances.
        """
        if not self.is_over(item, runs=runs):
            return False
        reason = reason_of(self.attempt.job, item, self.attempt.clock.wall(), runs=runs)
        return self.stop(reason, {"event": "leaves_spot"})


@dataclass(kw_only=True)
class ReturnWatch(EarlyStop):
    """The time at which the on-demand training job of an attempt is stopped, so that the line continues on spot.

    Attributes:
        job: The job with the spot instances of its line.
    """

    stop_reason: ClassVar = "return_to_spot"
    job: Job

    def is_over(self, item: JobItem, *, runs: bool) -> bool:
        """Return True if the training job must be stopped.

        Args:
            runs: Whether the training job has its instances.
        """
        decided = self.is_decided(item)
        if decided is not None:
            return decided
        if not runs or item.phase == _UPLOADING:
            return False
        returns = return_to_spot(self.job, item, self.attempt.clock.wall())
        return bool(returns) and _may_launch(self.attempt) and not _is_short(self.attempt, spot=True)

    def look(self, item: JobItem, *, runs: bool) -> bool:
        """Stop the training job if its time is over; return True if it was stopped now.

        Args:
            runs: Whether the training job has its instances.
        """
        if not self.is_over(item, runs=runs):
            return False
        reason = reason_of(self.job, item, self.attempt.clock.wall(), runs=True)
        return self.stop(reason, {"event": "returns_to_spot"})


def _may_launch(attempt: Attempt) -> bool:
    """Return True unless a person has paused the grid, so that nothing could replace a training job that is stopped."""
    return attempt.ledger.pause() is None


def _is_short(attempt: Attempt, *, spot: bool) -> bool:
    """Return True if another job has found no capacity; without an answer there may be some."""
    pool = CapacityPool(region=attempt.job.region, instance_type=attempt.job.instance_type, spot=spot)
    try:
        shortage = attempt.ledger.shortage(pool)
    except ItemError:
        return False
    return shortage is not None and not shortage.is_over(attempt.clock.wall())


def deadline_watch(attempt: Attempt, item: JobItem, job: Job) -> DeadlineWatch | ReturnWatch:
    """Return the watch of an attempt's deadline.

    Args:
        job: The job of the attempt's Region, with the spot instances of its line.
    """
    return ReturnWatch(attempt=attempt, job=job) if item.on_demand else DeadlineWatch(attempt=attempt)
