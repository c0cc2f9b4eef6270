"""Capacity wait: gives up a training job that waits for capacity, if the line can be trained elsewhere.

The decision is a field of the ledger's item (`stopped_for`), which is recorded before the training job is stopped. So a
child that replaces this one, an event and the reconciler know why it stopped. The decision is never withdrawn: if
capacity arrives in the same moment, the training is stopped at its start. The next attempt begins when the training job
has ended, so the line has at most one live training job.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.child.early_stop import stop_early
from traingrid.job.candidates import sentence_part
from traingrid.job.failures import CAPACITY, may_try_again
from traingrid.job.observed import WAITING_PHASES
from traingrid.job.state import JobState
from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from traingrid.child.attempt import Attempt
    from traingrid.job.observed import TrainingJobDescription
    from traingrid.ledger.items import JobItem


@dataclass(kw_only=True)
class CapacityWait:
    """The time within which the training job of an attempt must get its instances."""

    attempt: Attempt
    _since: float | None = field(default=None, init=False)  # when the training job was created
    _is_stopped: bool = field(default=False, init=False)

    def is_limited(self, item: JobItem) -> bool:
        """Return True if another candidate follows, to which the job may move.

        The last candidate waits without limit, and so does a job that has no attempt left.
        """
        job, candidates = self.attempt.job, self.attempt.candidates
        if not job.capacity_wait_seconds or self.attempt.candidate not in candidates[:-1]:
            return False
        return may_try_again(CAPACITY, item.failures_since_retry, job.retries, len(candidates))

    def is_over(self, item: JobItem) -> bool:
        """Return True if the training job should be looked at and perhaps stopped."""
        if self._is_stopped:
            return False
        if item.stopped_for:
            return (
                item.stopped_for == CAPACITY.name
            )  # an earlier child of this line may have ended before it stopped the training job
        waiting_since = epoch_seconds(item.opened_at) if self._since is None else self._since
        is_over = self.attempt.clock.wall() >= waiting_since + self.attempt.job.capacity_wait_seconds
        return is_over and not item.training_started_at and self.is_limited(item)

    def look(self, item: JobItem, training_job: TrainingJobDescription) -> bool:
        """Stop the training job if it has waited long enough.

        Args:
            item: The job's item.
            training_job: Its description, which is newer.

        Returns:
            True if it was stopped now.
        """
        if training_job.created_at is not None:
            self._since = training_job.created_at
        if training_job.has_ended or training_job.state == JobState.STOPPING:
            return False
        if not self.is_over(item) or not (item.stopped_for or waits(training_job)):
            return False
        self._is_stopped = True
        place = sentence_part(self.attempt.candidate, self.attempt.candidates)
        reason = f"No capacity {place} within {self.attempt.job.capacity_wait_seconds} s."
        fields = {"event": "capacity_wait_over", "seconds": self.attempt.job.capacity_wait_seconds}
        return stop_early(self.attempt, CAPACITY, reason, fields)


def waits(training_job: TrainingJobDescription) -> bool:
    """Return True if a training job exists and has no instances yet."""
    return training_job.started_at is None and training_job.phase in WAITING_PHASES
