"""Deadlines: a spot job that might not end by its `finish_by` continues on demand, the same for all of its children."""

from dataclasses import replace

import pytest

from tests.support.shortages import pool_of, recorded, short
from tests.support.supervised_job import NAME, known, supervisor
from tests.support.training_jobs import COMPLETED, FIRST_MOMENT, NO_CAPACITY, STOPPED, TRAINING, FakeBackend, FakeTime
from traingrid.child.deadline import is_late
from traingrid.job.job import Job
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.timestamps import timestamp

HOUR = 3600
INTERRUPTED = replace(STOPPED, phase="MaxWaitTimeExceeded", billable_seconds=5)
NEXT = "traingrid-0123abcd-0-2"


def spot(job: Job, hours: float, **changes: object) -> Job:
    """Return the job with spot instances, an hour of training, and a deadline in a number of hours."""
    plan = {"finish_by": timestamp(FIRST_MOMENT + hours * HOUR), "estimated_runtime_seconds": HOUR, "retries": 0}
    return job.model_copy(update={"spot": True, "max_wait_seconds": 48 * HOUR, **plan, **changes})


@pytest.mark.parametrize(
    ("hours", "changes", "late"),
    [
        (2.1, {}, False),
        (1.9, {}, True),
        (1.9, {"spot": False}, False),
        (1.9, {"finish_by": ""}, False),
        (1.9, {"launch": "queued"}, False),
        (10, {"estimated_runtime_seconds": 0, "max_runtime_seconds": 6 * HOUR}, True),
        (13, {"estimated_runtime_seconds": 0, "max_runtime_seconds": 6 * HOUR}, False),
    ],
)
def test_a_spot_job_is_late_without_time_for_two_trainings(
    job: Job, hours: float, changes: dict[str, object], late: bool
) -> None:
    assert is_late(spot(job, hours, **changes), FIRST_MOMENT) is late


def test_a_job_with_time_uses_spot_instances(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(COMPLETED)
    item = supervisor(spot(job, 3), backend, ledger).run()
    assert ([one.spot for one in backend.jobs], item.attempt, item.on_demand) == ([True], 1, False)


def test_a_late_job_starts_on_demand(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(COMPLETED)
    item = supervisor(spot(job, 1.5), backend, ledger).run()
    assert backend.created == [NEXT]
    assert [(one.spot, one.max_wait_seconds, one.checkpoints) for one in backend.jobs] == [(False, 0, job.checkpoints)]
    assert (item.state, item.on_demand, [one.failure for one in item.tried]) == ("Completed", True, ["deadline"])


def test_an_interrupted_job_continues_on_demand_even_without_retries(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING, INTERRUPTED), FakeTime()

    def interrupt() -> None:
        """Let the first training job end an hour and a half after its start, and the second one complete."""
        if backend.created:
            backend.script = [COMPLETED]
        else:
            time.seconds += 1.5 * HOUR

    backend.on_create = interrupt
    item = supervisor(spot(job, 3), backend, ledger, time).run()
    assert [(one.spot, name) for one, name in zip(backend.jobs, backend.created, strict=True)] == [
        (True, NAME),
        (False, NEXT),
    ]
    assert [(one.failure, one.on_demand) for one in item.attempts().values()] == [
        ("spot_interruption", False),
        ("", True),
    ]


def test_an_on_demand_attempt_that_is_retried_is_recorded_as_on_demand(job: Job, ledger: Ledger) -> None:
    """Its price in the catalog depends on it (traingrid/catalog/run_rows.py)."""
    item = supervisor(spot(job, 1.5, retries=1), FakeBackend(NO_CAPACITY), ledger).run()
    assert [(one.failure, one.on_demand) for one in item.attempts().values()] == [
        ("deadline", False),
        ("capacity", True),
        ("capacity", True),
    ]


def test_without_capacity_on_demand_the_line_fails_by_its_retries(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(NO_CAPACITY)
    item = supervisor(spot(job, 1.5), backend, ledger).run()
    assert (item.state, item.failure, [one.spot for one in backend.jobs]) == ("Failed", "capacity", [False])


def test_a_job_that_waits_for_spot_capacity_leaves_it_in_time(job: Job, ledger: Ledger) -> None:
    late = spot(job, 2.1)
    recorded(ledger, short(pool_of(late), until=FIRST_MOMENT + 600))
    backend, time = FakeBackend(COMPLETED), FakeTime()
    item = supervisor(late, backend, ledger, time).run()
    assert (backend.created, [one.spot for one in backend.jobs]) == ([NEXT], [False])
    assert item.state == "Completed"
    assert time.seconds < 0.2 * HOUR


def test_a_new_child_of_the_attempt_sends_the_same_request(job: Job, ledger: Ledger) -> None:
    """The second child starts with time to spare by its clock, but the ledger has the first child's decision."""
    line = spot(job, 1.5)
    first = supervisor(line, FakeBackend(TRAINING), ledger)
    item = ledger.open_job("0123abcd", line, line.regions)
    first._run_attempt(first._attempt(item), item)
    assert known(ledger).on_demand
    backend = FakeBackend(COMPLETED)
    supervisor(line, backend, ledger, FakeTime(seconds=-HOUR)).run()
    assert [one.spot for one in backend.jobs] == [False]


def test_a_retry_of_a_user_uses_spot_instances_again(job: Job, ledger: Ledger) -> None:
    line = spot(job, 1.5)
    ended = supervisor(line, FakeBackend(NO_CAPACITY), ledger).run()
    assert ledger.next_attempt(
        ended.key, {"region": ended.region, "state": ended.state}, ended.region, reopen="retry-1"
    )
    assert not known(ledger).on_demand
