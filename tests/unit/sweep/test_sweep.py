"""Sweeps: decisions, and their survival of the end of the process at every point."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import count
from typing import Any

import pytest

from tests.unit.sweep.conftest import FakeGrid, KilledError, finished, loss, spec, sweep_of
from traingrid.api.sweep import no_result_error
from traingrid.errors import TraingridError, UsageError
from traingrid.job.state import JobState
from traingrid.submission.status import UNREADABLE, JobStatus
from traingrid.sweep.journal import Ended, Entry
from traingrid.sweep.state import SweepState, best_first, state_of

NAMES = {f"rates-{number:04d}" for number in range(9)}


def test_every_trial_is_trained_once_and_the_best_is_found(grid: FakeGrid) -> None:
    state = state_of(finished(grid, spec()).journal.refresh())
    assert grid.trained() == dict.fromkeys(NAMES, 1)
    best = state.best(spec().objective)
    assert best is not None
    assert best.value == min(loss(trial.parameters) for trial in state.trials.values())


def test_at_most_the_given_number_of_trials_is_open(grid: FakeGrid) -> None:
    finished(grid, spec(parallel=2))
    assert grid.most_open == 2


def killing(at: int) -> Iterator[None]:
    """Raise KilledError at the given effect only, counted from 0."""
    for number in count():
        if number == at:
            raise KilledError
        yield


def survived(grid: FakeGrid, at: int) -> bool:
    """Run a sweep, kill it at one effect, and run it again to its end; return False if it ended before."""
    effects = killing(at)
    grid.effect = lambda _name: next(effects)
    try:
        finished(grid, KILLED)
    except KilledError:
        grid.effect = lambda _name: None
        finished(grid, KILLED)
        return True
    return False


KILLED = spec(trials=5, parallel=2, early_stopping={"min_trials": 2})


def test_a_sweep_that_is_killed_at_any_effect_continues(grid: FakeGrid) -> None:
    """Effects are writes of the journal, uploads, reads and cancels; the process is killed before and after each."""
    expected = {f"rates-{number:04d}": 1 for number in range(5)}
    at, stopped = 0, 0
    while survived(grid, at):
        assert grid.trained() == expected, f"killed at effect {at}"
        journal = sweep_of(grid, KILLED).journal.refresh()
        ended = [entry.trial for entry in journal if isinstance(entry, Ended)]
        assert sorted(ended) == list(range(5)), f"killed at effect {at}"
        stopped += len(grid.cancelled)
        grid = FakeGrid(grid.bucket)
        at += 1
    assert at > 30
    assert stopped > 0


def test_a_sweep_whose_processes_are_all_killed_ends(grid: FakeGrid) -> None:
    """The first process is killed at its first effect, the second one at its second, and so on."""
    processes = 0
    while True:
        effects = killing(processes)
        grid.effect = lambda _name, effects=effects: next(effects)  # type: ignore[misc]  # a default binds the loop's value
        try:
            finished(grid, KILLED)
            break
        except KilledError:
            processes += 1
    assert processes > 5
    assert grid.trained() == {f"rates-{number:04d}": 1 for number in range(5)}


def test_two_processes_of_one_sweep_train_no_trial_twice(grid: FakeGrid) -> None:
    first, second = sweep_of(grid, spec()), sweep_of(grid, spec())
    first.begin()
    second.begin()
    entries = 0
    while True:
        ended = [first.step().ended, second.step().ended]
        entries += 1
        if all(ended):
            break
    assert grid.trained() == dict.fromkeys(NAMES, 1)
    assert grid.most_open <= 3
    assert first.journal.refresh() == second.journal.refresh()


def test_a_process_that_loses_an_entry_decides_again(grid: FakeGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second process writes its entry between the first one's read and write."""
    slow, fast = sweep_of(grid, spec()), sweep_of(grid, spec())
    slow.begin()
    fast.begin()
    interfering = iter([fast.step])
    refresh = slow.journal.refresh

    def read_then_lose() -> list[Entry]:
        found = list(refresh())
        for step in interfering:
            step()
        return found

    monkeypatch.setattr(slow.journal, "refresh", read_then_lose)
    while not slow.step().ended:
        pass
    assert grid.trained() == dict.fromkeys(NAMES, 1)


