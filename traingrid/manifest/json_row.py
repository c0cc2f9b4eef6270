"""JSON rows: reads one line of JSON Lines."""

from __future__ import annotations

import json
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from traingrid.manifest.characters import QUOTE_STEP, typographic_quote
from traingrid.manifest.fields import MAPPINGS
from traingrid.manifest.row import Row, unreadable
from traingrid.text import shown

if TYPE_CHECKING:
    from traingrid.manifest.errors import LineError

_EXAMPLE = 'Write one object per line: {"region": "us-east-1", "s3_uri": "s3://bucket/folder"}.'


class _ChangedNumberError(ValueError):
    """A number would become another one, because a float cannot hold it."""


def json_row(number: int, text: str) -> Row | list[LineError]:
    """Return the row of a line that is a JSON object, or its error."""
    try:
        values = json.loads(
            text, object_pairs_hook=_unrepeated, parse_constant=_no_constant, parse_float=_finite, parse_int=_integer
        )
    except json.JSONDecodeError as error:
        quote = typographic_quote(text[error.pos : error.pos + 1])
        reason = f"invalid JSON: {error.msg} at character {error.pos + 1}" + (f", which is {quote}" if quote else "")
        return [unreadable(number, text, reason, QUOTE_STEP if quote else _EXAMPLE)]
    except _ChangedNumberError as error:
        return [unreadable(number, text, str(error), "Write it with 15 digits, or as JSON text in quotes.")]
    except ValueError as error:
        return [unreadable(number, text, str(error), _EXAMPLE)]
    except RecursionError:
        return [unreadable(number, text, "the JSON is nested too deeply", _EXAMPLE)]
    if not isinstance(values, dict):
        return [unreadable(number, text, "the line must be a JSON object", _EXAMPLE)]
    row = Row(number=number, values={name: _entries(name, value) for name, value in values.items()}, csv=False)
    return _quote_errors(number, text, values) or row


def _quote_errors(number: int, text: str, values: dict[str, Any]) -> list[LineError]:
    """Return the error of the first field with a typographic quote around a text; none for almost all lines."""
    if text.isascii() and "\\u" not in text:
        return []
    for name, value in values.items():
        quote = _quote_around_a_text(name, value)
        if quote:
            reason = f"{shown(name, 40)} has a text with {quote} around it"
            return [unreadable(number, text, reason, QUOTE_STEP)]
    return []


def _quote_around_a_text(*values: object) -> str:
    """Return the name of a typographic quote around one of the texts in some values; empty if there is none."""
    for value in values:
        if isinstance(value, str):
            quote = typographic_quote(value)
        elif isinstance(value, dict):
            quote = _quote_around_a_text(*value, *value.values())
        else:
            quote = _quote_around_a_text(*value) if isinstance(value, list) else ""
        if quote:
            return quote
    return ""


def _entries(name: str, value: object) -> object:
    """Return the value of a field; without entries of null, which are absent like fields of null and empty cells."""
    if not isinstance(value, dict) or name not in MAPPINGS.values():
        return value
    return {entry: value_of_entry for entry, value_of_entry in value.items() if value_of_entry is not None}


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        keys: set[str] = set()
        twice = next(key for key, _ in pairs if key in keys or keys.add(key))  # type: ignore[func-returns-value]  # add() returns None by design
        raise ValueError(f"the key {shown(twice)} occurs twice")
    return fields


def _no_constant(name: str) -> float:
    raise ValueError(f"{name} is not a JSON number")


def _finite(text: str) -> float:
    number = float(text)
    if number in (float("inf"), float("-inf")):
        raise ValueError(f"the number {shown(text, 20)} is too large")
    if repr(number) != text and not _is_stored(text, number):
        raise _ChangedNumberError(f"the number {shown(text, 40)} cannot be stored without a change")
    return number


def _is_stored(text: str, number: float) -> bool:
    """Return True if a number is the shortest text of a float, its text with 17 digits, or exactly the float."""
    try:
        decimal = Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        return False
    return decimal in (Decimal(repr(number)), Decimal(f"{number:.17g}"), Decimal(number))


def _integer(text: str) -> int:
    if len(text) > 20:
        raise ValueError(f"the number {shown(text, 20)} is too large")
    return int(text)
