"""Failure policy rules: the server's checks of `podFailurePolicy` in a job.

Source: pkg/apis/batch/validation/validation.go of Kubernetes (validatePodFailurePolicy, validatePodReplacementPolicy).
"""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Problem = tuple[str, str]
_ACTIONS = ("Count", "FailIndex", "FailJob", "Ignore")
_OPERATORS = ("In", "NotIn")
_STATUSES = ("False", "True", "Unknown")
_MAX_RULES, _MAX_CODES, _MAX_PATTERNS = 20, 255, 20
_CONDITION = re.compile(r"([a-z0-9.-]+/)?([A-Za-z0-9][-A-Za-z0-9_.]{0,61})?[A-Za-z0-9]")
_CONTAINER_RULE = "must be one of the container or initContainer names in the pod template"


def problems(spec: Mapping[str, Any]) -> Iterator[Problem]:
    """Yield the problems of a job's specification that has a policy."""
    path = "spec.podFailurePolicy.rules"
    rules = spec["podFailurePolicy"].get("rules") or []
    if len(rules) > _MAX_RULES:
        yield path, _too_many(len(rules), _MAX_RULES)
    for index, rule in enumerate(rules):
        yield from _rule(spec, rule, f"{path}[{index}]")
    policy = spec.get("podReplacementPolicy")
    if policy != "Failed":
        yield "spec.podReplacementPolicy", f'Unsupported value: "{policy}": supported values: "Failed"'
    restart = spec["template"]["spec"].get("restartPolicy")
    if restart == "OnFailure":
        rule = 'only "Never" is supported when podFailurePolicy is specified'
        yield "spec.template.spec.restartPolicy", f'Invalid value: "{restart}": {rule}'


def _rule(spec: Mapping[str, Any], rule: Mapping[str, Any], path: str) -> Iterator[Problem]:
    action = rule.get("action") or ""
    if action == "FailIndex" and spec.get("backoffLimitPerIndex") is None:
        yield f"{path}.action", 'Invalid value: "FailIndex": requires the backoffLimitPerIndex to be set'
    yield from _choice(f"{path}.action", action, _ACTIONS)
    codes = rule.get("onExitCodes")
    patterns = rule.get("onPodConditions") or []
    if codes is not None:
        yield from _exit_codes(spec, codes, f"{path}.onExitCodes")
    if len(patterns) > _MAX_PATTERNS:
        yield f"{path}.onPodConditions", _too_many(len(patterns), _MAX_PATTERNS)
    for index, pattern in enumerate(patterns):
        field = f"{path}.onPodConditions[{index}]"
        kind = pattern.get("type") or ""
        if not _CONDITION.fullmatch(kind):
            problem = f'Invalid value: "{kind}": name part must consist of alphanumeric characters'
            yield f"{field}.type", problem if kind else 'Invalid value: "": name part must be non-empty'
        yield from _choice(f"{field}.status", pattern.get("status") or "", _STATUSES)
    if codes is not None and patterns:
        yield path, "Invalid value: specifying both OnExitCodes and OnPodConditions is not supported"
    if codes is None and not patterns:
        yield path, "Invalid value: specifying one of OnExitCodes and OnPodConditions is required"


def _exit_codes(spec: Mapping[str, Any], codes: Mapping[str, Any], path: str) -> Iterator[Problem]:
    operator = codes.get("operator") or ""
    values = codes.get("values") or []
    name = codes.get("containerName")
    yield from _choice(f"{path}.operator", operator, _OPERATORS)
    pod = spec["template"]["spec"]
    names = [
        container.get("name") for container in (*(pod.get("containers") or []), *(pod.get("initContainers") or []))
    ]
    if name is not None and name not in names:
        yield f"{path}.containerName", f'Invalid value: "{name}": {_CONTAINER_RULE}'
    if not values:
        yield f"{path}.values", "Invalid value: null: at least one value is required"
    elif len(values) > _MAX_CODES:
        yield f"{path}.values", _too_many(len(values), _MAX_CODES)
    for index, value in enumerate(values):
        if operator == "In" and value == 0:
            yield f"{path}.values[{index}]", "Invalid value: 0: must not be 0 for the In operator"
        if value in values[:index]:
            yield f"{path}.values[{index}]", f"Duplicate value: {value}"
    if values != sorted(values):
        yield f"{path}.values", f"Invalid value: {json.dumps(values, separators=(',', ':'))}: must be ordered"


def _choice(path: str, value: str, choices: tuple[str, ...]) -> Iterator[Problem]:
    if not value:
        yield path, f"Required value: valid values: [{' '.join(json.dumps(choice) for choice in choices)}]"
    elif value not in choices:
        yield (
            path,
            f'Unsupported value: "{value}": supported values: {", ".join(json.dumps(choice) for choice in choices)}',
        )


def _too_many(number: int, most: int) -> str:
    return f"Too many: {number}: must have at most {most} items"
