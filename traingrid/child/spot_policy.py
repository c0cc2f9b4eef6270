"""Spot policy: when a job with a deadline must leave spot instances, by the work that it has left.

The decision is a pure function of the line, its item in the ledger and the time, so every child of the line decides the
same. It is the safety net of "Can't Be Late" (Wu et al., NSDI 2024,
https://www.usenix.org/conference/nsdi24/presentation/wu-zhanghao): spot instances are used until the remaining time is
just enough to end on demand.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem

RESTART_SECONDS = 720
"""The assumed seconds from the end of one training job to the first step of the next: its stop, the request, the start
of instances, image and data. It is not measured in AWS."""
_STOP_AND_START = 2 * RESTART_SECONDS
"""An interruption may come just before the policy looks, and the on-demand instances must start."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a job, in seconds of training.

    Attributes:
        left: The training that remains, as far as its progress shows.
        lost: The training that an interruption can undo at most.
        is_measured: True if the current attempt has reported its progress.
    """

    left: float
    lost: float
    is_measured: bool = False

    @property
    def needed(self) -> float:
        """The seconds that the job needs until its end if its spot instances are interrupted now."""
        return self.left + self.lost + _STOP_AND_START


def may_leave_spot(job: Job) -> bool:
    """Return True if the policy applies: a spot job with a deadline.

    Jobs of service queues keep their spot instances, because on-demand instances may not be part of their share.
    """
    return job.spot and bool(job.finish_by) and job.launch == "direct"


def must_leave_spot(job: Job, item: JobItem, now: float) -> bool:
    """Return True if a job must train on demand from now on to end by its deadline.

    Args:
        now: The time in seconds since 1970.
    """
    return may_leave_spot(job) and now + work_of(job, item).needed > epoch_seconds(job.finish_by)


def work_of(job: Job, item: JobItem) -> Work:
    """Return the work of a job, from the epochs that the ledger records.

    A training that does not report epochs, or keeps no checkpoints, may have to begin again after an interruption, so
    it needs its whole duration twice. Attempts in other Regions count if their checkpoints were copied. The last epoch
    that was reported may not be complete, so it does not count.
    """
    duration = float(job.estimated_runtime_seconds or job.max_runtime_seconds)
    if not (job.epochs and job.checkpoints and "epoch" in job.metrics):
        return Work(left=duration, lost=duration)
    epoch, pace = _last_epoch(job, item)
    seconds = pace or duration / job.epochs
    left = min(max(job.epochs - max(epoch - 1, 0), 0), job.epochs) * seconds
    between_checkpoints = max(job.natural_hyperparameter("checkpoint_every"), 1) * seconds
    return Work(left=left, lost=between_checkpoints, is_measured="epoch" in item.progress)


def reason_to_leave(job: Job, item: JobItem, now: float) -> str:
    """Return the reason why a job leaves spot instances, as a sentence for a person."""
    left, until = work_of(job, item).left, epoch_seconds(job.finish_by) - now
    if until <= 0:
        return f"Its deadline {job.finish_by} has passed, with {_hours(left)} of work left."
    return f"{_hours(left)} of work left, {_hours(until)} until the deadline {job.finish_by}."


def _last_epoch(job: Job, item: JobItem) -> tuple[float, float]:
    """Return the last epoch from which the training continues, and the seconds of an epoch; 0 if they are not known."""
    paces = [item.epoch_seconds, *(attempt.epoch_seconds for attempt in reversed(item.tried))]
    pace = next((seconds for seconds in paces if seconds), 0.0)
    if "epoch" in item.progress:
        return item.progress["epoch"], pace
    regions = {job.region, item.checkpoint_from}
    for attempt in reversed(item.tried):
        if attempt.region in regions:
            if attempt.epoch:
                return attempt.epoch, pace
            regions.add(attempt.checkpoint_from)
    return 0, pace


def _hours(seconds: float) -> str:
    return f"{seconds / 3600:.1f} h"
