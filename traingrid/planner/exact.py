"""Exact solution of smaller problems: duals by column generation, then a mixed-integer program over few choices."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from traingrid.planner.ascent import Bound
from traingrid.planner.duals import bound_of, cheapest, cheapest_few, priced
from traingrid.planner.problem import Usage
from traingrid.planner.program import Program

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from traingrid.planner.problem import Problem

_ROUNDS = 30
_NEW = 4
"""The number of choices of each job that a round of the column generation adds at most."""
_CHOICES = 20_000
"""The maximum number of choices of the mixed-integer program."""
_SECONDS, _NODES = 30.0, 20_000
_SMALL = 200
"""The number of jobs up to which the program is solved to optimality."""
_GAP = 1e-4


def tightened(problem: Problem, bound: Bound, chosen: NDArray[np.int64]) -> Bound:
    """Return the bound of the linear relaxation, or the given one if HiGHS does not find it.

    Column generation: a relaxation with some choices gives prices, at which all other choices are priced; those that
    are cheaper than the job's cheapest one are added.

    Args:
        problem: The problem.
        bound: A bound to start with.
        chosen: An assignment that keeps all limits.
    """
    whole = Usage(hours=problem.capacity, accelerators=problem.accelerators, dollars=problem.budget)
    jobs = np.arange(problem.jobs)
    duals, choices = bound.duals, np.union1d(chosen, problem.starts[:-1])
    for _ in range(_ROUNDS):
        choices = np.union1d(choices, cheapest_few(problem, priced(problem, duals), _NEW))
        found = Program(problem=problem, jobs=jobs, choices=choices, room=whole).relaxed()
        if found is None:
            break
        duals = found
        bound = max(bound, Bound(duals=duals, cost=bound_of(problem, duals)), key=lambda one: one.cost)
        costs = priced(problem, duals)
        missing = np.setdiff1d(cheapest(costs, problem.starts), choices)
        present = np.full(len(costs), np.inf)
        present[choices] = costs[choices]
        best = np.minimum.reduceat(present, problem.starts[:-1])
        if not np.any(costs[missing] < best[problem.job[missing]] - 1e-9 * np.abs(best[problem.job[missing]]) - 1e-9):
            break
    return bound


def solved(problem: Problem, bound: Bound, chosen: NDArray[np.int64]) -> tuple[NDArray[np.int64], float]:
    """Return an assignment and a lower bound, by a program over the choices within a window of reduced costs.

    An assignment with a choice outside of the window costs at least the bound and the window. So if the window is the
    whole gap, the result is the optimum.

    Args:
        problem: The problem.
        bound: A lower bound with its prices.
        chosen: An assignment that keeps all limits.
    """
    costs = priced(problem, bound.duals)
    reduced = costs - np.minimum.reduceat(costs, problem.starts[:-1])[problem.job]
    gap = float(problem.cost[chosen].sum()) - bound.cost
    if gap <= 0:
        return chosen, bound.cost
    window = _window(reduced, gap + 1e-6)
    kept = np.union1d(np.flatnonzero(reduced <= window), chosen)
    jobs = np.arange(problem.jobs)
    whole = Usage(hours=problem.capacity, accelerators=problem.accelerators, dollars=problem.budget)
    program = Program(problem=problem, jobs=jobs, choices=kept, room=whole)
    found = program.solved(chosen, seconds=_SECONDS, nodes=_NODES, gap=0.0 if problem.jobs <= _SMALL else _GAP)
    better = found.chosen if problem.allows(found.chosen) else chosen
    if problem.cost[better].sum() > problem.cost[chosen].sum():
        better = chosen
    proved = min(found.bound, bound.cost + window)
    return better, max(bound.cost, min(proved, float(problem.cost[better].sum())))


def _window(reduced: NDArray[np.float64], gap: float) -> float:
    """Return the largest window, up to the gap, that has at most `_CHOICES` choices."""
    if np.count_nonzero(reduced <= gap) <= _CHOICES:
        return gap
    return float(np.partition(reduced, _CHOICES)[_CHOICES])
