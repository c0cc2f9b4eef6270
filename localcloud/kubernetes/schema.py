"""Schema: the fields of an object, their types, and which are required; checks values against them.

The server treats violations in built-in kinds and in custom resources differently, so this module only finds them.
"""

from __future__ import annotations

import types
import typing
from dataclasses import dataclass, field
from functools import cache
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

Type = Literal["object", "array", "string", "integer", "number", "boolean", "any"]
_PYTHON: dict[Type, tuple[type, ...]] = {
    "object": (dict,),
    "array": (list,),
    "string": (str,),
    "integer": (int,),
    "number": (int, float),
    "boolean": (bool,),
    "any": (object,),
}


@dataclass(frozen=True, kw_only=True, eq=False)
class Schema:
    """The schema of a value.

    Attributes:
        fields: The schemas of an object's fields by name; empty for an object with any keys.
        required: The names of an object's required fields.
        items: The schema of an array's items, or of the values of an object with any keys.
        defaults: The values of fields that are absent.
        choices: The allowed strings; empty for all.
    """

    type: Type
    fields: Mapping[str, Schema] = field(default_factory=dict)
    required: tuple[str, ...] = ()
    items: Schema | None = None
    defaults: Mapping[str, Any] = field(default_factory=dict)
    choices: tuple[str, ...] = ()


ANY = Schema(type="any")
STRING, INTEGER, BOOLEAN = Schema(type="string"), Schema(type="integer"), Schema(type="boolean")


@cache
def of_model(model: type[Any]) -> Schema:
    """Return the schema of a struct of `lightkube-models`."""
    fields = msgspec.structs.fields(model)
    required = tuple(field_info.encode_name for field_info in fields if field_info.required)
    return Schema(
        type="object",
        fields=_Fields({field_info.encode_name: field_info.type for field_info in fields}),
        required=required,
    )


class _Fields(dict[str, Schema]):
    """The fields of a model. Their schemas are made when they are first used, because models refer to themselves."""

    def __init__(self, hints: Mapping[str, Any]) -> None:
        super().__init__(dict.fromkeys(hints, ANY))
        self._hints = dict(hints)

    def __getitem__(self, name: str) -> Schema:
        if name in self._hints:
            self[name] = _of_hint(self._hints.pop(name))
        return super().__getitem__(name)


def _of_hint(hint: Any) -> Schema:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        kinds = [argument for argument in arguments if argument is not type(None)]
        return _of_hint(kinds[0]) if len(kinds) == 1 else ANY  # int or string
    if origin is list:
        return Schema(type="array", items=_of_hint(arguments[0]))
    if origin is dict:
        return Schema(type="object", items=_of_hint(arguments[1]) if len(arguments) > 1 else ANY)
    if isinstance(hint, type) and issubclass(hint, msgspec.Struct):
        return of_model(hint)
    scalars: dict[Any, Schema] = {str: STRING, int: INTEGER, bool: BOOLEAN, float: Schema(type="number")}
    return scalars.get(hint, Schema(type="object") if hint is dict else ANY)


def unknown_fields(value: object, schema: Schema, path: str = "") -> Iterator[str]:
    """Yield the paths of fields that a schema does not have, as the server names them."""
    if isinstance(value, dict):
        for name, inner in value.items():
            field = f"{path}.{name}" if path else str(name)
            if schema.fields and name not in schema.fields:
                yield field
            else:
                yield from unknown_fields(inner, _element_schema(schema, name), field)
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from unknown_fields(inner, schema.items or ANY, f"{path}[{index}]")


def without_unknown_fields(value: Any, schema: Schema) -> Any:
    """Return a value without the fields that its schema does not have, as the server stores it."""
    if isinstance(value, dict):
        known_fields = {name: inner for name, inner in value.items() if not schema.fields or name in schema.fields}
        return {
            name: without_unknown_fields(inner, _element_schema(schema, name)) for name, inner in known_fields.items()
        }
    if isinstance(value, list):
        return [without_unknown_fields(inner, schema.items or ANY) for inner in value]
    return value


def with_defaults(value: Any, schema: Schema) -> Any:
    """Return a value with the defaults of absent fields."""
    if isinstance(value, dict):
        filled = {**schema.defaults, **value}
        return {name: with_defaults(inner, _element_schema(schema, name)) for name, inner in filled.items()}
    if isinstance(value, list):
        return [with_defaults(inner, schema.items or ANY) for inner in value]
    return value


def wrong_types(value: object, schema: Schema, path: str = "") -> Iterator[tuple[str, Type, str]]:
    """Yield the path, the required type and the found type of values of other types."""
    if value is None:
        return
    actual = _type_of(value)
    accepted = _PYTHON[schema.type]
    if not isinstance(value, accepted) or (isinstance(value, bool) and schema.type not in ("boolean", "any")):
        yield path, schema.type, actual
        return
    if isinstance(value, dict):
        for name, inner in value.items():
            yield from wrong_types(inner, _element_schema(schema, name), f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from wrong_types(inner, schema.items or ANY, f"{path}[{index}]")


def violations(value: object, schema: Schema, path: str = "") -> Iterator[tuple[str, str]]:
    """Yield the path and the problem of absent required fields, and of values that are not allowed."""
    if isinstance(value, dict):
        for name in schema.required:
            if value.get(name) is None:
                yield (f"{path}.{name}" if path else name), "Required value"
        for name, inner in value.items():
            yield from violations(inner, _element_schema(schema, name), f"{path}.{name}" if path else str(name))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from violations(inner, schema.items or ANY, f"{path}[{index}]")
    elif schema.choices and value not in schema.choices:
        supported = ", ".join(f'"{choice}"' for choice in schema.choices)
        yield path, f'Unsupported value: "{value}": supported values: {supported}'


def _element_schema(schema: Schema, name: object) -> Schema:
    if schema.fields:
        return schema.fields[str(name)] if name in schema.fields else ANY
    return schema.items or ANY


def _type_of(value: object) -> str:
    kinds: tuple[Type, ...] = ("boolean", "integer", "number", "string", "array", "object")
    return next((kind for kind in kinds if isinstance(value, _PYTHON[kind])), "null")
