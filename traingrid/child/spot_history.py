"""Spot history: how long a job had spot instances and waited for them, as its item in the ledger shows.

SageMaker bills a spot training job for its seconds times the share that spot instances cost of the price on demand. It
reports neither how often the job was interrupted nor how long it waited then. So the history of an ended attempt is its
duration and its billable time.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from traingrid.job.failures import CAPACITY, SHORTAGE, SPOT_ELSEWHERE, SPOT_INTERRUPTION
from traingrid.job.observed import INTERRUPTED, WAITING_PHASES
from traingrid.job.spot_decision import Instances, SpotPlace
from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from traingrid.job.candidates import Candidate
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem, RecordedAttempt

_UNKNOWN_PRICE = 0.5
"""The price of spot instances as a share of the price on demand, if a line has no prices. It only matters for whether a
return to spot instances pays; AWS states up to 90 % less
(https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training.html)."""
_WAITING = WAITING_PHASES | {INTERRUPTED}
_WITHOUT_CAPACITY = {CAPACITY.name, SHORTAGE.name, SPOT_ELSEWHERE.name, SPOT_INTERRUPTION.name}


def use_of(item: JobItem, now: float, *, runs: bool) -> tuple[Instances, float]:
    """Return the instances that a job uses, and the seconds since when.

    The time of a job that waits counts from the end of its last attempt with instances, or from its interruption.

    Args:
        now: The time in seconds since 1970.
        runs: Whether its training job has its instances.
    """
    since = epoch_seconds(item.opened_at)
    if runs:
        started = item.training_started_at or since
        return (Instances.ON_DEMAND if item.on_demand else Instances.SPOT), max(now - started, 0.0)
    if _was_interrupted(item):
        return Instances.NONE, max(now - _waits_since(item), 0.0)
    for attempt in reversed(item.tried):
        if not attempt.ended_at:
            break
        since = min(since, epoch_seconds(attempt.ended_at))
        if attempt.billable_seconds or attempt.reopened:
            break
    return Instances.NONE, max(now - since, 0.0)


def request_age(item: JobItem, now: float) -> float:
    """Return the seconds for which a job without instances waits for those that it has requested; 0 before a request.

    A pause, a quota, a shortage and the copy of a checkpoint delay the request, and show nothing about its Region.

    Args:
        now: The time in seconds since 1970.
    """
    if _was_interrupted(item):
        return max(now - _waits_since(item), 0.0)
    return 0.0 if item.is_unrequested else max(now - _requested_at(item), 0.0)


def vain_rounds(item: JobItem, places: int) -> int:
    """Return how often a job has left each of its places in vain since it last had instances, on average."""
    vain = 0
    for attempt in reversed(() if item.training_started_at else item.tried):
        if attempt.billable_seconds or attempt.reopened or attempt.on_demand:
            break
        vain += attempt.failure in _WITHOUT_CAPACITY
    return vain // places


def spot_place(job: Job, item: JobItem, now: float, candidate: Candidate, *, runs: bool) -> SpotPlace:
    """Return the spot instances of a job in a place, as far as its history shows.

    Args:
        now: The time in seconds since 1970.
        runs: Whether its training job has its instances.
    """
    price, ran, waited, missing = spot_price(job), 0.0, 0.0, -math.inf
    begins = 0
    for attempt in item.tried:
        ended = epoch_seconds(attempt.ended_at) if attempt.ended_at else 0
        if attempt.candidate == candidate and not attempt.on_demand:
            seconds = _instance_seconds(attempt, price)
            ran += seconds
            if ended and attempt.training_job and attempt.failure in _WITHOUT_CAPACITY:
                waited += max(ended - begins - seconds, 0.0) if begins else 0.0
                missing = max(missing, ended)
        begins = ended
    if candidate == item.candidate and not item.on_demand and not item.is_unrequested:
        current_ran, current_waited = _current(item, now, runs=runs)
        ran, waited = ran + current_ran, waited + current_waited
        missing = now if current_waited and not runs else missing
    return SpotPlace(name=candidate.region, price=price, ran=ran, waited=waited, missing_since=max(now - missing, 0.0))


def spot_price(job: Job) -> float:
    """Return the price of spot instances as a share of the price on demand."""
    if not job.spot_dollars_per_hour or not job.dollars_per_hour:
        return _UNKNOWN_PRICE
    return job.spot_dollars_per_hour / job.dollars_per_hour


def _instance_seconds(attempt: RecordedAttempt, price: float) -> float:
    return (attempt.billable_seconds or 0) / max(price, 0.1)


def _current(item: JobItem, now: float, *, runs: bool) -> tuple[float, float]:
    """Return how long the current attempt has had spot instances, and waited for them."""
    requested = _requested_at(item)
    started = item.training_started_at
    if not started:
        return 0.0, max(now - requested, 0.0)
    until = now if runs else _waits_since(item)
    return max(until - started, 0.0), max(started - requested, 0.0) + max(now - until, 0.0)


def _requested_at(item: JobItem) -> int:
    return epoch_seconds(item.requested_at or item.opened_at)


def _was_interrupted(item: JobItem) -> bool:
    return item.phase == INTERRUPTED or bool(item.training_started_at)


def _waits_since(item: JobItem) -> int:
    """Return the time since which a job without instances waits, after its training job had them."""
    return (item.phase in _WAITING and item.phase_at) or item.changed_at
