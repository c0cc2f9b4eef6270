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
from traingrid.planner.shortage import PlacementShortage, Remainder, shortages
from traingrid.planner.solver import solve
from traingrid.planner.verdicts import verdict

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.planner.candidates import Options, PlannableLine
    from traingrid.planner.choices import Pool
    from traingrid.planner.durations import Duration
    from traingrid.planner.facts import Facts
    from traingrid.planner.training_places import TrainingPlace

_NEXT = "Read them from AWS: traingrid {0} refresh. Or import a file: traingrid catalog import {0} FILE."


@dataclass(frozen=True, kw_only=True)
class Assignment:
    """The choice for one line.

    Attributes:
        pool: The Region, instance type and purchase option.
        compute: The dollars of all instances.
        verdict: The reason, as a sentence without a full stop.
    """

    candidate: PlannableLine
    pool: Pool
    place: TrainingPlace
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
        shortages: The lines that could not be placed, with the limit that prevents it.
        gap: The share of the cost that a better plan could save at most, counting penalties of unplaced lines.
        bound: The lower bound of the cost in dollars, with these penalties.
    """

    options: Options
    assignments: tuple[Assignment, ...]
    shortages: tuple[PlacementShortage, ...]
    pools: tuple[Pool, ...]
    gap: float
    bound: float

    @property
    def dollars(self) -> float:
        """The dollars of all placed lines."""
        return math.fsum(assignment.dollars for assignment in self.assignments)

    @property
    def moves(self) -> tuple[Assignment, ...]:
        """The choices for which data must be copied."""
        return tuple(assignment for assignment in self.assignments if assignment.place.is_move)

    @property
    def repeated_dollars(self) -> float:
        """The dollars of transfer and storage that `dollars` counts more than once, because lines share a copy.

        A copy is transferred once, and stored until the last deadline of its lines.
        """
        places: defaultdict[str, list[TrainingPlace]] = defaultdict(list)
        for move in self.moves:
            places[move.place.uri].append(move.place)
        once = (
            max(region_place.transfer for region_place in shared) + max(place.storage for place in shared)
            for shared in places.values()
        )
        return max(math.fsum(move.place.dollars for move in self.moves) - math.fsum(once), 0.0)


def plan_of(candidates: Sequence[PlannableLine], facts: Facts, options: Options) -> Plan:
    """Return the plan of candidates.

    Raises:
        UsageError: A line has no price in any Region, or no pool has any capacity.
    """
    _check_prices(candidates, facts)
    pools = pools_of(candidates, facts, options.now)
    if not pools:
        raise _no_capacity(candidates[0])
    limits = limits_of(candidates, options)
    problem = problem_of([candidate.demand() for candidate in candidates], pools, limits)
    solution = solve(problem)
    used = problem.usage(solution.chosen)
    assignments, unplaced = [], []
    for candidate, choice in zip(candidates, solution.chosen.tolist(), strict=True):
        if problem.pool[choice] < 0:
            unplaced.append(candidate)
        else:
            assignments.append(_assignment(candidate, pools[int(problem.pool[choice])], facts))
    remaining = problem.capacity[:, -1] - used.hours[:, -1]
    hours = {pool.key: float(left) for pool, left in zip(pools, remaining, strict=True)}
    remainder = Remainder(pools=pools, limits=limits, hours=hours, budget=options.budget - used.dollars)
    return Plan(
        options=options,
        assignments=tuple(assignments),
        shortages=tuple(shortages(unplaced, facts, remainder)),
        pools=tuple(pools),
        gap=float(solution.gap),
        bound=float(np.round(solution.bound, 6)),
    )


def _assignment(candidate: PlannableLine, pool: Pool, facts: Facts) -> Assignment:
    duration, place = candidate.durations[pool.instance_type], candidate.places.by_region[pool.region]
    return Assignment(
        candidate=candidate,
        pool=pool,
        place=place,
        duration=duration,
        compute=candidate.compute(pool.key, facts) or 0.0,
        verdict=verdict(candidate, pool, facts),
    )


def _check_prices(candidates: Sequence[PlannableLine], facts: Facts) -> None:
    for candidate in candidates:
        keys = list(candidate.pool_keys)
        if any(key in facts.prices for key in keys):
            continue
        region, name, option = keys[0]
        end = (
            f", nor in {len(candidate.places.by_region) - 1} other Regions."
            if len(candidate.places.by_region) > 1
            else "."
        )
        if is_paid(option):
            text = f"Line {candidate.line.number}: the catalog has no {plan_text(option)} with {name} in {region}{end}"
            raise UsageError(text, _NEXT.format("capacity"))
        text = f"Line {candidate.line.number}: the catalog has no price of {name} ({option}) in {region}{end}"
        raise UsageError(text, _NEXT.format("prices"))


def _no_capacity(candidate: PlannableLine) -> UsageError:
    text = f"No Region has capacity for {', '.join(candidate.durations)}: each quota in the catalog is 0 or missing."
    return UsageError(text, _NEXT.format("capacity"))
