"""Manifest values: readers of the kinds of values that several fields have.

A reader returns a value as a job has it, or raises RefusedError.
"""

from __future__ import annotations

import math
import re
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from traingrid.grid.field_types import parse_duration
from traingrid.ledger.timestamps import timestamp
from traingrid.manifest.characters import invisible
from traingrid.manifest.limits import MAX_INTEGER, limit_problem
from traingrid.manifest.problem import RefusedError

if TYPE_CHECKING:
    from collections.abc import Callable

# Tools that have no missing integers, such as pandas, write a column with an empty cell as floats.
_DIGITS = re.compile(r"(\d{1,10})(\.0+)?", re.ASCII)
_EXACT_FLOATS = 2**53
"""Below it, every whole number is a float. A larger float may have been another whole number."""
_DAY = 86400
MAX_DOLLARS = 1e9


def text(value: object, shape: str, next_step: str) -> str:
    """Return a text that satisfies the limits of a shape of the service model."""
    if not isinstance(value, str):
        raise RefusedError("must be text", next_step)
    problem = limit_problem(shape, value)
    if problem:
        raise RefusedError(problem, next_step)
    if hidden := invisible(value):
        raise RefusedError(f"has {hidden}, which cannot be seen", "Remove the character, or type the value again.")
    return value


def scalar(value: object) -> str:
    """Return a text, number or boolean as the text that the container receives."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if not isinstance(value, str | int | float):
        raise RefusedError("must be text, a number or a boolean", "Write it as JSON text in quotes.")
    return str(value)


def count(least: int, greatest: int = MAX_INTEGER) -> Callable[[object], int]:
    """Return a reader of whole numbers: also digits as text, because CSV has no numbers, and floats such as 2.0."""

    def read(value: object) -> int:
        next_step = f"Write a whole number from {least} to {greatest}, in digits only."
        if isinstance(value, str) and (match := _DIGITS.fullmatch(value)):
            value = int(match[1])
        elif isinstance(value, float) and value.is_integer() and abs(value) < _EXACT_FLOATS:
            value = int(value)
        if isinstance(value, bool) or not isinstance(value, int):
            raise RefusedError("must be a whole number", next_step)
        if not least <= value <= greatest:
            raise RefusedError("out of range", next_step)
        return value

    return read


def choice(*offered: str) -> Callable[[object], str]:
    """Return a reader that accepts only the given words."""

    def read(value: object) -> str:
        if not isinstance(value, str) or value not in offered:
            raise RefusedError("not a valid value", f"Write {' or '.join(offered)}.")
        return value

    return read


def flag(value: object) -> bool:
    """Return a boolean from JSON, or from the text that a spreadsheet writes for one."""
    if isinstance(value, str) and value.lower() in ("true", "false"):
        return value.lower() == "true"
    if not isinstance(value, bool):
        raise RefusedError("must be true or false", "Write true or false.")
    return value


def duration(longest: int) -> Callable[[object], int]:
    """Return a reader that converts durations such as "24h" to seconds."""

    def read(value: object) -> int:
        days = f"90m, 24h or 2d; at most {longest // _DAY}d"
        minutes = f"10m; at most {longest // 60}m"
        next_step = f"Write for example {days if longest >= _DAY else minutes}."
        try:
            seconds = parse_duration(value)
        except ValueError as error:
            raise RefusedError(str(error), next_step) from None
        if not 1 <= seconds <= longest:
            raise RefusedError("out of range", next_step)
        return seconds

    return read


def words(value: object, next_step: str) -> list[str]:
    """Return a list of words from JSON, or from text with blanks between them."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list) or not value or not all(isinstance(word, str) for word in value):
        raise RefusedError("must be a list of words", next_step)
    return list(dict.fromkeys(value))


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
