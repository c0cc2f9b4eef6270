"""Strict JSON: objects that every database and AWS accept, which is less than Python's json module reads."""

from __future__ import annotations

import json
from typing import Any, NoReturn


def json_object(text: str) -> dict[str, Any]:
    """Return a JSON object.

    Raises:
        ValueError: It is none, has a key twice, or has a value that PostgreSQL's jsonb or SQLite's JSON functions would
            refuse: NaN, an infinite number, a NUL character, or half of a surrogate pair. The text is the rule.
    """
    try:
        value = json.loads(text, parse_constant=_no_constant, object_pairs_hook=_unrepeated)
        plain = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except json.JSONDecodeError as error:
        message = f"JSON ({error.msg})"
        raise ValueError(message) from None
    except RecursionError:
        message = "JSON with fewer levels"
        raise ValueError(message) from None
    if not isinstance(value, dict):
        message = "a JSON object"
        raise ValueError(message)  # noqa: TRY004  # one kind of error for one kind of caller
    if "\\u0000" in plain or any("\ud800" <= sign <= "\udfff" for sign in plain):
        message = "JSON without NUL characters and surrogates"
        raise ValueError(message)
    return value


def _no_constant(name: str) -> NoReturn:
    message = f"JSON, which has no {name}"
    raise ValueError(message)


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        message = f"JSON in which {repeated[:40]!r} occurs once"
        raise ValueError(message)
    return fields
