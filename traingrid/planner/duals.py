"""Duals: prices of the shared limits, which make each job's cheapest choice independent of the other jobs.

For any prices of zero or more, the sum over all jobs of the cheapest choice with the prices added, less the value of
all limits at these prices, is at most the cost of every assignment that keeps the limits (Lagrangian relaxation:
Fisher 1981, https://doi.org/10.1287/mnsc.27.1.1).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traingrid.planner.problem import PlacementProblem


@dataclass(frozen=True, kw_only=True, eq=False)
class Duals:
    """Prices of the limits, all zero or more.

    Attributes:
        hours: Dollars of an instance-hour of each pool, by window.
        accelerators: Dollars of an accelerator-hour, by window.
        budget: Dollars of a dollar of the budget.
    """

    hours: NDArray[np.float64]
    accelerators: NDArray[np.float64]
    budget: float

    @classmethod
    def zero(cls, problem: PlacementProblem) -> Duals:
        """Return prices of zero."""
        return cls(hours=np.zeros(problem.capacity.shape), accelerators=np.zeros(len(problem.accelerators)), budget=0.0)

    def value(self, problem: PlacementProblem) -> float:
        """Return the value of all limits at these prices."""
        limits = ((self.hours, problem.capacity), (self.accelerators, problem.accelerators))
        budget = self.budget * problem.budget if self.budget else 0.0
        return budget + sum(float(np.sum(price[price > 0] * limit[price > 0])) for price, limit in limits)


def priced(
    problem: PlacementProblem, duals: Duals, choices: NDArray[np.int64] | slice = slice(None)
) -> NDArray[np.float64]:
    """Return the cost of choices with the prices of the limits that they use (reduced costs).

    Args:
        choices: The choices; by default all.
    """
    # A job in window w uses the capacity of w and of all later windows.
    hours = np.vstack([np.cumsum(duals.hours[:, ::-1], axis=1)[:, ::-1], np.zeros(duals.hours.shape[1])])
    accelerators = np.cumsum(duals.accelerators[::-1])[::-1]
    window = problem.window[problem.job[choices]]
    costs = problem.cost[choices] + problem.hours[choices] * hours[problem.pool[choices], window]
    if accelerators.any():
        costs += problem.accelerator_hours[choices] * accelerators[window]
    if duals.budget:
        costs += problem.dollars[choices] * duals.budget
    return costs


def cheapest(costs: NDArray[np.float64], starts: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return the index of each job's cheapest choice, of equal ones the first.

    Args:
        starts: The index of each job's first choice, and at the end the number of choices.
    """
    least = np.minimum.reduceat(costs, starts[:-1])
    hits = np.flatnonzero(costs <= np.repeat(least, np.diff(starts)))
    return hits[np.searchsorted(hits, starts[:-1])]


def cheapest_few(problem: PlacementProblem, costs: NDArray[np.float64], number: int) -> NDArray[np.int64]:
    """Return the indexes of the cheapest choices of each job, at most `number` of each."""
    order = np.lexsort((costs, problem.job))
    rank = np.arange(len(costs)) - np.repeat(problem.starts[:-1], np.diff(problem.starts))
    return order[rank < number]


def bound_of(problem: PlacementProblem, duals: Duals) -> float:
    """Return the lower bound that prices give for the cost of every assignment that keeps the limits."""
    costs = priced(problem, duals)
    return float(np.minimum.reduceat(costs, problem.starts[:-1]).sum()) - duals.value(problem)
