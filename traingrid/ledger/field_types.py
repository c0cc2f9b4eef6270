"""Field types: checks the types and ranges of stored fields, so that a damaged item is found where it is read.

A range includes all that the product can write. So no later code meets a time that does not exist, or a number of jobs
that does not fit into memory. Fields that are not listed are not checked: older and newer versions of traingrid share a
table.
"""

from __future__ import annotations

import re
import time
from datetime import datetime
from typing import TYPE_CHECKING, Any

from traingrid.job.sizes import MAX_ARRAY, MAX_JOBS
from traingrid.ledger.errors import ItemError
from traingrid.ledger.timestamps import timestamp

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    Check = Callable[[Any], bool]
    Kind = tuple[str, Check]

_TIME = re.compile(r"(?:19[7-9]\d|20\d\d)-\d\d-\d\dT\d\d:\d\d:\d\dZ", re.ASCII)
_END_OF_2099 = 4_102_444_799
_SHOWN = 40
_CLOCKS_DIFFER_SECONDS = 3600
"""How far a recorded time may be in the future. AWS refuses the requests of a clock that differs by 15 minutes, and of
those who write, and those who read, one may be early and the other one late."""


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_iso(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (ValueError, TypeError):
        return False
    return True


def _latest_time() -> float:
    """Return the latest time that a correct clock has recorded; a later one would delay for years what waits for it."""
    return time.time() + _CLOCKS_DIFFER_SECONDS


def is_time(value: Any) -> bool:
    """Return True for a timestamp of the ledger that is not in the future."""
    has_form = isinstance(value, str) and _TIME.fullmatch(value) is not None and _is_iso(value)
    return has_form and value <= timestamp(_latest_time())


def _whole_number(least: int, greatest: int) -> Kind:
    name = f"a whole number from {least} to {greatest:,}"
    return name, lambda value: type(value) is int and least <= value <= greatest


def _number(greatest: int) -> Kind:
    return f"a number from 0 to {greatest:,}", lambda value: _is_number(value) and 0 <= value <= greatest


def map_of(kind: Kind) -> Kind:
    """Return the type of a map whose values have a type."""
    name, is_valid = kind
    return (
        f"a map with, in each entry, {name}",
        lambda value: isinstance(value, dict) and all(map(is_valid, value.values())),
    )


TEXT: Kind = ("a text", _is_text)
TIME: Kind = ("a time in UTC from 1970 to the present", is_time)
TIME_OR_EMPTY: Kind = (f"{TIME[0]}, or empty", lambda value: value == "" or is_time(value))
ISO_TIME: Kind = ("a time in ISO 8601", _is_iso)
ISO_TIME_OR_EMPTY: Kind = ("a time in ISO 8601, or empty", lambda value: value == "" or _is_iso(value))
JOBS: Kind = _whole_number(0, MAX_JOBS)
CHILDREN: Kind = _whole_number(0, MAX_ARRAY)
ATTEMPT: Kind = _whole_number(1, 100_000)
"""The number of an attempt; an item of DynamoDB has no room for the outcomes of so many."""
COUNT: Kind = _whole_number(0, 10**12)
"""A number of anything that is only compared, added and shown."""
BYTES: Kind = _whole_number(0, 10**18)
SECONDS: Kind = _number(10**9)
EPOCH: Kind = _number(_END_OF_2099)
"""Seconds since 1970; 0 if there is no time."""
PAST: Kind = ("seconds since 1970, not in the future", lambda value: EPOCH[1](value) and value <= _latest_time())
"""A time at which something has happened, or until which something is held for minutes; 0 if there is none."""
DOLLARS: Kind = _number(10**20)
"""More than the most dollars that a line may have (`traingrid.manifest.values`), for the most instances."""
FLAG: Kind = ("true or false", lambda value: isinstance(value, bool))
TEXTS: Kind = ("a list of texts", lambda value: isinstance(value, list | tuple) and all(map(_is_text, value)))
TEXT_SET: Kind = ("a set of texts", lambda value: isinstance(value, set | frozenset) and all(map(_is_text, value)))
METRICS: Kind = map_of(("a number", _is_number))
"""Values that a training has printed."""
MAPS: Kind = (
    "a list of maps",
    lambda value: isinstance(value, list | tuple) and all(isinstance(entry, dict) for entry in value),
)
MAP: Kind = ("a map", lambda value: isinstance(value, dict))


def optional(kind: Kind) -> Kind:
    """Return a type whose fields may also be null."""
    name, is_valid = kind
    return f"{name} or null", lambda value: value is None or is_valid(value)


def check_types(
    item: Mapping[str, Any],
    types: Mapping[str, Kind],
    entry: Mapping[str, Any] | None = None,
    *,
    prefix: str = "",
    required: Collection[str] = (),
) -> None:
    """Check that an item has the required fields, and that fields have their types.

    Args:
        types: The type of each field.
        entry: The part of the item that has the fields; by default the item.
        prefix: The path of that part with a final dot, for the message.
        required: The fields that every version of traingrid writes.

    Raises:
        ItemError: A required field is missing, or a field has another type.
    """
    fields = item if entry is None else entry
    for name in required:
        if name not in fields:
            raise ItemError(item, f"{prefix}{name}")
    for name, value in fields.items():
        if name not in types:
            continue
        type_name, is_valid = types[name]
        if not is_valid(value):
            field = f"{prefix}{name}"
            value_text = repr(value)
            value_text = value_text if len(value_text) <= _SHOWN else f"{value_text[:_SHOWN]}..."
            raise ItemError(item, name, f"has the field {field!r} with {value_text}, which is not {type_name}")
