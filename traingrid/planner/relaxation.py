"""Linear relaxation: gives the best prices of the limits, and nearly an assignment, by column generation.

With some choices of each job, HiGHS finds the prices; at these, all other choices are priced, and those that are
cheaper than the job's cheapest one are added. In a basic solution at most as many jobs are divided among several
choices as limits are reached, so almost all jobs have one choice.
"""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from traingrid.planner.ascent import Bound
from traingrid.planner.duals import bound_of, cheapest, cheapest_few, priced
from traingrid.planner.problem import PlacementProblem, Usage
from traingrid.planner.program import Program

_FIRST, _NEW = 16, 4
"""The number of choices of each job in the first round, and how many a later round adds at most."""
_MAX_CHOICES = 2_000_000
"""The number of choices, times rounds, that HiGHS solves: 12 rounds of 160,000 choices."""
_TOLERANCE = 1e-9


@dataclass(frozen=True, kw_only=True, eq=False)
class Relaxation:
    """The solution of the linear relaxation.

    Attributes:
        bound: The lower bound with its prices.
        shares: The share of its job that each choice of the problem gets; all 0 if HiGHS found none.
    """

    bound: Bound
    shares: NDArray[np.float64]


def relax(problem: PlacementProblem, bound: Bound) -> Relaxation:
    """Return the solution of the linear relaxation, or a good approximation of a large one.

    Args:
        bound: A bound to start with, which the result does not fall below.
    """
    room = Usage(hours=problem.capacity, accelerators=problem.accelerators, dollars=problem.budget)
    jobs, shares, duals = np.arange(problem.jobs), np.zeros(len(problem.pool)), bound.duals
    choices, solved = _selected(problem, priced(problem, duals), problem.starts[:-1], _FIRST), 0
    while solved == 0 or solved + len(choices) <= _MAX_CHOICES:
        solved += len(choices)
        relaxed = Program(problem=problem, jobs=jobs, choices=choices, room=room).relaxed()
        if relaxed is None:
            break
        duals = relaxed.duals
        shares = np.zeros(len(problem.pool))
        shares[choices] = relaxed.shares
        bound = max(bound, Bound(duals=duals, cost=bound_of(problem, duals)), key=lambda lower_bound: lower_bound.cost)
        costs = priced(problem, duals)
        if not _has_cheaper(problem, costs, choices):
            break
        choices = _selected(problem, costs, choices, _NEW)
    return Relaxation(bound=bound, shares=shares)


def _selected(
    problem: PlacementProblem, costs: NDArray[np.float64], choices: NDArray[np.int64], number: int
) -> NDArray[np.int64]:
    """Return choices and the cheapest ones of each job, in ascending order."""
    is_selected: NDArray[np.bool_] = np.zeros(len(costs), dtype=bool)
    is_selected[choices] = is_selected[cheapest_few(problem, costs, number)] = True
    return np.flatnonzero(is_selected)


def _has_cheaper(problem: PlacementProblem, costs: NDArray[np.float64], choices: NDArray[np.int64]) -> bool:
    """Return True if a job has a cheaper choice than those of the program."""
    present_costs = np.full(len(costs), np.inf)
    present_costs[choices] = costs[choices]
    best = np.minimum.reduceat(present_costs, problem.starts[:-1])
    least = costs[cheapest(costs, problem.starts)]
    return bool(np.any(least < best - _TOLERANCE * np.maximum(1.0, np.abs(best))))
