"""Verdicts: the reason for a line's Region, in dollars."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traingrid.deploy.prices import GIGABYTE
from traingrid.planner.pool_keys import SPOT, is_paid, plan_text
from traingrid.text import byte_size

if TYPE_CHECKING:
    from traingrid.planner.candidates import PlannableLine
    from traingrid.planner.choices import Pool
    from traingrid.planner.facts import Facts
    from traingrid.planner.training_places import TrainingPlace


class _Option(NamedTuple):
    total: float
    compute: float
    place: TrainingPlace


def verdict(candidate: PlannableLine, pool: Pool, facts: Facts) -> str:
    """Return the reason for a choice, as a sentence without a full stop.

    It compares list prices; capacity is the reason if the cheaper alternative was not chosen.
    """
    if is_paid(pool.option):
        return f"trains on the {plan_text(pool.option)}: its hours are already paid"
    compute = candidate.compute(pool.key, facts) or 0.0
    place = candidate.places.by_region[pool.region]
    chosen = _Option(compute + place.dollars, compute, place)
    text = _reason(candidate, chosen, _best_by_region(candidate, facts))
    if pool.option != SPOT:
        return text
    share = candidate.spot_share(pool.instance_type)
    return f"{text}; its price expects spot instances for {100 * share:.0f} % of the training"


def _reason(candidate: PlannableLine, chosen: _Option, options: list[_Option]) -> str:
    place, own_region = chosen.place, candidate.line.region
    if place.is_move:
        return _moved(chosen, [option for option in options if not option.place.is_move])
    if place.region != own_region:
        return _replica(chosen, next((option for option in options if option.place.region == own_region), None))
    return _stayed(candidate, chosen, [option for option in options if option.place.region != place.region])


def size_text(size: int) -> str:
    """Return bytes as GB of 2^30 bytes, or below a tenth of one with a decimal unit."""
    gigabytes = size / GIGABYTE
    return f"{gigabytes:,.0f} GB" if gigabytes >= 10 else f"{gigabytes:.1f} GB" if gigabytes >= 0.1 else byte_size(size)


def _best_by_region(candidate: PlannableLine, facts: Facts) -> list[_Option]:
    """Return the cheapest choice in each Region by list prices, before its deadline, whether it has room or not."""
    computes: dict[str, float] = {}
    for key in candidate.pool_keys:
        region, compute = key[0], candidate.compute(key, facts)
        if compute is not None:
            computes[region] = min(compute, computes.get(region, compute))
    places = candidate.places.by_region
    options = [
        _Option(compute + places[region].dollars, compute, places[region]) for region, compute in computes.items()
    ]
    return sorted(options, key=lambda option: (option.total, option.place.region))


def _copying(place: TrainingPlace) -> str:
    size = place.source.size if place.source and place.source.size else 0
    return f"moving {size_text(size)} to {place.region} costs ${place.dollars:,.2f}"


def _moved(chosen: _Option, without_move: list[_Option]) -> str:
    text = f"moves: {_copying(chosen.place)}"
    if not without_move:
        return text
    saving = without_move[0].compute - chosen.compute
    if saving > chosen.place.dollars:
        return f"{text} and saves ${saving:,.2f}"
    return f"{text}, because {without_move[0].place.region} has no room"


def _replica(chosen: _Option, own: _Option | None) -> str:
    text = f"trains at the replica in {chosen.place.region}"
    if own is None:
        return f"{text}: its own Region has no price"
    saving = own.total - chosen.total
    return f"{text}: saves ${saving:,.2f}" if saving > 0 else f"{text}: its own Region has no room"


def _stayed(candidate: PlannableLine, chosen: _Option, options: list[_Option]) -> str:
    if not options:
        reason = candidate.places.only or "no other Region is possible"
        return f"stays: {reason}"
    best = options[0]
    saving = chosen.compute - best.compute
    if not best.place.is_move:
        if best.total < chosen.total:
            return f"stays: the replica in {best.place.region} is cheaper, but has no room"
        return "stays: no replica is in a cheaper Region"
    if saving <= 0:
        return "stays: no other Region is cheaper"
    text = f"stays: {_copying(best.place)} and saves ${saving:,.2f}"
    return text if saving <= best.place.dollars else f"{text}, but {best.place.region} has no room"
