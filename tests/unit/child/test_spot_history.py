"""Spot history: the time with and without spot instances, from the attempts in the ledger."""

import math
from dataclasses import replace

import pytest

from tests.support.training_jobs import FIRST_MOMENT
from traingrid.child.spot_history import request_age, spot_place, spot_price, use_of, vain_rounds
from traingrid.job.job import Job
from traingrid.job.spot_decision import Instances
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem, RecordedAttempt
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.timestamps import timestamp

HOUR = 3600


def at(hours: float) -> str:
    return timestamp(int(FIRST_MOMENT + hours * HOUR))


def tried(number: int, ended: float, failure: str, billable: float = 0.0, **fields: object) -> RecordedAttempt:
    """Return an ended attempt; its hours are those after the first moment."""
    attempt = RecordedAttempt(
        attempt=number,
        region="us-east-1",
        state=JobState.STOPPED,
        failure=failure,
        training_job="a",
        billable_seconds=int(billable * HOUR),
        ended_at=at(ended),
    )
    return replace(attempt, **fields)  # type: ignore[arg-type]  # the fields of a row


@pytest.fixture
def item(job: Job, ledger: Ledger) -> JobItem:
    return replace(ledger.open_job("0123abcd", job, job.regions), opened_at=at(0))


def test_ended_attempts_ran_for_their_billed_time_and_waited_for_the_rest(job: Job, item: JobItem) -> None:
    priced = job.model_copy(update={"dollars_per_hour": 10.0, "spot_dollars_per_hour": 2.5})
    assert (spot_price(priced), spot_price(job)) == (0.25, 0.5)
    history = (
        tried(1, 1, "capacity"),  # its beginning is not known
        tried(2, 6, "spot_interruption", billable=0.5),  # 2 of 5 hours
        tried(3, 9, "deadline", billable=0.25),  # it did not end for want of capacity
        tried(4, 20, "return_to_spot", billable=11, on_demand=True),
        tried(5, 22, "spot_elsewhere", training_job=""),  # it was held for a shortage that another job found
        tried(6, 24, "capacity", region="eu-west-1"),
    )
    item = replace(item, tried=history, opened_at=at(24))
    place = spot_place(priced, item, FIRST_MOMENT + 26 * HOUR, item.candidate, runs=False)
    assert (place.price, place.ran, place.waited, place.missing_since) == (0.25, 3 * HOUR, 3 * HOUR, 20 * HOUR)


def test_the_current_attempt_counts_from_its_request(job: Job, item: JobItem) -> None:
    now = FIRST_MOMENT + 10 * HOUR
    requested = replace(item, training_job="a", requested_at=at(2), phase="Starting")
    place = spot_place(job, requested, now, item.candidate, runs=False)
    assert (place.ran, place.waited, place.missing_since) == (0, 8 * HOUR, 0)
    started = replace(requested, training_started_at=FIRST_MOMENT + 3 * HOUR, updated_at=at(9), phase="Interrupted")
    place = spot_place(job, started, now, item.candidate, runs=False)
    assert (place.ran, place.waited, place.missing_since) == (6 * HOUR, 2 * HOUR, 0)
    place = spot_place(job, replace(started, phase="Training"), now, item.candidate, runs=True)
    assert (place.ran, place.waited, place.missing_since) == (7 * HOUR, HOUR, math.inf)
    assert spot_place(job, replace(started, on_demand=True), now, item.candidate, runs=True).ran == 0


def test_only_the_time_after_a_request_counts_as_vain(job: Job, item: JobItem) -> None:
    now = FIRST_MOMENT + 10 * HOUR
    assert request_age(item, now) == 0, "it is paused, or copies its checkpoint"
    refused = replace(item, training_job="a", requested_at=at(9))
    assert request_age(refused, now) == 0, "the quota is too small"
    place = spot_place(job, refused, now, item.candidate, runs=False)
    assert (place.waited, place.missing_since) == (0, math.inf)
    requested = replace(refused, phase="Starting")
    assert request_age(requested, now) == HOUR
    interrupted = replace(requested, training_started_at=1, phase="Interrupted", phase_at=FIRST_MOMENT + 8 * HOUR)
    assert request_age(interrupted, now) == 2 * HOUR


def test_a_job_waits_since_its_last_instances(item: JobItem) -> None:
    now = FIRST_MOMENT + 10 * HOUR
    assert use_of(item, now, runs=False) == (Instances.NONE, 10 * HOUR)
    moved = replace(item, opened_at=at(9), tried=(tried(1, 4, "deadline", 1.0), tried(2, 6, "capacity")))
    assert use_of(moved, now, runs=False) == (Instances.NONE, 6 * HOUR)
    retried = replace(moved, tried=(tried(1, 4, "", reopened="retry-1"), tried(2, 6, "capacity")))
    assert use_of(retried, now, runs=False) == (Instances.NONE, 6 * HOUR)
    interrupted = replace(moved, phase="Interrupted", updated_at=at(9.5))
    assert use_of(interrupted, now, runs=False) == (Instances.NONE, HOUR / 2)
    runs = replace(item, training_started_at=FIRST_MOMENT + HOUR)
    assert use_of(runs, now, runs=True) == (Instances.SPOT, 9 * HOUR)
    assert use_of(replace(runs, on_demand=True), now, runs=True) == (Instances.ON_DEMAND, 9 * HOUR)


def test_rounds_are_vain_since_the_last_instances(item: JobItem) -> None:
    vain = [tried(number, number, "spot_elsewhere") for number in range(3, 8)]
    history = (tried(1, 1, "spot_elsewhere"), tried(2, 2, "deadline", 1.0), *vain)
    waits = replace(item, tried=history)
    assert [vain_rounds(waits, places) for places in (1, 2, 3)] == [5, 2, 1]
    assert vain_rounds(replace(waits, training_started_at=1), 2) == 0
    assert vain_rounds(replace(waits, tried=(*history, tried(8, 8, "", reopened="retry-1"))), 2) == 0
