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


def solved(problem: PlacementProblem, bound: Bound, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
    """Return an assignment and a lower bound, by a program over the choices within a window of reduced costs.

    An assignment with a choice outside of the window costs at least the bound and the window. So if the window is the
    whole gap, the result is the optimum.

    Args:
        bound: A lower bound with its prices.
        chosen: An assignment that keeps all limits.
    """
    costs = priced(problem, bound.duals)
    reduced = costs - np.minimum.reduceat(costs, problem.starts[:-1])[problem.job]
    gap = float(problem.cost[chosen].sum()) - bound.cost
    if gap <= 0:
        return chosen, bound.cost
    window = _window(reduced, gap + 1e-6)
    choices = np.union1d(np.flatnonzero(reduced <= window), chosen)
    jobs = np.arange(problem.jobs)
    everything = Usage(hours=problem.capacity, accelerators=problem.accelerators, dollars=problem.budget)
    program = Program(problem=problem, jobs=jobs, choices=choices, room=everything)
    solution = program.solved(chosen, seconds=_SECONDS, nodes=_NODES, gap=0.0 if problem.jobs <= _SMALL else _GAP)
    better = solution.chosen if problem.allows(solution.chosen) else chosen
    if problem.cost[better].sum() > problem.cost[chosen].sum():
        better = chosen
    proved = min(solution.bound, bound.cost + window)
    return better, max(bound.cost, min(proved, float(problem.cost[better].sum())))


def _window(reduced: NDArray[np.float64], gap: float) -> float:
    """Return the largest window, up to the gap, that has at most `_CHOICES` choices."""
    if np.count_nonzero(reduced <= gap) <= _CHOICES:
        return gap
    return float(np.partition(reduced, _CHOICES)[_CHOICES])
