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
_SELECTABLE = ("metadata.name", "metadata.namespace")
_INVOLVED = ("kind", "namespace", "name", "uid", "apiVersion", "resourceVersion", "fieldPath")
_SELECTABLE_OF = {
    "Pod": ("spec.nodeName", "spec.restartPolicy", "spec.schedulerName", "spec.serviceAccountName", "status.phase"),
    "Node": ("spec.unschedulable",),
    "Namespace": ("status.phase",),
    "Secret": ("type",),
    "Job": ("status.successful",),
    "Event": (*(f"involvedObject.{name}" for name in _INVOLVED), "reason", "reportingComponent", "source", "type"),
}
"""The fields of each kind, as the server's registry converts them (pkg/apis/*/v1/conversion.go of Kubernetes)."""


def selector(labels: str, fields: str, kind: str) -> Callable[[Mapping[str, Any]], bool]:
    """Return a function that returns True for the objects that match both selectors.

    Args:
        labels: The label selector; empty for all objects.
        fields: The field selector; empty for all objects.
        kind: The kind of the objects.

    Raises:
        ApiError: A selector cannot be read.
    """
    tests = [_label_test(part.strip()) for part in _SEPARATOR.split(labels) if part.strip()]
    known = (*_SELECTABLE, *_SELECTABLE_OF.get(kind, ()))
    tests += [_field_test(part.strip(), known) for part in fields.split(",") if part.strip()]
    return lambda one: all(test(one) for test in tests)


def matches_labels(wanted: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return True if labels match a LabelSelector; an empty one matches all labels, and an absent one none."""
    if wanted is None:
        return False
    if not (wanted.get("matchLabels") or {}).items() <= labels.items():
        return False
    for one in wanted.get("matchExpressions") or []:
        value, operator = labels.get(one["key"]), one["operator"]
        if operator in ("Exists", "DoesNotExist"):
            found = (value is not None) is (operator == "Exists")
        else:
            found = (value in (one.get("values") or [])) is (operator == "In")
        if not found:
            return False
    return True


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


def _field_test(part: str, known: tuple[str, ...]) -> Callable[[Mapping[str, Any]], bool]:
    found = _EQUAL.fullmatch(part)
    if not found or found["key"] not in known:
        raise bad_request(f'"{part}" is not a known field selector')
    wanted, path, value = found["operator"] != "!=", found["key"].split("."), found["value"]
    return lambda one: (_at(one, path) == value) is wanted


def _labels(one: Mapping[str, Any]) -> Mapping[str, str]:
    return one["metadata"].get("labels") or {}


def _at(one: Any, path: list[str]) -> str:
    for name in path:
        one = one.get(name, "") if isinstance(one, dict) else ""
    if isinstance(one, bool):
        return str(one).lower()
    return str(one.get("component", "") if isinstance(one, dict) else one)  # an event's source
