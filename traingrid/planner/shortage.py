"""Shortages: why a line could not be placed, and the command that raises the limit."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from traingrid.planner.pool_keys import SPOT, is_paid, plan_text, pool_text
from traingrid.text import counted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traingrid.planner.candidates import PlannableLine
    from traingrid.planner.choices import PlanLimits, Pool
    from traingrid.planner.facts import Facts
    from traingrid.planner.pool_keys import PoolKey


@dataclass(frozen=True, kw_only=True)
class PlacementShortage:
    """A line that could not be placed.

    Attributes:
        reason: The limit, as the end of a sentence.
        next_step: How to raise it.
    """

    candidate: PlannableLine
    reason: str
    next_step: str


@dataclass(frozen=True, kw_only=True)
class Remainder:
    """The limits of a plan, and the rest that it leaves.

    Attributes:
        hours: The instance-hours that are left in each pool.
        budget: The dollars that are left of the budget.
    """

    pools: Sequence[Pool]
    limits: PlanLimits
    hours: Mapping[PoolKey, float]
    budget: float


def shortages(unplaced: Sequence[PlannableLine], facts: Facts, remainder: Remainder) -> Iterator[PlacementShortage]:
    """Yield a shortage for each unplaced line, in their order.

    The quota that a line needs includes the instances that the lines before it lack.
    """
    search = _ShortageSearch(facts, remainder)
    for candidate in unplaced:
        reason, next_step = search.next_shortage(candidate)
        yield PlacementShortage(candidate=candidate, reason=reason, next_step=next_step)


def raise_quota(region: str, instance_type: str, option: str, instances: int) -> str:
    """Return the command that requests a quota.

    The names of the quotas are in https://docs.aws.amazon.com/general/latest/gr/sagemaker.html; their codes are only
    known to the API.
    """
    quota = f"{instance_type} for {'spot ' * (option == SPOT)}training job usage"
    service = f"--service-code sagemaker --region {region}"
    query = f"--query \"Quotas[?QuotaName=='{quota}'].QuotaCode\""
    code = f"aws service-quotas list-service-quotas {service} --output text {query}"
    request = f"aws service-quotas request-service-quota-increase {service} --desired-value {instances}"
    return f"{request} --quota-code $({code})"


class _ShortageSearch:
    def __init__(self, facts: Facts, remainder: Remainder) -> None:
        self._facts, self._limits, self._budget_left = facts, remainder.limits, remainder.budget
        self._pools = {pool.key: pool for pool in remainder.pools}
        self._hours = dict(remainder.hours)

    def next_shortage(self, candidate: PlannableLine) -> tuple[str, str]:
        """Return the limit that prevents a line's cheapest choice, and how to raise it; remember the missing instances.

        A choice for which a pool has the instances precedes a cheaper one without.
        """
        choices = _choices(candidate, self._facts)
        if not choices:
            hours = min(duration.hours for duration in candidate.durations.values())
            text = f"it needs {hours:,.1f} hours, and its deadline is in {candidate.deadline:,.1f}"
            return text, "Write a later finish_by, or more instances."
        instances = candidate.job.instance_count
        fitting = [
            choice for choice in choices if choice.key in self._pools and self._pools[choice.key].instances >= instances
        ]
        best = (fitting or choices)[0]
        _, instance_type, option = best.key
        most = self._limits.accelerators_of.get(instance_type, 0) * instances
        if most > self._limits.accelerators:
            text = f"it needs {most} accelerators, and at most {self._limits.accelerators:,.0f} may be in use"
            return text, f"Plan with --accelerators {most} or more."
        if is_paid(option):
            return self._plan_shortage(candidate, best), "Remove training_plan from the line, or name a plan with room."
        if fitting and best.dollars > self._budget_left:
            text = f"it costs ${best.dollars:,.2f}, and ${max(0.0, self._budget_left):,.2f} of the budget are left"
            return (
                text,
                f"Plan with --budget {math.ceil(self._limits.budget + best.dollars - self._budget_left)} or more.",
            )
        return self._pool_shortage(candidate, best)

    def _plan_shortage(self, candidate: PlannableLine, best: _NearestChoice) -> str:
        """Return the shortage of a training plan."""
        instances, pool = candidate.job.instance_count, self._pools.get(best.key)
        available = pool.instances if pool else 0
        if pool is None or available < instances:
            return f"it needs {counted(instances, 'instance')} of {pool_text(best.key)}, and {available} are left"
        time = min(pool.until, candidate.deadline) - pool.starts
        if best.hours > time:
            text = f"it needs {best.hours:,.1f} hours, and the {plan_text(pool.option)} has {max(0.0, time):,.1f}"
            return f"{text} until {'the deadline' if candidate.deadline < pool.until else 'its end'}"
        return f"{pool_text(best.key)} has no instance free until its end or the deadline"

    def _pool_shortage(self, candidate: PlannableLine, best: _NearestChoice) -> tuple[str, str]:
        """Return the shortage of instances in a pool, or of accelerators if the pool has room."""
        instances, available = candidate.job.instance_count, self._facts.instances.get(best.key, 0)
        pool = pool_text(best.key)
        left = self._hours.get(best.key, 0.0) - instances * best.hours
        if left >= 0 and math.isfinite(self._limits.accelerators):
            text = f"the {self._limits.accelerators:,.0f} accelerators are in use until its deadline"
            return text, "Plan with more --accelerators, or with a later deadline."
        self._hours[best.key] = left
        needed = max(instances, available + max(1, math.ceil(-left / candidate.deadline)))
        if available < instances:
            text = f"it needs {instances} instances of {pool}, and the quota is {available}"
            return text, raise_quota(*best.key, needed)
        return f"the {available} instances of {pool} are in use until its deadline", raise_quota(*best.key, needed)


class _NearestChoice(NamedTuple):
    dollars: float
    key: PoolKey
    hours: float


def _choices(candidate: PlannableLine, facts: Facts) -> list[_NearestChoice]:
    """Return the line's choices before its deadline from the cheapest, whether they have room or not."""
    choices = []
    for key in candidate.pool_keys:
        compute = candidate.compute(key, facts)
        if compute is not None:
            hours = candidate.durations[key[1]].hours
            choices.append(_NearestChoice(compute + candidate.places.by_region[key[0]].dollars, key, hours))
    return sorted(choices)
