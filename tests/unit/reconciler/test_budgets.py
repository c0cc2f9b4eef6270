"""Budgets: a pass cancels a submission once its jobs have cost its budget, as the ledger records it."""

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.ledger_items import existing, job_key
from tests.support.reconciler_world import SILENT, World
from traingrid import names
from traingrid.job.job import Job
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.user_requests import CANCEL_ALL
from traingrid.reconciler import budgets
from traingrid.reconciler.reach import UnreachedError
from traingrid.reconciler.reconciler import Reconciler

pytestmark = pytest.mark.usefixtures("aws")

HOME = "us-east-1"
SUBMISSION = "0123abcd"
HOUR = 3600
NOW = 1_795_000_000


@pytest.fixture(autouse=True)
def _clock(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(budgets, "time", SimpleNamespace(time=lambda: NOW))


def submit(ledger: Ledger, job: Job, lines: int = 2, budget: float | None = 100.0, **prices: Any) -> list[str]:
    """Submit lines with two instances at $10 an hour each; return the names of their training jobs."""
    facts: Any = {"jobs": lines, "manifest": "s3://x/y", "version": "1"}
    ledger.claim_submission(SUBMISSION, "test", facts | ({} if budget is None else {"budget_dollars": budget}))
    ledger.record_submitted(SUBMISSION, "array")
    prices = {"dollars_per_hour": 10.0, "budget_dollars": budget, "instance_count": 2, **prices}
    for index in range(lines):
        ledger.open_job(SUBMISSION, job.model_copy(update={"index": index, "region": HOME, **prices}))
    return [names.training_job("traingrid", SUBMISSION, index, 1) for index in range(lines)]


def runs(world: World, ledger: Ledger, index: int, seconds: float) -> None:
    """Let a line's training job run, which the ledger has recorded as started some seconds ago."""
    world.runs(SUBMISSION, index, HOME)
    started = int(NOW - seconds)
    ledger.record_job(job_key(index), {"state": JobState.IN_PROGRESS, "training_started_at": started})


def test_running_jobs_are_cancelled_and_stopped_when_they_reach_the_budget(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    trained = submit(ledger, job)
    runs(world, ledger, 0, 3 * HOUR)
    runs(world, ledger, 1, 2.1 * HOUR)
    done = reconciler.run_pass()
    assert (done.over_budget, done.stopped, world.stopped) == ([SUBMISSION], trained, trained)
    (cancel,) = ledger.cancels(SUBMISSION).values()
    assert (cancel.scope, cancel.by) == (CANCEL_ALL, "the reconciler")
    assert cancel.reason == "the budget of $100.00 is reached: $102.00 spent"
    assert existing(ledger.job(SUBMISSION, 0)).reason == f"Cancelled by the reconciler: {cancel.reason}"
    assert world.described == [], "the ledger has the times that a budget needs"


def test_jobs_below_the_budget_continue(world: World, reconciler: Reconciler, ledger: Ledger, job: Job) -> None:
    submit(ledger, job)
    runs(world, ledger, 0, 3 * HOUR)
    runs(world, ledger, 1, 1.9 * HOUR)
    assert (reconciler.run_pass().over_budget, world.stopped, ledger.cancels(SUBMISSION)) == ([], [], {})


def test_every_ended_attempt_counts_by_its_billable_seconds(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    submit(ledger, job)
    tried: AttemptFacts = {"region": HOME, "state": JobState.FAILED, "billable_seconds": 2 * HOUR}
    ledger.next_attempt(job_key(0), tried, HOME)
    ended: Any = {"state": JobState.COMPLETED, "billable_seconds": 3 * HOUR}
    ledger.record_job(job_key(0, attempt=2), ended | {"training_started_at": 1})
    reconciler.run_pass()
    (cancel,) = ledger.cancels(SUBMISSION).values()
    assert cancel.reason == "the budget of $100.00 is reached: $100.00 spent"


def test_running_spot_instances_count_at_their_expected_price(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    submit(ledger, job, spot=True, spot_dollars_per_hour=3.0)
    runs(world, ledger, 0, 16 * HOUR)
    assert reconciler.run_pass().over_budget == []
    runs(world, ledger, 1, 2 * HOUR)
    assert reconciler.run_pass().over_budget == [SUBMISSION]


def test_a_spot_job_that_continues_on_demand_counts_at_the_price_on_demand(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    submit(ledger, job, lines=1, spot=True, spot_dollars_per_hour=3.0)
    tried: AttemptFacts = {"region": HOME, "state": JobState.STOPPED}
    ledger.next_attempt(job_key(0), tried, HOME, on_demand=True)
    started: Any = {"state": JobState.IN_PROGRESS, "training_started_at": NOW - 5 * HOUR}
    ledger.record_job(job_key(0, attempt=2), started)
    assert reconciler.run_pass().over_budget == [SUBMISSION]


def test_the_start_of_a_job_whose_event_was_lost_is_read_once(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    (name,) = submit(ledger, job, lines=1, budget=500.0)
    ledger.record_job(job_key(0), {"state": JobState.IN_PROGRESS, "fingerprint": "asked"})
    world.runs(SUBMISSION, 0, HOME)
    world.ended = {name: "InProgress"}
    backend: Any = reconciler.backend
    started = NOW - 10 * HOUR

    def described(region: str, _backend: str) -> Any:
        found = backend(region, _backend)
        plain = found.describe
        found.describe = lambda one: replace(
            plain(one) or TrainingJobDescription(state=JobState.IN_PROGRESS), started_at=started
        )
        return found

    reconciler.backend = described
    assert reconciler.run_pass().over_budget == []
    assert existing(ledger.job(SUBMISSION, 0)).training_started_at == int(started)
    reconciler.run_pass()
    assert world.described == [name]


def test_an_unreachable_region_does_not_hide_the_cost_of_other_jobs(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    submit(ledger, job)
    runs(world, ledger, 0, 6 * HOUR)
    world.runs(SUBMISSION, 1, HOME)
    ledger.record_job(job_key(1), {"state": JobState.IN_PROGRESS, "fingerprint": "asked"})
    world.fails[f"describe {HOME}"] = SILENT
    with pytest.raises(UnreachedError) as raised:
        reconciler.run_pass()
    assert raised.value.done.over_budget == [SUBMISSION]


def test_a_users_cancel_is_not_replaced(world: World, reconciler: Reconciler, ledger: Ledger, job: Job) -> None:
    submit(ledger, job)
    runs(world, ledger, 0, 9 * HOUR)
    ledger.request_cancel(SUBMISSION, CANCEL_ALL, {"by": "Ada", "reason": "enough"})
    assert reconciler.run_pass().over_budget == []
    assert ledger.cancel_once(SUBMISSION, {"by": "the reconciler", "reason": "late"}).reason == "enough"
    assert [cancel.by for cancel in ledger.cancels(SUBMISSION).values()] == ["Ada"]


def test_a_second_pass_does_not_write_the_cancel_again(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    submit(ledger, job)
    runs(world, ledger, 0, 9 * HOUR)
    reconciler.run_pass()
    before = ledger.cancels(SUBMISSION)
    assert reconciler.run_pass().over_budget == []
    assert ledger.cancels(SUBMISSION) == before


def test_a_submission_without_a_budget_is_not_counted(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    submit(ledger, job, budget=None)
    runs(world, ledger, 0, 1000 * HOUR)
    assert (reconciler.run_pass().over_budget, world.stopped) == ([], [])


def test_a_submission_that_has_ended_is_not_cancelled(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    submit(ledger, job, lines=1)
    ledger.record_job(job_key(0), {"state": JobState.COMPLETED, "billable_seconds": 100 * HOUR})
    assert reconciler.run_pass().over_budget == []
    assert ledger.cancels(SUBMISSION) == {}


def test_a_line_that_no_child_started_names_the_budget(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    submit(ledger, job)
    runs(world, ledger, 0, 9 * HOUR)
    world.children = {1: "FAILED"}
    reconciler.run_pass()
    line = existing(ledger.job(SUBMISSION, 1))
    assert line.state == "Stopped"
    assert line.reason.startswith("It was cancelled before its training job was created. Cancelled by the reconciler: ")
