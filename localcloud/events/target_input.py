"""Input of an EventBridge rule's target: the event, a part of it, a constant, or a text made from it."""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

_STEP = re.compile(r"\.([\w-]+)|\['([^']+)'\]|\[(\d+)\]")
_STRING_OR_VARIABLE = re.compile(r'"(?:[^"\\]|\\.)*"|<[^<>]+>')
_VARIABLE = re.compile(r"<([^<>]+)>")


def target_input(target: Mapping[str, Any], event: Mapping[str, Any], rule_name: str, rule_arn: str) -> str:
    """Return the input of a target (EventBridge User Guide, "Target input" and "Input transformation").

    Args:
        target: The target in the form of PutTargets.
        event: The event in EventBridge's form.
    """
    if "Input" in target:
        return str(target["Input"])
    if "InputPath" in target:
        return json.dumps(value_at(target["InputPath"], event))
    if "InputTransformer" not in target:
        return json.dumps(event)
    transformer = target["InputTransformer"]
    values = {name: value_at(path, event) for name, path in (transformer.get("InputPathsMap") or {}).items()}
    return transformed(transformer["InputTemplate"], values | _predefined(event, rule_name, rule_arn))


def value_at(path: str, event: Any) -> Any:
    """Return the value at a JSON path of dots, names in brackets and indices, or None."""
    value = event
    for name, quoted, index in _STEP.findall(path.removeprefix("$")):
        try:
            value = value[int(index)] if index else value[name or quoted]
        except (KeyError, IndexError, TypeError):
            return None
    return value


def transformed(template: str, values: Mapping[str, Any]) -> str:
    """Return a template with its variables replaced.

    Inside a string of the template, a variable becomes its text, elsewhere its JSON. A path that does not exist in the
    event becomes an empty text; an undefined variable is not replaced.
    """

    def text_of(match: re.Match[str]) -> str:
        value = values.get(match[1], match[0])
        if value is None:
            return ""
        text = value if isinstance(value, str) else json.dumps(value)
        return json.dumps(text)[1:-1]  # escaped, without the quotes

    def replaced(match: re.Match[str]) -> str:
        if match[0].startswith('"'):
            return _VARIABLE.sub(text_of, match[0])
        name = match[0][1:-1]
        if name not in values:
            return match[0]
        return '""' if values[name] is None else json.dumps(values[name])

    return _STRING_OR_VARIABLE.sub(replaced, template)


def _predefined(event: Mapping[str, Any], rule_name: str, rule_arn: str) -> dict[str, Any]:
    return {
        "aws.events.rule-name": rule_name,
        "aws.events.rule-arn": rule_arn,
        "aws.events.event": {name: value for name, value in event.items() if name != "detail"},
        "aws.events.event.json": dict(event),
        "aws.events.event.ingestion-time": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }
