"""Strict JSON: reads JSON text that other programs and people can write.

Python's json module raises RecursionError for nested text and ValueError for long numbers, and returns any type. The
readers here raise one error, with the source of the text.
"""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar

from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Mapping

MAX_LEVELS = 100
"""The maximum number of nested objects and lists, with which recursive functions work at any depth of the stack."""
_DIGITS = f"JSON whose numbers have at most {sys.int_info.default_max_str_digits} digits"
_TYPES = {dict: "an object", list: "a list", str: "a text", int: "a whole number"}
Value = TypeVar("Value")


class JsonError(TraingridError, ValueError):
    """JSON text that cannot be read, or has another type than expected.

    Args:
        rule: The rule that the text breaks, as the end of a sentence with "must be".
        source: The object, file, annotation or field with the text; empty if the caller adds it.
    """

    def __init__(self, rule: str, source: object = "") -> None:
        super().__init__(f"{source} must be {rule}." if source else rule)
        self.rule = rule


def json_value(text: str | bytes, source: object = "") -> Any:
    """Return a JSON value of limited size.

    Args:
        text: The text; bytes are UTF-8.
        source: The origin of the text, for the error.

    Raises:
        JsonError: It is not JSON, has more than `MAX_LEVELS` levels, or a number with more digits than Python reads.
    """
    return _decode(_DECODER, text, source)


def json_object(text: str | bytes, source: object = "") -> dict[str, Any]:
    """Return a JSON object; see `json_value`."""
    return _checked_kind(json_value(text, source), dict, "a JSON object", source)


def json_list(text: str | bytes, source: object = "") -> list[Any]:
    """Return a JSON list; see `json_value`."""
    return _checked_kind(json_value(text, source), list, "a JSON list", source)


def member(fields: Mapping[str, Any], name: str, kind: type[Value], source: object = "") -> Value:
    """Return a member of a JSON object.

    Raises:
        JsonError: The object has no such member, or one of another type.
    """
    return _checked_kind(fields.get(name), kind, f"JSON whose {name!r} is {_TYPES[kind]}", source)


def check_members(fields: Mapping[str, Any], kinds: Mapping[str, type[Any]], source: object = "") -> None:
    """Check that a JSON object has members of given types; see `member`."""
    for name, kind in kinds.items():
        member(fields, name, kind, source)


def storable_object(text: str | bytes, source: object = "") -> dict[str, Any]:
    """Return a JSON object that every database and AWS accept.

    Raises:
        JsonError: It is none, has a key twice, or has a value that PostgreSQL's jsonb or SQLite's JSON functions would
            refuse: NaN, an infinite number, a NUL character, or half of a surrogate pair.
    """
    value = _checked_kind(_decode(_STORABLE, text, source), dict, "a JSON object", source)
    try:
        plain = json.dumps(value, ensure_ascii=False, allow_nan=False)
    except ValueError:
        raise JsonError("JSON without infinite numbers", source) from None
    if "\\u0000" in plain or any("\ud800" <= sign <= "\udfff" for sign in plain):
        raise JsonError("JSON without NUL characters and surrogates", source)
    return value


def _decode(decoder: json.JSONDecoder, text: str | bytes, source: object) -> Any:
    try:
        text = text if isinstance(text, str) else text.decode("utf-8-sig")
        value = decoder.decode(text)
    except UnicodeDecodeError:
        raise JsonError("JSON in UTF-8", source) from None
    except json.JSONDecodeError as error:
        raise JsonError(f"JSON ({error.msg})", source) from None
    except JsonError as error:
        raise JsonError(error.rule, source) from None
    except ValueError:
        raise JsonError(_DIGITS, source) from None
    except RecursionError:
        value, is_nested = None, True
    else:
        is_nested = text.count("[") + text.count("{") > MAX_LEVELS and _exceeds_levels(value)
    if is_nested:
        raise JsonError(f"JSON with fewer levels than {MAX_LEVELS + 1}", source)
    return value


def _exceeds_levels(value: Any) -> bool:
    entries = [value]
    for _ in range(MAX_LEVELS):
        containers = [entry for entry in entries if isinstance(entry, dict | list)]
        entries = []
        for container in containers:
            entries += container.values() if isinstance(container, dict) else container
    return any(isinstance(entry, dict | list) for entry in entries)


def _checked_kind(value: Any, kind: type[Value], rule: str, source: object) -> Value:
    if not isinstance(value, kind) or (isinstance(value, bool) and kind is int):
        raise JsonError(rule, source)
    return value


def _no_constant(name: str) -> NoReturn:
    raise JsonError(f"JSON, which has no {name}")


def _unrepeated(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    fields = dict(pairs)
    if len(fields) < len(pairs):
        names = [name for name, _ in pairs]
        repeated = next(name for name in names if names.count(name) > 1)
        raise JsonError(f"JSON in which {repeated[:40]!r} occurs once")
    return fields


_DECODER = json.JSONDecoder()
_STORABLE = json.JSONDecoder(parse_constant=_no_constant, object_pairs_hook=_unrepeated)
