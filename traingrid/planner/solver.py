"""Solver: finds an assignment that keeps all limits, and a lower bound for the cost of every assignment.

The prices of the limits, from a quick search (`ascent`) and then from the linear relaxation (`relaxation`), give a
lower bound and a first assignment (`repair`), which exchanges of jobs improve (`exchange`). Smaller problems are then
solved as a mixed-integer program (`exact`), the smallest to optimality.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traingrid.planner.ascent import ascend
from traingrid.planner.duals import Duals
from traingrid.planner.exact import solve_exactly
from traingrid.planner.exchange import exchanged
from traingrid.planner.problem import PlacementProblem
from traingrid.planner.relaxation import relax
from traingrid.planner.repair import improved, repaired, rounded

EXACT_BELOW = 2000
"""The number of jobs below which HiGHS improves assignment and bound."""
_ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Solution:
    """An assignment that keeps all limits.

    Attributes:
        chosen: The index of the choice of each job.
        cost: Its cost in dollars, with the penalties of unplaced jobs.
        bound: A lower bound for the cost of every assignment.
        duals: The prices of the limits.
    """

    chosen: NDArray[np.int64]
    cost: float
    bound: float
    duals: Duals

    @property
    def gap(self) -> float:
        """The share of the cost that a better assignment could save at most."""
        return max(0.0, self.cost - self.bound) / self.cost if self.cost else 0.0


def solve(problem: PlacementProblem, *, exact_below: int = EXACT_BELOW) -> Solution:
    """Return an assignment of low cost.

    Args:
        problem: The problem, with at least one job.
        exact_below: The number of jobs below which HiGHS is used.
    """
    relaxation = relax(problem, ascend(problem))
    bound, duals = relaxation.bound, relaxation.bound.duals
    candidates = (rounded(problem, duals, relaxation.shares), repaired(problem, duals))
    chosen = min(
        (improved(problem, candidate) for candidate in candidates),
        key=lambda candidate: float(problem.cost[candidate].sum()),
    )
    chosen = exchanged(problem, chosen)
    cost = bound.cost
    if problem.jobs < exact_below:
        chosen, cost = solve_exactly(problem, bound, chosen)
    total = float(problem.cost[chosen].sum())
    least = min(total, cost - _ROUNDING * abs(cost))
    return Solution(chosen=chosen, cost=total, bound=least, duals=bound.duals)
