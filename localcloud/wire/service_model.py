"""Checks a request against a service's own model, with the messages of AWS's services.

The model is botocore's, read at run time: required members, lengths, counts, ranges, patterns and enums are AWS's and
match the installed version. boto3 itself checks only types and required members before it sends a request.
"""

import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import botocore.session
from botocore.model import ListShape, MapShape, ServiceModel, Shape, StringShape, StructureShape

# Java's classes in the model's patterns, as written inside a class in Python.
_UNICODE_CLASSES = {r"\p{L}": r"\w", r"\p{N}": r"\d", r"\p{Z}": r"\s", r"\p{M}": "", r"\p{ASCII}": r"\x00-\x7f"}


def violations(service: str, operation: str, request: Mapping[str, Any]) -> list[str]:
    """Return every constraint of the service model that a request violates.

    Args:
        service: Name of the service in botocore ("sagemaker").
        operation: Name of the operation ("CreateTrainingJob").
        request: The request's members; unknown members are ignored, as by AWS.

    Returns:
        Sentences in AWS's wording; empty if the request is valid.
    """
    shape = _model(service).operation_model(operation).input_shape
    return list(_check(shape, request, "")) if shape else []


def sentence(problems: list[str]) -> str:
    """Return the message of a ValidationException for some violations."""
    return f"{len(problems)} validation error{'s' * (len(problems) > 1)} detected: {'; '.join(problems)}"


@cache
def _model(service: str) -> ServiceModel:
    return botocore.session.get_session().get_service_model(service)


def _check(shape: Shape, value: Any, path: str) -> Iterator[str]:
    if isinstance(shape, StructureShape) and isinstance(value, Mapping):
        yield from _check_structure(shape, value, path)
    elif isinstance(shape, ListShape) and isinstance(value, list):
        yield from (_failed(value, path, rule) for rule in _size_rules(shape, len(value)))
        for number, member in enumerate(value, start=1):
            yield from _check(shape.member, member, f"{path}.{number}.member")
    elif isinstance(shape, MapShape) and isinstance(value, Mapping):
        yield from _check_map(shape, value, path)
    elif isinstance(shape, StringShape) and isinstance(value, str):
        yield from (_failed(value, path, rule) for rule in _string_rules(shape, value))
    elif shape.type_name in ("integer", "long", "float", "double") and isinstance(value, int | float):
        yield from (_failed(value, path, rule) for rule in _range_rules(shape, value))
    else:
        expected = {"structure": Mapping, "map": Mapping, "list": list, "string": str, "boolean": bool}
        if not isinstance(value, expected.get(shape.type_name, object)):
            yield _failed(value, path, f"Member must be a {shape.type_name}")


def _check_structure(shape: StructureShape, value: Mapping[str, Any], path: str) -> Iterator[str]:
    for name in shape.required_members:
        if value.get(name) is None:
            yield f"Value null at '{_join(path, name)}' failed to satisfy constraint: Member must not be null"
    for name, member in value.items():
        if name in shape.members and member is not None:
            yield from _check(shape.members[name], member, _join(path, name))


def _check_map(shape: MapShape, value: Mapping[str, Any], path: str) -> Iterator[str]:
    yield from (_failed(value, path, rule) for rule in _size_rules(shape, len(value)))
    for part_name, part, members in (("keys", shape.key, value.keys()), ("value", shape.value, value.values())):
        if not isinstance(part, StringShape):
            continue
        if any(list(_string_rules(part, str(member))) for member in members):
            yield _failed(value, path, f"Map {part_name} must satisfy constraint: [{', '.join(_all_rules(part))}]")


def _string_rules(shape: StringShape, value: str) -> Iterator[str]:
    yield from _length_rules(shape, len(value))
    pattern = shape.metadata.get("pattern")
    if pattern and not _matches(pattern, value):
        yield f"Member must satisfy regular expression pattern: {pattern}"
    if shape.enum and value not in shape.enum:
        yield f"Member must satisfy enum value set: [{', '.join(shape.enum)}]"


def _length_rules(shape: Shape, length: int) -> Iterator[str]:
    limits = shape.metadata
    if length > limits.get("max", length):
        yield f"Member must have length less than or equal to {limits['max']}"
    if length < limits.get("min", 0):
        yield f"Member must have length greater than or equal to {limits['min']}"


_size_rules = _length_rules


def _range_rules(shape: Shape, value: float) -> Iterator[str]:
    limits = shape.metadata
    if value > limits.get("max", value):
        yield f"Member must have value less than or equal to {limits['max']}"
    if value < limits.get("min", value):
        yield f"Member must have value greater than or equal to {limits['min']}"


def _all_rules(shape: StringShape) -> Iterator[str]:
    limits = shape.metadata
    if "max" in limits:
        yield f"Member must have length less than or equal to {limits['max']}"
    if "min" in limits:
        yield f"Member must have length greater than or equal to {limits['min']}"
    if "pattern" in limits:
        yield f"Member must satisfy regular expression pattern: {limits['pattern']}"


@cache
def _compiled(pattern: str) -> re.Pattern[str] | None:
    for java, python in _UNICODE_CLASSES.items():
        pattern = pattern.replace(java, python)
    try:
        return re.compile(pattern)
    except re.error:  # Python lacks a construct of Java; the rule is not checked
        return None


def _matches(pattern: str, value: str) -> bool:
    compiled = _compiled(pattern)
    return compiled is None or compiled.fullmatch(value) is not None


def _failed(value: Any, path: str, rule: str) -> str:
    return f"Value '{_value_text(value)}' at '{path}' failed to satisfy constraint: {rule}"


def _value_text(value: Any) -> str:
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}={_value_text(member)}" for key, member in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(_value_text(member) for member in value) + "]"
    return str(value)


def _join(path: str, name: str) -> str:
    lower = name[0].lower() + name[1:]
    return f"{path}.{lower}" if path else lower
