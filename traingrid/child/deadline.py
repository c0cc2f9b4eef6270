"""Deadline: moves a spot job to on-demand instances while there is just enough time to end by its `finish_by`.

`traingrid.child.spot_policy` decides. The decision is recorded in the ledger's item before it takes effect: every child
of an attempt sends the same request, and a child that replaces this one knows why the training job is stopped. A stop
lets the training save a checkpoint, from which the next attempt continues.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.child.early_stop import stop_early
from traingrid.child.spot_policy import must_leave_spot, reason_to_leave, work_of
from traingrid.job.failures import DEADLINE
from traingrid.job.state import JobState

if TYPE_CHECKING:
    from traingrid.child.attempt import Attempt
    from traingrid.job.observed import TrainingJobDescription
    from traingrid.ledger.items import JobItem


def leave_spot(attempt: Attempt, item: JobItem) -> bool:
    """Start the next attempt with on-demand instances if a spot job must leave and no training job was requested.

    Returns:
        True if this attempt is over.
    """
    now = attempt.clock.wall()
    if item.training_job or not must_leave_spot(attempt.job, item, now):
        return False
    reason = f"{DEADLINE.sentence} {reason_to_leave(attempt.job, item, now)}"
    attempt.skip(DEADLINE, reason, attempt.candidate, on_demand=True)  # or another child of this line was faster
    return True


@dataclass(kw_only=True)
class DeadlineWatch:
    """The time at which the spot training job of an attempt must be stopped, so that the line can end on demand."""

    attempt: Attempt
    _is_stopped: bool = field(default=False, init=False)

    def is_over(self, item: JobItem, *, runs: bool) -> bool:
        """Return True if the training job must be stopped.

        A training that runs without reporting its progress is not stopped: it may be about to end.

        Args:
            runs: Whether the training job has its instances.
        """
        if self._is_stopped:
            return False
        if item.stopped_for:
            return item.stopped_for == DEADLINE.name  # an earlier child may have ended before it stopped it
        is_known = not runs or work_of(self.attempt.job, item).is_measured
        return is_known and must_leave_spot(self.attempt.job, item, self.attempt.clock.wall())

    def look(self, item: JobItem, training_job: TrainingJobDescription, *, runs: bool) -> bool:
        """Stop the training job if its time is over; return True if it was stopped now.

        Args:
            training_job: Its description, which is newer.
            runs: Whether the training job has its instances.
        """
        if training_job.has_ended or training_job.state == JobState.STOPPING or not self.is_over(item, runs=runs):
            return False
        self._is_stopped = True
        reason = reason_to_leave(self.attempt.job, item, self.attempt.clock.wall())
        return stop_early(self.attempt, DEADLINE, reason, {"event": "leaves_spot"})
