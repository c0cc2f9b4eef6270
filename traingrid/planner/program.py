"""Linear programs: solves an assignment problem, or its relaxation, with HiGHS over some of its choices.

HiGHS: https://highs.dev, Huangfu and Hall 2018, https://doi.org/10.1007/s12532-017-0130-5.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import highspy
import numpy as np
from numpy.typing import NDArray

from traingrid.planner.duals import Duals
from traingrid.planner.problem import PlacementProblem, Usage


@dataclass(frozen=True, kw_only=True, eq=False)
class Program:
    """Some jobs, some of their choices, and the limits that the other jobs leave.

    Attributes:
        jobs: The jobs, in ascending order.
        choices: Their choices, in ascending order; each job has at least one.
    """

    problem: PlacementProblem
    jobs: NDArray[np.int64]
    choices: NDArray[np.int64]
    room: Usage

    def relaxed(self) -> Relaxed | None:
        """Return the solution of the linear relaxation, or None if HiGHS does not find it."""
        solver, rows = self._solver(integer=False)
        solver.run()
        if solver.getModelStatus() != highspy.HighsModelStatus.kOptimal:
            return None
        solution = solver.getSolution()
        prices = np.maximum(0.0, -np.array(solution.row_dual)[len(self.jobs) :])
        return Relaxed(duals=rows.duals(prices), shares=np.array(solution.col_value))

    def solve(self, start: NDArray[np.int64], *, seconds: float, nodes: int, gap: float) -> Solved:
        """Return the best assignment of the jobs that HiGHS finds, and a lower bound for the program.

        Args:
            start: The index of each of the jobs' choice in an assignment that keeps the limits.
            nodes: The maximum number of nodes of the search tree.
            gap: The relative gap at which the search may end.
        """
        solver, _ = self._solver(integer=True)
        solver.setOptionValue("time_limit", seconds)
        solver.setOptionValue("mip_max_nodes", nodes)
        solver.setOptionValue("mip_rel_gap", gap)
        solver.setOptionValue("mip_abs_gap", 1e-9)
        positions: NDArray[np.int32] = np.searchsorted(self.choices, start).astype(np.int32)
        solver.setSolution(len(positions), positions, np.ones(len(positions)))
        solver.run()
        info = solver.getInfo()
        solution = solver.getSolution()
        if not solution.value_valid or len(solution.col_value) != len(self.choices):
            return Solved(chosen=start, bound=-np.inf)
        values = np.array(solution.col_value)
        order = np.lexsort((-values, self.problem.job[self.choices]))
        firsts = np.searchsorted(self.problem.job[self.choices], self.jobs)
        return Solved(chosen=self.choices[order[firsts]], bound=float(info.mip_dual_bound))

    def _solver(self, *, integer: bool) -> tuple[Any, _Rows]:
        rows = _Rows.of(self)
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.choices), len(self.jobs) + rows.number
        lp.col_cost_ = self.problem.cost[self.choices]
        lp.col_lower_, lp.col_upper_ = np.zeros(lp.num_col_), np.ones(lp.num_col_)
        lp.row_lower_ = np.concatenate([np.ones(len(self.jobs)), np.full(rows.number, -highspy.kHighsInf)])
        lp.row_upper_ = np.concatenate([np.ones(len(self.jobs)), rows.limits])
        lp.a_matrix_.format_ = highspy.MatrixFormat.kColwise
        starts, indices, values = rows.matrix(self)
        lp.a_matrix_.start_, lp.a_matrix_.index_, lp.a_matrix_.value_ = starts, indices, values
        if integer:
            lp.integrality_ = [highspy.HighsVarType.kInteger] * lp.num_col_
        solver = highspy.Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("random_seed", 1)):
            solver.setOptionValue(option, value)
        solver.passModel(lp)
        return solver, rows


@dataclass(frozen=True, kw_only=True, eq=False)
class Relaxed:
    """The solution of a linear relaxation, in which a job may be divided among several choices.

    Attributes:
        duals: The prices of the limits.
        shares: The share of its job that each choice of the program gets.
    """

    duals: Duals
    shares: NDArray[np.float64]


@dataclass(frozen=True, kw_only=True, eq=False)
class Solved:
    """The result of a program.

    Attributes:
        chosen: The index of the choice of each job of the program.
        bound: A lower bound for the cost of every assignment of the program.
    """

    chosen: NDArray[np.int64]
    bound: float


@dataclass(frozen=True, kw_only=True, eq=False)
class _Rows:
    """The limits that a program can exceed; each is a row.

    Attributes:
        hours: The row of each pool and window, or -1.
        accelerators: The row of each window, or -1.
        budget: The row of the budget, or -1.
    """

    hours: NDArray[np.int64]
    accelerators: NDArray[np.int64]
    budget: int
    limits: NDArray[np.float64]

    @property
    def number(self) -> int:
        """The number of rows."""
        return len(self.limits)

    @classmethod
    def of(cls, program: Program) -> _Rows:
        """Return a row for each limit that all choices together would exceed."""
        most, room = program.problem.usage(program.choices), program.room
        hours = most.hours > room.hours
        accelerators = most.accelerators > room.accelerators
        budget = most.dollars > room.dollars
        first, last = int(hours.sum()), int(hours.sum() + accelerators.sum())
        limits = [room.hours[hours], room.accelerators[accelerators], np.array([room.dollars] * budget)]
        return cls(
            hours=np.where(hours, np.cumsum(hours).reshape(hours.shape) - 1, -1),
            accelerators=np.where(accelerators, first + np.cumsum(accelerators) - 1, -1),
            budget=last if budget else -1,
            limits=np.maximum(0.0, np.concatenate(limits)),
        )

    def matrix(self, program: Program) -> tuple[NDArray[np.int32], NDArray[np.int32], NDArray[np.float64]]:
        """Return the columns of the choices: starts, rows and values."""
        problem, choices, first = program.problem, program.choices, len(program.jobs)
        job, pool = problem.job[choices], problem.pool[choices]
        entries = [(np.arange(len(choices)), np.searchsorted(program.jobs, job), np.ones(len(choices)))]
        of_pool = np.vstack([self.hours, np.full(self.hours.shape[1], -1)])  # the last row is that of UNPLACED
        for window in range(self.hours.shape[1]):
            uses = problem.window[job] <= window
            entries.append(_entries(of_pool[pool, window], problem.hours[choices] * uses, first))
            row = np.full(len(choices), self.accelerators[window])
            entries.append(_entries(row, problem.accelerator_hours[choices] * uses, first))
        entries.append(_entries(np.full(len(choices), self.budget), problem.dollars[choices], first))
        column, rows, values = (np.concatenate(parts) for parts in zip(*entries, strict=True))
        order = np.argsort(column, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(column, minlength=len(choices)))])
        return starts.astype(np.int32), rows[order].astype(np.int32), values[order]

    def duals(self, prices: NDArray[np.float64]) -> Duals:
        """Return the prices of all limits, from those of the rows."""
        padded: NDArray[np.float64] = np.append(prices, 0.0)  # for the limits without a row, -1
        return Duals(
            hours=padded[self.hours], accelerators=padded[self.accelerators], budget=float(padded[self.budget])
        )


def _entries(row: NDArray[np.int64], value: NDArray[np.float64], first: int) -> tuple[Any, Any, Any]:
    """Return the columns, rows and values of the entries that are not zero; rows of limits begin at `first`."""
    indexes = np.flatnonzero((row >= 0) & (value > 0))
    return indexes, first + row[indexes], value[indexes]
