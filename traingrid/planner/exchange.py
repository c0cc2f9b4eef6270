"""Exchanges: lets a job take a cheaper choice in a full pool, if the jobs that make room for it lose less."""

import numpy as np
from numpy.typing import NDArray

from traingrid.planner.problem import PlacementProblem
from traingrid.planner.repair import MIN_SAVING, Room

_PASSES = 4
_TRIED = 6
"""The number of a job's cheaper choices, from the cheapest, for which an exchange is tried."""
_EVICTED = 40
"""The maximum number of jobs that make room for one."""


def exchanged(problem: PlacementProblem, chosen: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return an assignment that costs at most as much.

    Args:
        chosen: An assignment that keeps all limits.
    """
    search = _Search(problem, chosen)
    wish = np.minimum.reduceat(problem.cost, problem.starts[:-1])
    for _ in range(_PASSES):
        search.look()
        gains = problem.cost[search.chosen] - wish
        jobs = np.flatnonzero(gains > MIN_SAVING)
        if not sum(search.try_job(int(job)) for job in jobs[np.argsort(-gains[jobs], kind="stable")]):
            break
    return search.chosen


class _Search:
    def __init__(self, problem: PlacementProblem, chosen: NDArray[np.int64]) -> None:
        self.problem, self.chosen = problem, chosen.copy()
        self._room = Room(problem)
        for job, choice in enumerate(chosen):
            self._room.take(job, int(choice))
        self._losses = np.zeros(problem.jobs)
        self._pools, self._hours = problem.pool[chosen], problem.hours[chosen]

    def look(self) -> None:
        """Find out how much each job would lose by its cheapest other choice that fits now."""
        fits = self._room.fitting()
        fits[self.chosen] = False
        alternatives = np.where(fits, self.problem.cost, np.inf)
        self._losses = np.minimum.reduceat(alternatives, self.problem.starts[:-1]) - self.problem.cost[self.chosen]

    def try_job(self, job: int) -> bool:
        """Return True if an exchange gives a job a cheaper choice."""
        costs = self.problem.cost[self.problem.starts[job] : self.problem.starts[job + 1]]
        cheaper = np.flatnonzero(costs < self.problem.cost[self.chosen[job]] - MIN_SAVING)
        order = cheaper[np.argsort(costs[cheaper], kind="stable")][:_TRIED]
        return any(self._try_choice(job, int(self.problem.starts[job] + choice)) for choice in order)

    def _try_choice(self, job: int, choice: int) -> bool:
        evicted = self._evicted(job, choice)
        if evicted is None:
            return False
        before = [
            (job, int(self.chosen[job])),
            *((int(evicted_job), int(self.chosen[evicted_job])) for evicted_job in evicted),
        ]
        for moved_job, placed in before:
            self._room.take(moved_job, placed, -1)
        after: list[tuple[int, int]] = []
        if self._room.fits(job, choice):
            self._room.take(job, choice)
            after.append((job, choice))
            for evicted_job in evicted:
                best = self._room.best(int(evicted_job), self.problem.cost)
                self._room.take(int(evicted_job), best)
                after.append((int(evicted_job), best))
            if self._cost(after) < self._cost(before) - MIN_SAVING:
                self._keep(after)
                return True
        for moved_job, placed in after:
            self._room.take(moved_job, placed, -1)
        for moved_job, placed in before:
            self._room.take(moved_job, placed)
        return False

    def _evicted(self, job: int, choice: int) -> NDArray[np.int64] | None:
        """Return jobs of a choice's pool that make room for a job and lose less than it gains; None without any."""
        problem, window = self.problem, self.problem.window[job]
        gain = problem.cost[self.chosen[job]] - problem.cost[choice]
        needed = problem.hours[choice] - self._room.hours_for(job, choice)
        if needed <= 0:
            return self._unaffordable(job, choice)
        jobs = np.flatnonzero(self._pools == problem.pool[choice])
        jobs = jobs[(self._losses[jobs] < gain) & (problem.window[jobs] <= window)]
        if not len(jobs):
            return None
        losses, hours = self._losses[jobs], self._hours[jobs]
        single = np.where(hours >= needed, losses, np.inf)
        cheapest = int(single.argmin())
        order = np.argsort(losses / np.maximum(hours, 1e-12), kind="stable")[:_EVICTED]
        number = int(np.searchsorted(np.cumsum(hours[order]), needed)) + 1
        several = losses[order[:number]].sum() if number <= len(order) else np.inf
        if min(single[cheapest], several) >= gain:
            return None
        return jobs[[cheapest]] if single[cheapest] <= several else jobs[order[:number]]

    def _unaffordable(self, job: int, choice: int) -> NDArray[np.int64] | None:
        """Return the job that stays unplaced so that the budget suffices for another one; none if it suffices."""
        problem, dollars = self.problem, self.problem.dollars
        needed = dollars[choice] - dollars[self.chosen[job]] - self._room.dollars
        if needed <= 0:
            return np.array([], dtype=np.int64)
        losses = problem.cost[problem.starts[:-1]] - problem.cost[self.chosen]
        losses = np.where(dollars[self.chosen] >= needed, losses, np.inf)
        losses[job] = np.inf
        evicted_job = int(losses.argmin())
        gain = problem.cost[self.chosen[job]] - problem.cost[choice]
        return np.array([evicted_job]) if losses[evicted_job] < gain else None

    def _cost(self, choices: list[tuple[int, int]]) -> float:
        return float(sum(self.problem.cost[choice] for _, choice in choices))

    def _keep(self, choices: list[tuple[int, int]]) -> None:
        for job, choice in choices:
            self.chosen[job] = choice
            self._pools[job], self._hours[job] = self.problem.pool[choice], self.problem.hours[choice]
            self._losses[job] = np.inf  # unknown until the next look
