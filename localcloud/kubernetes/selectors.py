"""Selectors: the label and field selectors of lists and watches.

Source: https://kubernetes.io/docs/concepts/overview/working-with-objects/labels/#label-selectors and
https://kubernetes.io/docs/concepts/overview/working-with-objects/field-selectors/.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.status import bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

_SET = re.compile(r"(?P<key>\S+)\s+(?P<operator>in|notin)\s*\((?P<values>[^)]*)\)")
_EQUAL = re.compile(r"(?P<key>[^\s=!]+)\s*(?P<operator>==?|!=)\s*(?P<value>\S*)")
_EXISTS = re.compile(r"(?P<absent>!?)(?P<key>[^\s=!,()]+)")
_SEPARATOR = re.compile(r",(?![^(]*\))")
_SELECTABLE = ("metadata.name", "metadata.namespace", "status.phase", "involvedObject.name", "involvedObject.uid")


def selector(labels: str, fields: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that returns True for the objects that match both selectors.

    Args:
        labels: The label selector; empty for all objects.
        fields: The field selector; empty for all objects.

    Raises:
        ApiError: A selector cannot be read.
    """
    tests = [_label_test(part.strip()) for part in _SEPARATOR.split(labels) if part.strip()]
    tests += [_field_test(part.strip()) for part in fields.split(",") if part.strip()]
    return lambda one: all(test(one) for test in tests)


def _label_test(part: str) -> Callable[[Mapping[str, Any]], bool]:
    if found := _SET.fullmatch(part):
        values = {value.strip() for value in found["values"].split(",")}
        wanted, key = found["operator"] == "in", found["key"]
        return lambda one: (_labels(one).get(key) in values) is wanted
    if found := _EQUAL.fullmatch(part):
        wanted, key, value = found["operator"] != "!=", found["key"], found["value"]
        return lambda one: (_labels(one).get(key) == value) is wanted
    if found := _EXISTS.fullmatch(part):
        wanted, key = not found["absent"], found["key"]
        return lambda one: (key in _labels(one)) is wanted
    raise bad_request(f'unable to parse requirement: "{part}"')


def _field_test(part: str) -> Callable[[Mapping[str, Any]], bool]:
    found = _EQUAL.fullmatch(part)
    if not found or found["key"] not in _SELECTABLE:
        raise bad_request(f'"{part}" is not a known field selector')
    wanted, path, value = found["operator"] != "!=", found["key"].split("."), found["value"]
    return lambda one: (_at(one, path) == value) is wanted


def _labels(one: Mapping[str, Any]) -> Mapping[str, str]:
    return one["metadata"].get("labels") or {}


def _at(one: Any, path: list[str]) -> str:
    for name in path:
        one = one.get(name, "") if isinstance(one, dict) else ""
    return str(one)
