"""Spot policy: when a job with a deadline leaves spot instances, and returns to them, by the work that it has left.

The decision is a pure function of the line, its item in the ledger and the time, so every child of the line decides the
same. This module reads the situation from the ledger; `traingrid.job.spot_decision` decides.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.child.spot_history import spot_place, use_of
from traingrid.job.spot_decision import Choice, Decision, Situation, decision, sentence
from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem

RESTART_SECONDS = 720
"""The assumed seconds from the end of one training job to the first step of the next: its stop, the request, the start
of instances, image and data. It is not measured in AWS."""
LOOK_SECONDS = 60.0
"""The longest time between two decisions of a child (`traingrid.backoff.look_seconds`)."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of a job, in seconds of training.

    Attributes:
        left: The training that remains, as far as its progress shows.
        lost: The training that an interruption undoes: now, if the job trains on spot instances; otherwise at most.
    """

    left: float
    lost: float


def may_leave_spot(job: Job) -> bool:
    """Return True if the policy applies: a spot job with a deadline.

    Jobs of service queues keep their spot instances, because on-demand instances may not be part of their share.
    """
    return job.spot and bool(job.finish_by) and job.launch == "direct"


def must_leave_spot(job: Job, item: JobItem, now: float, *, runs: bool = False) -> bool:
    """Return True if a job should train on demand from now on to end by its deadline.

    Args:
        now: The time in seconds since 1970.
        runs: Whether its training job has its instances.
    """
    if not may_leave_spot(job):
        return False
    return decision(situation_of(job, item, now, runs=runs)).choice is Choice.ON_DEMAND


def return_to_spot(job: Job, item: JobItem, now: float) -> Decision | None:
    """Return the decision to return to spot instances of a job that trains on demand; None if it stays.

    Only a training that reports its progress, and so has checkpoints, can continue from them.

    Args:
        job: The job with the spot instances of its line.
        now: The time in seconds since 1970.
    """
    if not (item.on_demand and may_leave_spot(job) and "epoch" in item.progress):
        return None
    decided = decision(situation_of(job, item, now, runs=True))
    return None if decided.choice is Choice.ON_DEMAND else decided


def situation_of(job: Job, item: JobItem, now: float, *, runs: bool = False) -> Situation:
    """Return the situation of a job with a deadline.

    Other Regions of the line are not part of it: a job moves there by its `capacity_wait` and recorded shortages.

    Args:
        now: The time in seconds since 1970.
        runs: Whether its training job has its instances.
    """
    work, (use, lasted) = work_of(job, item, runs=runs), use_of(item, now, runs=runs)
    return Situation(
        left=work.left,
        lost=work.lost,
        until=epoch_seconds(job.finish_by) - now,
        restart=RESTART_SECONDS,
        look=LOOK_SECONDS,
        use=use,
        lasted=lasted,
        current=spot_place(job, item, now, runs=runs),
    )


def work_of(job: Job, item: JobItem, *, runs: bool = False) -> Work:
    """Return the work of a job, from the epochs that the ledger records.

    A training that does not report epochs, or keeps no checkpoints, may have to begin again after an interruption, so
    it needs its whole duration twice. Attempts in other Regions count if their checkpoints were copied. The built-in
    trainer reports completed epochs; a script may report the one that it begins, so the last one does not count.

    Args:
        runs: Whether its training job has its instances.
    """
    duration = float(job.estimated_runtime_seconds or job.max_runtime_seconds)
    if not (job.epochs and job.checkpoints and "epoch" in job.metrics):
        return Work(left=duration, lost=duration)
    last_epoch, pace = _last_epoch(job, item)
    uncertain_epochs = 1 if job.source else 0
    trained = min(max(int(min(last_epoch, job.epochs)) - uncertain_epochs, 0), job.epochs)
    between_checkpoints = min(max(job.natural_hyperparameter("checkpoint_every"), 1), job.epochs)
    lost = between_checkpoints + uncertain_epochs
    if runs and not item.on_demand and "epoch" in item.progress:
        lost = trained % between_checkpoints
    seconds = pace or duration / job.epochs
    return Work(left=(job.epochs - trained) * seconds, lost=lost * seconds)


def reason_of(job: Job, item: JobItem, now: float, *, runs: bool = False) -> str:
    """Return the reason of the decision about a job, as a sentence for a person."""
    situation = situation_of(job, item, now, runs=runs)
    return sentence(decision(situation), situation, job.finish_by)


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
