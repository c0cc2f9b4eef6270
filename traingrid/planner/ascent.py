"""Ascent: searches the prices of the limits that give the highest lower bound.

Each step raises the prices of limits that the jobs' cheapest choices exceed, and lowers the others. A step is the
relative excess, limited to one, times the typical price of the limit's unit and a factor that falls geometrically.
Without that limit, the few pools that all jobs prefer at first would determine the size of every step. The averages of
the prices between two refreshes give a better bound than the last prices
(Nedić and Ozdaglar 2009, https://doi.org/10.1137/070708111, analyse such averages).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from traingrid.planner.duals import Duals, bound_of, cheapest, cheapest_few, priced
from traingrid.planner.problem import PlacementProblem, Usage

_STEPS, _REFRESH = 150, 25
"""The number of steps, and after how many each job's considered choices are selected again."""
_FIRST, _LAST = 0.12, 0.0005
"""The factors of the first and the last step."""
_CONSIDERED = 16
"""The number of each job's choices, the cheapest at the prices of the last refresh, that the steps consider."""
_SENSITIVITY = 50.0
"""The factor of the relative excess of the budget, of which most is spent at any prices."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Bound:
    """A lower bound for the cost of every assignment.

    Attributes:
        duals: The prices that give it.
        cost: The bound in dollars.
    """

    duals: Duals
    cost: float


def ascend(problem: PlacementProblem, steps: int = _STEPS) -> Bound:
    """Return the best lower bound that the search finds."""
    scales = _Scales.of(problem)
    best = _bound(problem, Duals.zero(problem))
    duals = best.duals
    for first in range(0, steps, _REFRESH):
        core = _core(problem, priced(problem, duals))
        total, number = Duals.zero(problem), min(_REFRESH, steps - first)
        for step in range(first, first + number):
            factor = _FIRST * (_LAST / _FIRST) ** (step / steps)
            used = core.usage(cheapest(priced(core, duals), core.starts))
            duals = scales.stepped(duals, used, core, factor)
            total = _sum(total, duals)
        candidates = (best, _bound(problem, duals), _bound(problem, _scaled(total, 1 / number)))
        best = max(candidates, key=lambda bound: bound.cost)
    return best


def _bound(problem: PlacementProblem, duals: Duals) -> Bound:
    return Bound(duals=duals, cost=bound_of(problem, duals))


def _core(problem: PlacementProblem, costs: NDArray[np.float64]) -> PlacementProblem:
    """Return the problem with only the cheapest choices of each job, and the choice to leave it unplaced."""
    is_in_core: NDArray[np.bool_] = np.zeros(len(costs), dtype=bool)
    is_in_core[cheapest_few(problem, costs, _CONSIDERED)] = is_in_core[problem.starts[:-1]] = True
    counts = np.bincount(problem.job[is_in_core], minlength=problem.jobs)
    return replace(
        problem,
        starts=np.concatenate([[0], np.cumsum(counts)]),
        pool=problem.pool[is_in_core],
        cost=problem.cost[is_in_core],
        dollars=problem.dollars[is_in_core],
        hours=problem.hours[is_in_core],
        accelerator_hours=problem.accelerator_hours[is_in_core],
    )


def _sum(first: Duals, second: Duals) -> Duals:
    return Duals(
        hours=first.hours + second.hours,
        accelerators=first.accelerators + second.accelerators,
        budget=first.budget + second.budget,
    )


def _scaled(duals: Duals, factor: float) -> Duals:
    return Duals(hours=duals.hours * factor, accelerators=duals.accelerators * factor, budget=duals.budget * factor)


@dataclass(frozen=True, kw_only=True, eq=False)
class _Scales:
    """The typical prices of the limits' units.

    Attributes:
        hours: The mean cost of an instance-hour of each pool, as a column.
        most_budget: The price of the budget at which every job would rather stay unplaced.
    """

    hours: NDArray[np.float64]
    accelerators: float
    most_budget: float

    @classmethod
    def of(cls, problem: PlacementProblem) -> _Scales:
        placed = np.flatnonzero(problem.pool >= 0)
        pools = len(problem.capacity)
        cost = np.bincount(problem.pool[placed], problem.cost[placed], pools)
        hours = np.bincount(problem.pool[placed], problem.hours[placed], pools)
        used = float(problem.accelerator_hours[placed].sum())
        penalty = np.repeat(problem.cost[problem.starts[:-1]], np.diff(problem.starts))[placed]
        ratio = penalty / np.maximum(problem.dollars[placed], 1e-9)
        return cls(
            hours=(cost / np.maximum(hours, 1e-9))[:, None],
            accelerators=float(problem.cost[placed].sum()) / used if used else 0.0,
            most_budget=float(min(np.median(ratio), 1e3)) if len(placed) else 0.0,
        )

    def stepped(self, duals: Duals, used: Usage, problem: PlacementProblem, factor: float) -> Duals:
        """Return the prices after a step."""
        return Duals(
            hours=np.maximum(0.0, duals.hours + factor * self.hours * _excess(used.hours, problem.capacity)),
            accelerators=np.maximum(
                0.0, duals.accelerators + factor * self.accelerators * _excess(used.accelerators, problem.accelerators)
            ),
            budget=max(
                0.0,
                duals.budget + factor * self.most_budget * float(_excess(used.dollars, problem.budget, _SENSITIVITY)),
            ),
        )


def _excess(
    used: NDArray[np.float64] | float, limit: NDArray[np.float64] | float, sensitivity: float = 1.0
) -> NDArray[np.float64]:
    """Return the relative excess over limits, between -1 and 1; 0 without a limit."""
    finite = np.isfinite(limit)
    ratio = np.divide(used, np.maximum(np.where(finite, limit, 1.0), 1e-9)) - 1.0
    return np.where(finite, np.clip(ratio * sensitivity, -1.0, 1.0), 0.0)
