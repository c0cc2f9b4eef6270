"""Deadline: changes the instances or the Region of a job, so that it ends by its `finish_by` at the least cost.

`traingrid.child.spot_policy` decides. On-demand instances are a field of the ledger's item that changes together with
the attempt, and so is the Region; every child of an attempt sends the same request. A stop lets the training save a
checkpoint, from which the next attempt continues.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, cast

from traingrid.child.early_stop import EarlyStop
from traingrid.job.candidates import Candidate
from traingrid.job.failures import DEADLINE, SPOT_ELSEWHERE
from traingrid.job.observed import UPLOADING

if TYPE_CHECKING:
    from traingrid.backends.base import StopReason
    from traingrid.child.spot_policy import Change, SpotPolicy
    from traingrid.job.observed import TrainingJobDescription
    from traingrid.ledger.items import JobItem


def leave_spot(policy: SpotPolicy, item: JobItem, *, lacks_capacity: bool = False, is_paused: bool = False) -> bool:
    """Start the next attempt if a job without a training job must change its instances, or should change its Region.

    Args:
        policy: The decisions of the attempt.
        lacks_capacity: Whether its Region is known to have no spot instances at the moment.
        is_paused: Whether a person has paused the grid, so that a request elsewhere would wait, too.

    Returns:
        True if this attempt is over.
    """
    change = policy.change(item, lacks_capacity=lacks_capacity) if item.is_unrequested else None
    if change is None or (is_paused and change.failure is SPOT_ELSEWHERE):
        return False
    attempt, is_late = policy.capacity.attempt, change.failure is DEADLINE
    target = attempt.candidate if is_late else Candidate(change.region)
    # Or another child of this line was faster.
    attempt.skip(change.failure, f"{change.failure.sentence} {change.reason}", target, on_demand=is_late or None)
    return True


@dataclass(kw_only=True)
class InstanceChange(EarlyStop):
    """Stops a training job when its line must continue on other instances, or should continue in another Region."""

    stop_reasons: ClassVar = ("deadline", "return_to_spot", "spot_elsewhere")
    policy: SpotPolicy

    def is_over(self, item: JobItem, *, runs: bool) -> bool:
        """Return True if the training job must be stopped.

        Args:
            runs: Whether the training job has its instances.
        """
        decided = self.is_decided(item)
        return self._change(item, runs=runs) is not None if decided is None else decided

    def look(self, item: JobItem, training_job: TrainingJobDescription, *, runs: bool) -> bool:
        """Stop the training job if its time is over; return True if it was stopped now.

        Args:
            training_job: Its description, which is newer.
            runs: Whether the training job has its instances.
        """
        decided = self.is_decided(item)
        if decided:
            return self._stop(cast("StopReason", item.stopped_for))
        change = self._change(item, runs=runs, lacks_capacity=training_job.lacks_capacity) if decided is None else None
        if change is None:
            return False
        return self._stop(cast("StopReason", change.failure.name), change.reason, change.region)

    def _stop(self, stop_reason: StopReason, reason: str = "", next_region: str = "") -> bool:
        fields = {"event": "changes_instances", "failure": stop_reason, "target": next_region}
        return self.stop(stop_reason, reason, fields, next_region)

    def _change(self, item: JobItem, *, runs: bool, lacks_capacity: bool = False) -> Change | None:
        """Return the change for which the training job must be stopped.

        One that uploads its model is not stopped, nor one that nothing could replace, while the grid is paused.
        """
        if item.phase == UPLOADING or (runs and "epoch" not in item.progress):
            return None  # it may be about to end
        change = self.policy.change(item, runs=runs, lacks_capacity=lacks_capacity)
        if change is None or self.attempt.ledger.pause() is not None:
            return None
        if change.failure is DEADLINE and runs and self.policy.capacity.is_missing(self.policy.job.region, spot=False):
            return None
        return change
