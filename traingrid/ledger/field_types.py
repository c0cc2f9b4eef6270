"""Field types: checks the types of stored fields, so that a damaged item is found where it is read.

Fields that are not listed are not checked: older and newer versions of traingrid share a table.
"""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

from traingrid.ledger.errors import ItemError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Check = Callable[[Any], bool]

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_SHOWN = 40


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_iso(value: Any) -> bool:
    try:
        datetime.fromisoformat(value)
    except (ValueError, TypeError):
        return False
    return True


TEXT: tuple[str, Check] = ("a text", _is_text)
TIME: tuple[str, Check] = ("a time", lambda value: _is_text(value) and bool(_TIME.fullmatch(value)))
TIME_OR_EMPTY: tuple[str, Check] = ("a time or empty", lambda value: value == "" or TIME[1](value))
ISO_TIME: tuple[str, Check] = ("a time in ISO 8601", _is_iso)
ISO_TIME_OR_EMPTY: tuple[str, Check] = ("a time in ISO 8601, or empty", lambda value: value == "" or _is_iso(value))
NUMBER: tuple[str, Check] = ("a number", _is_number)
WHOLE: tuple[str, Check] = ("a whole number", _is_whole)
FLAG: tuple[str, Check] = ("true or false", lambda value: isinstance(value, bool))
TEXTS: tuple[str, Check] = (
    "a list of texts",
    lambda value: isinstance(value, list | tuple) and all(map(_is_text, value)),
)
TEXT_SET: tuple[str, Check] = (
    "a set of texts",
    lambda value: isinstance(value, set | frozenset) and all(map(_is_text, value)),
)
NUMBERS: tuple[str, Check] = (
    "a map of numbers",
    lambda value: isinstance(value, dict) and all(map(_is_number, value.values())),
)
MAPS: tuple[str, Check] = (
    "a list of maps",
    lambda value: isinstance(value, list | tuple) and all(isinstance(entry, dict) for entry in value),
)
MAP: tuple[str, Check] = ("a map", lambda value: isinstance(value, dict))


def optional(kind: tuple[str, Check]) -> tuple[str, Check]:
    """Return a type whose fields may also be null."""
    name, is_valid = kind
    return f"{name} or null", lambda value: value is None or is_valid(value)


def check_types(
    item: Mapping[str, Any],
    types: Mapping[str, tuple[str, Check]],
    entry: Mapping[str, Any] | None = None,
    at: str = "",
) -> None:
    """Check the types of an item's fields.

    Args:
        types: The type of each field.
        entry: The part of the item that has the fields; by default the item.
        at: The name of that part.

    Raises:
        ItemError: A field has another type.
    """
    for name, value in (item if entry is None else entry).items():
        kind = types.get(name)
        if kind is not None and not kind[1](value):
            value_text = repr(value)
            value_text = value_text if len(value_text) <= _SHOWN else f"{value_text[:_SHOWN]}..."
            raise ItemError(item, name, f"has the field {f'{at}{name}'!r} with {value_text}, which is not {kind[0]}")