def test_trials_go_to_the_line_with_the_fewest_waiting_trials(grid: FakeGrid) -> None:
    def without_capacity(job: JobStatus) -> JobStatus:
        return replace(job, state=JobState.WAITING) if job.region == "us-east-1" else job

    grid.outcome = without_capacity
    sweep = sweep_of(grid, spec(parallel=4))
    sweep.begin()
    for _ in range(30):
        progress = sweep.step()
    regions = [trial.region for trial in progress.state.trials.values()]
    assert regions.count("us-east-1") == 2
    assert regions.count("eu-west-1") == 7


def test_a_sweep_whose_trials_all_fail_submits_no_more(grid: FakeGrid) -> None:
    grid.outcome = lambda job: replace(job, state=JobState.FAILED, metrics={}, reason="AlgorithmError: no GPU.")
    state = state_of(finished(grid, spec()).journal.refresh())
    assert len(state.trials) == 3
    error = no_result_error(spec(), state)
    assert error.what == (
        "No trial of the sweep rates has completed: 3 trials failed or stopped. "
        "The first reason: AlgorithmError: no GPU."
    )


def test_a_sweep_whose_metric_never_appears_submits_no_more(grid: FakeGrid) -> None:
    wanted = spec(objective={"metric": "accuracy", "direction": "maximize"})
    state = state_of(finished(grid, wanted).journal.refresh())
    assert len(state.trials) == 3
    error = no_result_error(wanted, state)
    assert error.what == "The 3 completed trials of the sweep rates have no metric accuracy."
    assert error.next_step.startswith("They report loss.")


def test_a_trial_without_a_model_is_not_the_best(grid: FakeGrid) -> None:
    def without_model(job: JobStatus) -> JobStatus:
        return replace(job, artifact="", metrics={"loss": -1.0}) if job.name == "rates-0000" else job

    grid.outcome = without_model
    objective = spec().objective
    trials = state_of(finished(grid, spec()).journal.refresh()).trials
    ordered = best_first(trials.values(), objective)
    assert ordered[-1] == trials[0]
    assert state_of(sweep_of(grid, spec()).journal.refresh()).best(objective) == ordered[0]
    error = no_result_error(spec(), SweepState(trials={0: trials[0]}))
    assert error.what == "No completed trial of the sweep rates with the metric loss has a model."


def test_of_trials_with_equal_values_the_first_is_the_best(grid: FakeGrid) -> None:
    grid.outcome = lambda job: replace(job, metrics={"loss": 1.0})
    for direction in ("minimize", "maximize"):
        wanted = spec(name=direction, objective={"metric": "loss", "direction": direction})
        best = state_of(finished(grid, wanted).journal.refresh()).best(wanted.objective)
        assert best is not None
        assert best.number == 0


def test_a_rejected_batch_is_drawn_again(grid: FakeGrid) -> None:
    grid.reject = True
    sweep = sweep_of(grid, spec())
    sweep.begin()
    with pytest.raises(TraingridError, match="rejected"):
        sweep.step()
    assert state_of(sweep.journal.refresh()).trials == {}
    grid.reject = False
    finished(grid, spec())
    names = {name for name, times in grid.trained().items() if times}
    assert names == NAMES


@pytest.mark.parametrize("name", ["rates-0001", "job 0"])
def test_a_trial_whose_job_cannot_be_read_counts_as_failed(grid: FakeGrid, name: str) -> None:
    """Its name is known as long as the file of submitted lines can be read."""

    def damage(job: JobStatus) -> JobStatus:
        if job.name != "rates-0001":
            return job
        return replace(job, name=name, state=JobState.PENDING, phase=UNREADABLE, metrics={}, reason="The item is none.")

    grid.outcome = damage
    state = state_of(finished(grid, spec(early_stopping={"min_trials": 2})).journal.refresh())
    ended = state.trials[1].ended
    assert ended is not None
    assert (ended.state, ended.value, ended.reason) == ("Failed", None, "The item is none.")
    assert len(state.complete) + len(grid.cancelled) == len(NAMES) - 1


