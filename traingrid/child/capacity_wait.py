"""Capacity wait: gives up a training job that waits for capacity, if the line can be trained elsewhere.

If capacity arrives in the same moment, the training is stopped at its start, because the decision is never withdrawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, ClassVar

from traingrid.child.early_stop import EarlyStop
from traingrid.job.candidates import sentence_part
from traingrid.job.failures import CAPACITY, may_try_again
from traingrid.job.observed import WAITING_PHASES
from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from traingrid.job.observed import TrainingJobDescription
    from traingrid.ledger.items import JobItem


@dataclass(kw_only=True)
class CapacityWait(EarlyStop):
    """The time within which the training job of an attempt must get its instances."""

    stop_reasons: ClassVar = ("capacity",)
    _since: float | None = field(default=None, init=False)  # when the training job was created

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
        decided = self.is_decided(item)
        if decided is not None:
            return decided
        waiting_since = epoch_seconds(item.opened_at) if self._since is None else self._since
        is_over = self.attempt.clock.wall() >= waiting_since + self.attempt.job.capacity_wait_seconds
        return is_over and not item.training_started_at and self.is_limited(item)

    def look(self, item: JobItem, training_job: TrainingJobDescription) -> bool:
        """Stop the training job if it has waited long enough.

        Args:
            training_job: Its description, which is newer.

        Returns:
            True if it was stopped now.
        """
        if training_job.created_at is not None:
            self._since = training_job.created_at
        if not self.is_over(item) or not (item.stopped_for or waits(training_job)):
            return False
        place = sentence_part(self.attempt.candidate, self.attempt.candidates)
        reason = f"No capacity {place} within {self.attempt.job.capacity_wait_seconds} s."
        fields = {"event": "capacity_wait_over", "seconds": self.attempt.job.capacity_wait_seconds}
        return self.stop("capacity", reason, fields)


def waits(training_job: TrainingJobDescription) -> bool:
    """Return True if a training job exists and has no instances yet."""
    return training_job.started_at is None and training_job.phase in WAITING_PHASES
