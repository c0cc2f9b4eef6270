"""Changes: compares the facts that a plan used with those of the catalog now."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING

from traingrid.planner.pool_keys import is_paid, pool_text

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.planner.facts import Facts
    from traingrid.planner.plan_file import PlanFile

TOLERANCE = 0.01
"""The relative change of a price that does not invalidate a plan."""


def changes(plan: PlanFile, facts: Facts, now: datetime) -> Iterator[str]:
    """Yield a sentence without a full stop for each fact that has changed since a plan.

    Args:
        facts: The catalog's facts now.
    """
    yield from _deadlines(plan, now)
    yield from _prices(plan, facts)
    for quota in plan.header.quotas:
        key = (quota.region, quota.instance_type, quota.purchase_option)
        instances = facts.instances.get(key, 0)
        if instances < quota.instances:
            name = "number of instances" if is_paid(key[2]) else "quota"
            yield f"the {name} of {pool_text(key)} was {quota.instances} and is {instances}"
    for used in plan.header.replicas:
        name = f"{used.dataset} version {used.version} in {used.region}"
        replica = facts.versions.get((used.dataset, used.version), {}).get(used.region)
        if replica is None:
            yield f"{name} is not available any more"
        elif replica.uri != used.uri:
            yield f"{name} was at {used.uri} and is at {replica.uri}"
        elif (replica.size, replica.objects) != (used.bytes, used.objects):
            yield f"{name} had {_size(used.bytes, used.objects)} and has {_size(replica.size, replica.objects)}"


def _deadlines(plan: PlanFile, now: datetime) -> Iterator[str]:
    late = [line.line for line in plan.lines if datetime.fromisoformat(str(line.job["finish_by"])) <= now]
    if late:
        yield f"the deadline of line {late[0]} has passed" + (f", and {len(late) - 1} others" if len(late) > 1 else "")


def _prices(plan: PlanFile, facts: Facts) -> Iterator[str]:
    for used in plan.header.prices:
        key = (used.region, used.instance_type, used.purchase_option)
        price = facts.prices.get(key)
        yield from _price(f"the price of {pool_text(key)}", used.dollars_per_hour, price.dollars if price else None)
    for transfer in plan.header.transfer_prices:
        price = facts.transfer.get((transfer.from_region, transfer.to_region))
        name = f"the transfer price from {transfer.from_region} to {transfer.to_region}"
        yield from _price(name, transfer.dollars_per_gb, price.dollars if price else None)


def _price(name: str, before: float, now: float | None) -> Iterator[str]:
    if now is None:
        yield f"{name} was ${before:g} and is not in the catalog any more"
    elif abs(now - before) > TOLERANCE * before:
        yield f"{name} was ${before:g} and is ${now:g}"


def _size(size: int | None, objects: int | None) -> str:
    parts = [f"{size:,} bytes"] if size is not None else []
    parts += [f"{objects:,} objects"] if objects is not None else []
    return " and ".join(parts) or "no known size"
