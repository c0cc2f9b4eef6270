"""Strategies: reproducible proposals that differ from each other."""

from dataclasses import replace
from typing import Any

import pytest

from tests.unit.sweep.conftest import loss, spec
from traingrid.sweep.journal import Ended, StoppedEarly
from traingrid.sweep.spec import Parameters, SweepSpec
from traingrid.sweep.state import Trial
from traingrid.sweep.strategies import next_parameters


def trial(number: int, parameters: Parameters, value: float | None, **changes: Any) -> Trial:
    made: dict[str, Any] = {"state": "Completed", "region": "us-east-1", "value": value, "curve": ((1, value or 0.0),)}
    ended = Ended(trial=number, index=0, **(made | changes))
    return Trial(number=number, parameters=parameters, line=0, region="us-east-1", batch=1, ended=ended)


def searched(wanted: SweepSpec, batch: int = 3) -> list[Trial]:
    """Return the trials of a sweep that trains batch after batch."""
    trials: list[Trial] = []
    while len(trials) < wanted.number_of_trials:
        pending: list[Parameters] = []
        for number in range(len(trials), min(len(trials) + batch, wanted.number_of_trials)):
            pending.append(next_parameters(wanted, number, trials, pending))
        first = len(trials)
        trials += [trial(first + place, found, loss(found)) for place, found in enumerate(pending)]
    return trials


def test_a_grid_tries_every_combination_once() -> None:
    search = {"hp.rate": {"log_range": [0.001, 0.1], "points": 3}, "hp.depth": {"choices": [2, 4, 4]}}
    wanted = spec(strategy="grid", search=search, trials=None)
    assert [one.parameters for one in searched(wanted)] == [
        {"rate": rate, "depth": depth} for rate in (0.001, 0.01, 0.1) for depth in (2, 4)
    ]


@pytest.mark.parametrize("strategy", ["random", "optuna"])
def test_proposals_are_reproducible_and_within_their_ranges(strategy: str) -> None:
    wanted = spec(strategy=strategy, trials=15)
    found = [one.parameters for one in searched(wanted)]
    assert found == [one.parameters for one in searched(wanted)]
    assert found != [one.parameters for one in searched(spec(strategy=strategy, trials=15, seed=1))]
    assert all(1e-4 <= float(one["rate"]) <= 1.0 and one["depth"] in range(1, 10) for one in found)


@pytest.mark.parametrize("strategy", ["random", "optuna"])
def test_no_combination_is_tried_twice(strategy: str) -> None:
    search = {"hp.rate": {"choices": [0.01, 0.1]}, "hp.depth": {"int": [1, 4]}}
    wanted = spec(strategy=strategy, search=search, trials=50)
    found = [tuple(one.parameters.values()) for one in searched(wanted)]
    assert sorted(found) == [(rate, depth) for rate in (0.01, 0.1) for depth in range(1, 5)]


def test_optuna_finds_a_better_optimum_than_its_first_draws() -> None:
    values = [one.value for one in searched(spec(strategy="optuna", trials=40), batch=4) if one.value is not None]
    assert min(values[10:]) < min(values[:10])


def test_optuna_learns_from_trials_that_were_stopped_early_and_ignores_failed_ones() -> None:
    wanted = spec(strategy="optuna", trials=40)
    known = searched(spec(strategy="optuna", trials=20))
    failed = trial(20, {"rate": 0.5, "depth": 1}, None, state="Failed", curve=())
    stopped = [pruned(number) for number in range(20, 40)]
    plain = next_parameters(wanted, 41, known, [])
    assert next_parameters(wanted, 41, [*known, failed], []) == plain
    assert next_parameters(wanted, 41, [*known, *stopped], []) != plain


def pruned(number: int) -> Trial:
    """Return a trial with a good rate that was stopped early because of its bad depth."""
    found = trial(number, {"rate": 0.01, "depth": 1}, 9.0, state="Stopped", curve=((1, 9.5), (2, 9.0)))
    return replace(found, stopped=StoppedEarly(trial=number, epoch=2, best=9.0, median=1.0))
