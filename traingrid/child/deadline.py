"""Deadline: moves a spot job to on-demand instances while there is just enough time to end by its `finish_by`.

`traingrid.child.spot_policy` decides. On-demand instances are a field of the ledger's item that changes together with
the attempt, so every child of an attempt sends the same request. A stop lets the training save a checkpoint, from which
the next attempt continues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from traingrid.child.early_stop import EarlyStop
from traingrid.child.spot_policy import must_leave_spot, reason_to_leave, work_of
from traingrid.job.failures import DEADLINE

if TYPE_CHECKING:
    from traingrid.child.attempt import Attempt
    from traingrid.ledger.items import JobItem


def leave_spot(attempt: Attempt, item: JobItem) -> bool:
    """Start the next attempt with on-demand instances if a spot job must leave, and has no training job.

    Returns:
        True if this attempt is over.
    """
    now = attempt.clock.wall()
    if not item.is_unrequested or not must_leave_spot(attempt.job, item, now):
        return False
    reason = f"{DEADLINE.sentence} {reason_to_leave(attempt.job, item, now)}"
    attempt.skip(DEADLINE, reason, attempt.candidate, on_demand=True)  # or another child of this line was faster
    return True


@dataclass(kw_only=True)
class DeadlineWatch(EarlyStop):
    """The time at which the spot training job of an attempt must be stopped, so that the line can end on demand."""

    stop_reason: ClassVar = "deadline"

    def is_over(self, item: JobItem, *, runs: bool) -> bool:
        """Return True if the training job must be stopped.

        A training that runs without reporting its progress is not stopped: it may be about to end.

        Args:
            runs: Whether the training job has its instances.
        """
        decided = self.is_decided(item)
        if decided is not None:
            return decided
        job = self.attempt.job
        must_leave = must_leave_spot(job, item, self.attempt.clock.wall())
        return must_leave and (not runs or work_of(job, item).is_measured)

    def look(self, item: JobItem, *, runs: bool) -> bool:
        """Stop the training job if its time is over; return True if it was stopped now.

        Args:
            runs: Whether the training job has its instances.
        """
        if not self.is_over(item, runs=runs):
            return False
        reason = reason_to_leave(self.attempt.job, item, self.attempt.clock.wall())
        return self.stop(reason, {"event": "leaves_spot"})
