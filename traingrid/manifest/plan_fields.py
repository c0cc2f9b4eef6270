"""Plan fields: the fields of a line that `traingrid plan` reads or writes, and the residency of its data."""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from traingrid.grid.field_types import MAX_RUNTIME_LIMIT
from traingrid.grid.residency import GEOGRAPHIES, is_resident, unknown_areas
from traingrid.job.accelerators import accelerators
from traingrid.ledger.timestamps import timestamp
from traingrid.manifest.values import RefusedError, duration

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence

    from traingrid.grid.model import Grid

    Problem = tuple[str, str, RefusedError]
    """A field, its value, and the reason why it is refused."""

MAX_DOLLARS = 1e9
_ONE_PLACE = "Remove the Region from the line, or change `residency` of the Region in grid.yaml and deploy."


def words(value: object, next_step: str) -> list[str]:
    """Return a list of words from JSON, or from text with blanks between them."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise RefusedError("must be a list of words", next_step)
    return list(dict.fromkeys(value))


def residency(value: object) -> tuple[str, ...]:
    """Return the geographies and Regions in which data may be."""
    next_step = f"Write geographies ({', '.join(GEOGRAPHIES)}) or Regions, such as [eu] or [eu-west-1, eu-central-1]."
    found = words(value, next_step)
    if unknown := unknown_areas(found):
        raise RefusedError(f"{unknown[0][:40]!r} is neither a geography nor a Region", next_step)
    return tuple(found)


def dollars(value: object) -> float:
    """Return an amount in dollars."""
    next_step = "Write a number such as 12.50, without a sign or a currency."
    if isinstance(value, str) and re.fullmatch(r"\d{1,10}(\.\d{1,6})?", value, re.ASCII):
        value = float(value)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise RefusedError("must be a number", next_step)
    if not 0 <= value <= MAX_DOLLARS:
        raise RefusedError("out of range", next_step)
    return float(value)


def moment(value: object) -> str:
    """Return a time in UTC, such as 2026-12-01T12:00:00Z; a time without a zone is in UTC."""
    next_step = "Write a time such as 2026-12-01T12:00:00Z, or a date."
    text = value if isinstance(value, str) and re.match(r"\d{4}-\d\d-\d\d", value) else ""
    try:
        time = datetime.fromisoformat(text)
        time = time.astimezone(UTC) if time.tzinfo else time.replace(tzinfo=UTC)
    except (ValueError, OverflowError):
        raise RefusedError("must be a time", next_step) from None
    return timestamp(time.timestamp())


SETTINGS: dict[str, Callable[[object], Any]] = {
    "residency": residency,
    "finish_by": moment,
    "estimated_runtime": duration(MAX_RUNTIME_LIMIT),
    "estimated_dollars": dollars,
    "budget_dollars": dollars,
    "dollars_per_hour": dollars,
    "spot_dollars_per_hour": dollars,
}
"""The fields that can be checked without the deployment or other fields."""


def wrong_residency(regions: Sequence[str], settings: Mapping[str, Any], grid: Grid) -> Iterator[Problem]:
    """Yield an error for each Region of a line that its residency, or that of another of its Regions, does not allow.

    Args:
        regions: The Regions in which the line's data is, the line's own first.
        settings: The line's settings.
        grid: The grid.
    """
    allowed = settings.get("residency", ())
    for region in regions:
        if not is_resident(region, allowed):
            reason = f"the data may only be in {', '.join(allowed)}, but the line names {region}"
            yield "residency", " ".join(allowed), RefusedError(reason, "Change the Region, or the residency.")
    for region in regions:
        for other in regions:
            if not grid.may_hold(other, region):
                areas = ", ".join(grid.regions[region].residency)
                reason = f"grid.yaml allows the data of {region} only in {areas}, but the line also names {other}"
                yield "region" if other == regions[0] else "replicas", other, RefusedError(reason, _ONE_PLACE)


def wrong_types(settings: Mapping[str, Any], grid: Grid) -> Iterator[Problem]:
    """Yield an error for each of a line's `instance_types` with another number of accelerators than its own type."""
    if "instance_types" not in settings:
        return
    own, ranks = (settings.get(name, getattr(grid.job, name)) for name in ("instance_type", "processes_per_host"))
    number = accelerators(own, ranks)
    for other in settings["instance_types"]:
        if (found := accelerators(other, ranks)) != number:
            reason = f"{other} has {found} accelerators, and {own} has {number}, for which processes_per_host is set"
            step = "List types with as many accelerators as the line's own type."
            yield "instance_types", other, RefusedError(reason, step)
