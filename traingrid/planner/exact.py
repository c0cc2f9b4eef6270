"""Exact solution of smaller problems: a mixed-integer program over the choices that can be part of a better one."""

import numpy as np
from numpy.typing import NDArray

from traingrid.planner.ascent import Bound
from traingrid.planner.duals import priced
from traingrid.planner.problem import PlacementProblem, Usage
from traingrid.planner.program import Program

_CHOICES = 20_000
"""The maximum number of choices of the mixed-integer program."""
_SECONDS, _NODES = 30.0, 20_000
_SMALL = 200
"""The number of jobs up to which the program is solved to optimality."""
_GAP = 1e-4


def solve_exactly(
    problem: PlacementProblem, bound: Bound, chosen: NDArray[np.int64]
) -> tuple[NDArray[np.int64], float]:
    """Return an assignment and a lower bound of the cost, from a mixed-integer program.

    The program has only the choices whose reduced cost is inside a window. An assignment with any other choice costs at
    least the lower bound plus the window, so the result is optimal if the window is as wide as the gap.

    Args:
        bound: A lower bound with its prices.
        chosen: An assignment that keeps all limits.
    """
    costs = priced(problem, bound.duals)
    # the reduced cost of each choice: its cost minus the cost of the cheapest choice of its job
    reduced = costs - np.minimum.reduceat(costs, problem.starts[:-1])[problem.job]
    gap = float(problem.cost[chosen].sum()) - bound.cost
    if gap <= 0:
        return chosen, bound.cost
    window = _window(reduced, gap + 1e-6)
    choices = np.union1d(np.flatnonzero(reduced <= window), chosen)
    jobs = np.arange(problem.jobs)
    limits = Usage(hours=problem.capacity, accelerators=problem.accelerators, dollars=problem.budget)
    program = Program(problem=problem, jobs=jobs, choices=choices, room=limits)
    solution = program.solve(chosen, seconds=_SECONDS, nodes=_NODES, gap=0.0 if problem.jobs <= _SMALL else _GAP)
    best = solution.chosen if problem.allows(solution.chosen) else chosen
    if problem.cost[best].sum() > problem.cost[chosen].sum():
        best = chosen
    program_bound = min(solution.bound, bound.cost + window)
    best_cost = float(problem.cost[best].sum())
    return best, max(bound.cost, min(program_bound, best_cost))  # rounding may put a bound above the cost


def _window(reduced: NDArray[np.float64], gap: float) -> float:
    """Return the largest window, up to the gap, that has at most `_CHOICES` choices."""
    if np.count_nonzero(reduced <= gap) <= _CHOICES:
        return gap
    return float(np.partition(reduced, _CHOICES)[_CHOICES])
