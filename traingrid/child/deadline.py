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
from traingrid.job.observed import UPLOADING

if TYPE_CHECKING:
    from traingrid.child.attempt import Attempt
    from traingrid.child.capacity import Capacity
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem


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
class InstanceChange(EarlyStop):
    """The time at which a training job is stopped, so that its line continues on other instances.

    Attributes:
        event: The event of the log line.
        job: The job of the attempt's Region, with the spot instances of its line.
        capacity: The known shortages.
    """

    event: ClassVar[str]
    job: Job
    capacity: Capacity

    def is_over(self, item: JobItem, *, runs: bool) -> bool:
        """Return True if the training job must be stopped.

        One that uploads its model is not stopped, nor one that nothing could replace, while the grid is paused.

        Args:
            runs: Whether the training job has its instances.
        """
        decided = self.is_decided(item)
        if decided is not None:
            return decided
        return item.phase != UPLOADING and self._changes(item, runs=runs) and self.attempt.ledger.pause() is None

    def look(self, item: JobItem, *, runs: bool) -> bool:
        """Stop the training job if its time is over; return True if it was stopped now.

        Args:
            runs: Whether the training job has its instances.
        """
        if not self.is_over(item, runs=runs):
            return False
        return self.stop(reason_of(self.job, item, self.attempt.clock.wall(), runs=runs), {"event": self.event})

    def _changes(self, item: JobItem, *, runs: bool) -> bool:
        raise NotImplementedError


@dataclass(kw_only=True)
class DeadlineWatch(InstanceChange):
    """Stops a spot training job so that its line can end on demand in time."""

    stop_reason: ClassVar = "deadline"
    event: ClassVar = "leaves_spot"

    def _changes(self, item: JobItem, *, runs: bool) -> bool:
        if runs and "epoch" not in item.progress:
            return False  # it may be about to end
        must_leave = must_leave_spot(self.job, item, self.attempt.clock.wall(), runs=runs)
        return must_leave and not (runs and self.capacity.is_missing(spot=False))


@dataclass(kw_only=True)
class ReturnWatch(InstanceChange):
    """Stops an on-demand training job so that its line continues on spot instances."""

    stop_reason: ClassVar = "return_to_spot"
    event: ClassVar = "returns_to_spot"

    def _changes(self, item: JobItem, *, runs: bool) -> bool:
        returns = runs and return_to_spot(self.job, item, self.attempt.clock.wall())
        return bool(returns) and not self.capacity.is_missing(spot=True)
