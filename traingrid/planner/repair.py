"""Repair: turns prices of the limits into an assignment that keeps them, and improves it one job at a time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from traingrid.planner.duals import Duals, cheapest, priced
from traingrid.planner.problem import PlacementProblem

_MAX_PASSES = 20
_LAST = 0.02
"""The share of the jobs that choose last if the budget is short."""
MIN_SAVING = 1e-9
"""The least saving in dollars for which an assignment is changed."""


def repaired(problem: PlacementProblem, duals: Duals) -> NDArray[np.int64]:
    """Return an assignment that keeps all limits, as the index of each job's choice.

    Jobs choose one after the other the choice that costs least with the prices and still fits; those that would lose
    most by their second choice are first. If the budget is short, the jobs that save least dollars for their penalty
    are first, because the last jobs find nothing left. The choice to stay unplaced always fits.
    """
    costs = priced(problem, duals)
    room = Room(problem)
    chosen = problem.starts[:-1].copy()
    for job in _order(problem, duals, costs):
        choice = room.best(job, costs)
        room.take(job, choice)
        chosen[job] = choice
    return chosen


def rounded(problem: PlacementProblem, duals: Duals, shares: NDArray[np.float64]) -> NDArray[np.int64]:
    """Return an assignment that keeps all limits and follows the linear relaxation.

    Args:
        duals: The prices of the limits.
        shares: The share of its job that each choice gets in the relaxation. The jobs with the largest shares choose
            first.
    """
    costs = priced(problem, duals)
    wish = cheapest(-shares, problem.starts)
    room, chosen = Room(problem), problem.starts[:-1].copy()
    for job in np.argsort(-shares[wish], kind="stable").tolist():
        choice = int(wish[job])
        if not (shares[choice] > 0 and room.fits(job, choice)):
            choice = room.best(job, costs)
        room.take(job, choice)
        chosen[job] = choice
    return chosen


def improved(problem: PlacementProblem, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an assignment in which no job alone has a cheaper choice that fits.

    Args:
        chosen: An assignment that keeps all limits.
    """
    chosen, room = chosen.copy(), Room(problem)
    for job, choice in enumerate(chosen.tolist()):
        room.take(job, choice)
    for _ in range(_MAX_PASSES):
        before = chosen.copy()
        wish = np.minimum.reduceat(problem.cost, problem.starts[:-1])
        for job in np.flatnonzero(problem.cost[chosen] > wish).tolist():
            room.take(job, chosen[job], -1)
            better = room.best(job, problem.cost)
            if problem.cost[better] < problem.cost[chosen[job]] - MIN_SAVING:
                chosen[job] = better
            room.take(job, chosen[job])
        if np.array_equal(before, chosen):
            break
    return chosen


def _order(problem: PlacementProblem, duals: Duals, costs: NDArray[np.float64]) -> NDArray[np.int64]:
    regrets = _regrets(problem, costs)
    if not duals.budget:
        return np.argsort(-regrets, kind="stable")
    first = cheapest(np.where(problem.pool < 0, np.inf, costs), problem.starts)
    placed = problem.pool[first] >= 0
    advantage = np.where(placed, costs[problem.starts[:-1]] - costs[first], 0.0)
    worth = advantage / np.maximum(problem.dollars[first], 1e-9)
    last = worth <= np.quantile(worth, _LAST)
    return np.lexsort((np.where(last, -worth, -regrets), last))


def _regrets(problem: PlacementProblem, costs: NDArray[np.float64]) -> NDArray[Any]:
    """Return how much each job would lose by its second choice, for each instance-hour of its first one."""
    starts = problem.starts
    first = np.minimum.reduceat(costs, starts[:-1])
    is_first = costs <= np.repeat(first, np.diff(starts))
    second = np.minimum.reduceat(np.where(is_first, np.inf, costs), starts[:-1])
    hours = np.maximum.reduceat(np.where(is_first, problem.hours, 0.0), starts[:-1])
    return np.where(np.isfinite(second), second - first, 0.0) / np.maximum(hours, 1e-9)


class Room:
    """The room that an assignment leaves within the limits.

    Args:
        problem: The problem; at first no job uses anything.

    Attributes:
        dollars: The dollars that are left of the budget.
    """

    def __init__(self, problem: PlacementProblem) -> None:
        self._problem = problem
        self._hours = problem.room.copy()
        self._accelerators = problem.accelerators.copy()
        self.dollars = problem.budget
        # The room for a job of a window is the least of that window and all later ones.
        self._least = _least_of(self._hours)
        self._least_accelerators = _least_of(self._accelerators)

    def best(self, job: int, costs: NDArray[np.float64]) -> int:
        """Return the job's choice that fits and costs least."""
        start, end = int(self._problem.starts[job]), int(self._problem.starts[job + 1])
        fits = self._fit(slice(start, end), int(self._problem.window[job]))
        fits[0] = True  # unplaced, also where rounding leaves less than nothing
        return start + int(np.where(fits, costs[start:end], np.inf).argmin())

    def fits(self, job: int, choice: int) -> bool:
        """Return True if a job's choice fits."""
        return bool(self._fit(choice, int(self._problem.window[job])))

    def fitting(self) -> NDArray[np.bool_]:
        """Return for each choice if it fits."""
        fits = self._fit(slice(None), self._problem.window[self._problem.job])
        fits[self._problem.starts[:-1]] = True
        return fits

    def hours_for(self, job: int, choice: int) -> float:
        """Return the instance-hours that are left for a job in the pool of a choice."""
        return float(self._least[self._problem.pool[choice], self._problem.window[job]])

    def take(self, job: int, choice: int, times: int = 1) -> None:
        """Use the room of a choice, or with `times=-1` return it."""
        problem, window = self._problem, int(self._problem.window[job])
        pool = int(problem.pool[choice])
        self._hours[pool, window:] -= times * problem.hours[choice]
        self._least[pool] = _least_of(self._hours[pool])
        self._accelerators[window:] -= times * problem.accelerator_hours[choice]
        self._least_accelerators = _least_of(self._accelerators)
        self.dollars -= times * float(problem.dollars[choice])

    def _fit(self, choices: slice | int, window: NDArray[np.int64] | int) -> NDArray[np.bool_]:
        problem = self._problem
        fits = problem.hours[choices] <= self._least[problem.pool[choices], window]
        fits = fits & (problem.accelerator_hours[choices] <= self._least_accelerators[window])
        return np.asarray(fits & (problem.dollars[choices] <= self.dollars))


def _least_of(room: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return the least room of each window and all later ones."""
    if room.shape[-1] == 1:
        return room.copy()
    return np.minimum.accumulate(room[..., ::-1], axis=-1)[..., ::-1]