def test_the_trials_of_a_submission_that_cannot_be_read_count_as_failed(
    grid: FakeGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, damaged = FakeGrid.jobs, list[str]()

    def jobs(grid: FakeGrid, submission: str) -> list[JobStatus]:
        damaged[:] = damaged or ([submission] if grid.seen and submission not in grid.seen else [])
        return [] if submission in damaged else read(grid, submission)

    monkeypatch.setattr(FakeGrid, "jobs", jobs)
    state = state_of(finished(grid, spec()).journal.refresh())
    failed = [trial for trial in state.trials.values() if trial.ended and trial.ended.state == "Failed"]
    assert failed
    assert {trial.submission for trial in failed} == set(damaged)
    assert len(state.complete) == len(NAMES) - len(failed)


def test_a_sweep_of_the_same_name_with_another_search_is_refused(grid: FakeGrid) -> None:
    finished(grid, spec())
    other = sweep_of(grid, spec(search={"hp.rate": {"log_range": [1e-3, 1.0]}, "hp.depth": {"int": [1, 9]}}))
    with pytest.raises(UsageError, match=r"The sweep rates exists with other values of search\."):
        other.begin()


def test_a_sweep_can_be_extended(grid: FakeGrid) -> None:
    finished(grid, spec(trials=3))
    finished(grid, spec(trials=9, parallel=5))
    assert grid.trained() == dict.fromkeys(NAMES, 1)


def test_the_budget_of_all_trials_cancels_the_open_ones(grid: FakeGrid) -> None:
    grid.outcome = lambda job: replace(job, dollars=2.0)
    lines = [{"dollars_per_hour": 1.0}]
    state = state_of(finished(grid, spec(budget_dollars=5.0, lines=lines)).journal.refresh())
    assert state.is_out_of_budget(5.0)
    assert len(state.trials) == 3
    assert sum(grid.cancelled.values()) == 3


def test_a_higher_budget_continues_a_sweep(grid: FakeGrid) -> None:
    grid.outcome = lambda job: replace(job, dollars=2.0)
    lines = [{"dollars_per_hour": 1.0}]
    finished(grid, spec(budget_dollars=5.0, lines=lines))
    state = state_of(finished(grid, spec(budget_dollars=100.0, lines=lines)).journal.refresh())
    assert not state.is_out_of_budget(100.0)
    assert len(state.trials) == 9


def test_one_failed_trial_does_not_end_a_sweep_with_one_trial_at_a_time(grid: FakeGrid) -> None:
    def first_fails(job: JobStatus) -> JobStatus:
        return replace(job, state=JobState.FAILED, metrics={}) if job.ended and job.name == "rates-0000" else job

    grid.outcome = first_fails
    state = state_of(finished(grid, spec(parallel=1)).journal.refresh())
    assert len(state.complete) == 8


@pytest.mark.parametrize("value", [math.nan, -math.inf])
def test_a_diverged_trial_has_no_value_and_is_not_the_best(grid: FakeGrid, value: float) -> None:
    def first_diverges(job: JobStatus) -> JobStatus:
        return replace(job, metrics={"loss": value}) if job.name == "rates-0000" else job

    grid.outcome = first_diverges
    sweep = finished(grid, spec())
    assert state_of(sweep.journal.entries) == state_of(sweep_of(grid, spec()).journal.refresh())
    best = state_of(sweep.journal.entries).best(spec().objective)
    assert best is not None
    assert best.number != 0


def test_a_region_that_does_not_return_curves_does_not_end_the_sweep(
    grid: FakeGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    read = FakeGrid.curves

    def of_ended_only(self: FakeGrid, submission: str, indexes: Sequence[int], metric: str) -> Any:
        if not all(job.ended for job in self.all_jobs() if job.index in indexes):
            raise TraingridError("eu-west-1 does not answer")
        return read(self, submission, indexes, metric)

    monkeypatch.setattr(FakeGrid, "curves", of_ended_only)
    state = state_of(finished(grid, spec(early_stopping={"min_trials": 2})).journal.refresh())
    assert len(state.complete) == 9


def test_a_plan_of_another_specification_is_refused(grid: FakeGrid) -> None:
    finished(grid, spec())
    with pytest.raises(UsageError, match="exists with other values of seed"):
        sweep_of(grid, spec(seed=1)).next_trials()


def test_a_trial_that_a_user_cancels_counts_as_tried(grid: FakeGrid) -> None:
    sweep = sweep_of(grid, spec())
    sweep.begin()
    submission = next(iter(sweep.step().state.trials.values())).submission
    grid.cancelled[submission, 0] += 1
    state = state_of(finished(grid, spec()).journal.refresh())
    stopped = [trial for trial in state.trials.values() if trial.ended and trial.ended.state == JobState.STOPPED]
    assert [len(state.trials), len(stopped), stopped[0].was_stopped_early] == [9, 1, False]
    assert grid.trained() == dict.fromkeys(NAMES, 1)
