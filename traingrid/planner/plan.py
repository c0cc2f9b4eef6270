"""Plan: the choice of Region, instance type and purchase option for each line, with its cost and its reason."""

from __future__ import annotations

import math
from collections import defaultdict
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from traingrid.errors import UsageError
from traingrid.planner.candidates import limits_of, pools_of
from traingrid.planner.choices import problem_of
from traingrid.planner.pool_keys import is_paid, plan_text
from traingrid.planner.shortage import Remainder, Shortage, shortages
from traingrid.planner.solver import solve
from traingrid.planner.verdicts import verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.planner.candidates import Candidate, Options
    from traingrid.planner.choices import Pool
    from traingrid.planner.durations import Duration
    from traingrid.planner.facts import Facts
    from traingrid.planner.places import Place

_NEXT = "Read them from AWS: traingrid {0} refresh. Or import a file: traingrid catalog import {0} FILE."


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The choice for one line.

    Attributes:
        candidate: The line.
        pool: The Region, instance type and purchase option.
        place: The data's place in the Region.
        duration: The expected duration.
        compute: The dollars of all instances.
        verdict: The reason, as a sentence without a full stop.
    """

    candidate: Candidate
    pool: Pool
    place: Place
    duration: Duration
    compute: float
    verdict: str

    @property
    def dollars(self) -> float:
        """The dollars of compute, transfer and storage."""
        return self.compute + self.place.dollars

    @property
    def instance_hours(self) -> float:
        """The instance-hours."""
        return self.duration.hours * self.candidate.job.instance_count


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The choices for all lines.

    Attributes:
        options: The options.
        assignments: The placed lines.
        shortages: The lines that could not be placed, with the limit that prevents it.
        pools: The pools that were considered.
        gap: The share of the cost that a better plan could save at most, counting penalties of unplaced lines.
        bound: The lower bound of the cost in dollars, with these penalties.
    """

    options: Options
    assignments: tuple[Assignment, ...]
    shortages: tuple[Shortage, ...]
    pools: tuple[Pool, ...]
    gap: float
    bound: float

    @property
    def dollars(self) -> float:
        """The dollars of all placed lines."""
        return math.fsum(one.dollars for one in self.assignments)

    @property
    def moves(self) -> tuple[Assignment, ...]:
        """The choices for which data must be copied."""
        return tuple(one for one in self.assignments if one.place.is_move)

    @property
    def repeated_dollars(self) -> float:
        """The dollars of transfer and storage that `dollars` counts more than once, because lines share a copy.

        A copy is transferred once, and stored until the last deadline of its lines.
        """
        places: defaultdict[str, list[Place]] = defaultdict(list)
        for one in self.moves:
            places[one.place.uri].append(one.place)
        once = (max(one.transfer for one in shared) + max(one.storage for one in shared) for shared in places.values())
        return max(math.fsum(one.place.dollars for one in self.moves) - math.fsum(once), 0.0)


def plan_of(found: Sequence[Candidate], facts: Facts, options: Options) -> Plan:
    """Return the plan of candidates.

    Args:
        found: The candidates.
        facts: The catalog's facts.
        options: The options of the plan.

    Raises:
        UsageError: A line has no price in any Region, or no pool has any capacity.
    """
    _check_prices(found, facts)
    pools = pools_of(found, facts, options.now)
    if not pools:
        raise _no_capacity(found[0])
    limits = limits_of(found, options)
    problem = problem_of([one.demand() for one in found], pools, limits)
    solution = solve(problem)
    used = problem.usage(solution.chosen)
    assignments, unplaced = [], []
    for one, choice in zip(found, solution.chosen.tolist(), strict=True):
        if problem.pool[choice] < 0:
            unplaced.append(one)
        else:
            assignments.append(_assignment(one, pools[int(problem.pool[choice])], facts))
    rest = problem.capacity[:, -1] - used.hours[:, -1]
    hours = {pool.key: float(left) for pool, left in zip(pools, rest, strict=True)}
    remainder = Remainder(pools=pools, limits=limits, hours=hours, budget=options.budget - used.dollars)
    return Plan(
        options=options,
        assignments=tuple(assignments),
        shortages=tuple(shortages(unplaced, facts, remainder)),
        pools=tuple(pools),
        gap=float(solution.gap),
        bound=float(np.round(solution.bound, 6)),
    )


def _assignment(one: Candidate, pool: Pool, facts: Facts) -> Assignment:
    duration, place = one.durations[pool.instance_type], one.places.by_region[pool.region]
    return Assignment(
        candidate=one,
        pool=pool,
        place=place,
        duration=duration,
        compute=one.job.instance_count * duration.hours * pool.dollars,
        verdict=verdict(one, pool, facts),
    )


def _check_prices(found: Sequence[Candidate], facts: Facts) -> None:
    for one in found:
        keys = list(one.pool_keys)
        if any(key in facts.prices for key in keys):
            continue
        region, name, option = keys[0]
        others = f", nor in {len(one.places.by_region) - 1} other Regions." if len(one.places.by_region) > 1 else "."
        if is_paid(option):
            text = f"Line {one.line.number}: the catalog has no {plan_text(option)} with {name} in {region}{others}"
            raise UsageError(text, _NEXT.format("capacity"))
        text = f"Line {one.line.number}: the catalog has no price of {name} ({option}) in {region}{others}"
        raise UsageError(text, _NEXT.format("prices"))


def _no_capacity(one: Candidate) -> UsageError:
    text = f"No Region has capacity for {', '.join(one.durations)}: each quota in the catalog is 0 or missing."
    return UsageError(text, _NEXT.format("capacity"))
