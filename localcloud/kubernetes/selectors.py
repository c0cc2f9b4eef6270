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

    Raises:
        ApiError: A selector cannot be read.
    """
    tests = [_label_test(part.strip()) for part in _SEPARATOR.split(labels) if part.strip()]
    fields_of_kind = (*_SELECTABLE, *_SELECTABLE_OF.get(kind, ()))
    tests += [_field_test(part.strip(), fields_of_kind) for part in fields.split(",") if part.strip()]
    return lambda candidate: all(test(candidate) for test in tests)


def matches_labels(label_selector: Mapping[str, Any] | None, labels: Mapping[str, str]) -> bool:
    """Return True if labels match a LabelSelector; an empty one matches all labels, and an absent one none."""
    if label_selector is None:
        return False
    if not (label_selector.get("matchLabels") or {}).items() <= labels.items():
        return False
    for expression in label_selector.get("matchExpressions") or []:
        value, operator = labels.get(expression["key"]), expression["operator"]
        if operator in ("Exists", "DoesNotExist"):
            holds = (value is not None) is (operator == "Exists")
        else:
            holds = (value in (expression.get("values") or [])) is (operator == "In")
        if not holds:
            return False
    return True


def _label_test(part: str) -> Callable[[Mapping[str, Any]], bool]:
    if match := _SET.fullmatch(part):
        values = {value.strip() for value in match["values"].split(",")}
        expected, key = match["operator"] == "in", match["key"]
        return lambda candidate: (_labels(candidate).get(key) in values) is expected
    if match := _EQUAL.fullmatch(part):
        expected = match["operator"] != "!="
        key = match["key"]
        value = match["value"]
        return lambda candidate: (_labels(candidate).get(key) == value) is expected
    if match := _EXISTS.fullmatch(part):
        expected, key = not match["absent"], match["key"]
        return lambda candidate: (key in _labels(candidate)) is expected
    raise bad_request(f'unable to parse requirement: "{part}"')


def _field_test(part: str, selectable: tuple[str, ...]) -> Callable[[Mapping[str, Any]], bool]:
    match = _EQUAL.fullmatch(part)
    if not match or match["key"] not in selectable:
        raise bad_request(f'"{part}" is not a known field selector')
    expected = match["operator"] != "!="
    path = match["key"].split(".")
    value = match["value"]
    return lambda candidate: (_value_at(candidate, path) == value) is expected


def _labels(candidate: Mapping[str, Any]) -> Mapping[str, str]:
    return candidate["metadata"].get("labels") or {}


def _value_at(value: Any, path: list[str]) -> str:
    for name in path:
        value = value.get(name, "") if isinstance(value, dict) else ""
    if isinstance(value, bool):
        return str(value).lower()
    return str(value.get("component", "") if isinstance(value, dict) else value)  # an event's source
