"""CloudFormation's resource schemas: a resource's properties, the changes that replace it, and where its name is.

The schemas are those of CloudFormation's registry, which cfn-lint ships as JSON
(https://docs.aws.amazon.com/cloudformation-cli/latest/userguide/resource-type-schema.html). They are read one by one,
because importing cfn-lint takes two seconds.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

Properties = Mapping[str, Any]

_NAMED_OTHERWISE = {"AWS::EC2::SecurityGroup": "GroupName", "AWS::Logs::MetricFilter": "FilterName"}
"""Types whose name is in a property with a different name than the type."""


@dataclass(frozen=True, kw_only=True)
class ResourceSchema:
    """The schema of one type.

    Attributes:
        kind: The type, for example "AWS::IAM::Role".
        create_only: Paths of the properties that cannot be updated ("createOnlyProperties").
        perhaps_create_only: Paths of properties that only some updates keep ("conditionalCreateOnlyProperties").
        delete_first: True if a replacement deletes the old resource before it creates the new one
            ("replacementStrategy": "delete_then_create").
        max_name_length: Maximum length of the name; None if the schema has no limit.
        schema: The JSON schema itself; empty if the registry lacks the type.
    """

    kind: str
    create_only: tuple[str, ...] = ()
    perhaps_create_only: tuple[str, ...] = ()
    delete_first: bool = False
    max_name_length: int | None = None
    schema: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def violations(self, properties: Properties) -> list[str]:
        """Return a message for each property that the type does not have, and for each required one that is missing.

        AWS only warns of unknown properties inside those of some types
        (https://github.com/aws-cloudformation/cloudformation-coverage-roadmap/issues/1514), and refuses them in others
        (https://github.com/aws/aws-cdk/issues/28984).
        """
        return list(_violations(properties, self.schema, self.schema.get("definitions", {}), "#"))

    def replaces(self, old: Properties, new: Properties) -> list[str]:
        """Return the paths of the changed properties for which CloudFormation replaces the resource."""
        return [path for path in self._immutable_properties(new) if _value_at(old, path) != _value_at(new, path)]

    @property
    def name_path(self) -> str:
        """Return the path of the property that contains the resource's name; "" if the type has none."""
        return next((path for path in self.create_only if self._is_name(path)), "")

    def name(self, properties: Properties) -> str:
        """Return the name of a resource in a template; "" if CloudFormation chooses it."""
        return str(_value_at(properties, self.name_path) or "") if self.name_path else ""

    def _immutable_properties(self, properties: Properties) -> Iterator[str]:
        yield from self.create_only
        # https://docs.aws.amazon.com/AWSCloudFormation/latest/TemplateReference/aws-resource-batch-computeenvironment.html
        in_place = str(properties.get("ReplaceComputeEnvironment", True)).lower() == "false"
        if not (self.kind == "AWS::Batch::ComputeEnvironment" and in_place):
            yield from self.perhaps_create_only

    def _is_name(self, path: str) -> bool:
        property_name = path.rpartition("/")[2]
        type_name = self.kind.rpartition("::")[2]
        return property_name in ("Name", f"{type_name}Name", _NAMED_OTHERWISE.get(self.kind))


@cache
def resource_schema(kind: str) -> ResourceSchema:
    """Return the schema of a type; an empty one if the registry lacks the type, for example a custom resource."""
    files = _schema_files()
    if kind not in files:
        return ResourceSchema(kind=kind)
    schema = json.loads((_folder() / "resources" / f"{files[kind]}.json").read_text())
    resource = ResourceSchema(
        kind=kind,
        create_only=_paths(schema, "createOnlyProperties"),
        perhaps_create_only=_paths(schema, "conditionalCreateOnlyProperties"),
        delete_first=schema.get("replacementStrategy") == "delete_then_create",
        schema=schema,
    )
    limit = schema["properties"].get(resource.name_path, {}).get("maxLength")
    return replace(resource, max_name_length=limit)


def _violations(value: Any, schema: Mapping[str, Any], definitions: Mapping[str, Any], pointer: str) -> Iterator[str]:
    if "$ref" in schema:
        schema = definitions.get(schema["$ref"].rpartition("/")[2], {})
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from _violations(item, schema.get("items", {}), definitions, f"{pointer}/{number}")
    known_properties = schema.get("properties")
    if not isinstance(value, Mapping) or known_properties is None:
        return
    for key, item in value.items():
        if key in known_properties:
            yield from _violations(item, known_properties[key], definitions, f"{pointer}/{key}")
        elif schema.get("additionalProperties") is False and "patternProperties" not in schema:
            yield f"{pointer}: extraneous key [{key}] is not permitted"
    for key in schema.get("required", ()):
        if key not in value:
            yield f"{pointer}: required key [{key}] not found"


def _paths(schema: dict[str, Any], key: str) -> tuple[str, ...]:
    return tuple(pointer.removeprefix("/properties/") for pointer in schema.get(key, ()))


def _value_at(properties: Properties, path: str) -> Any:
    """Return the value at a path such as "Budget/BudgetName", or None."""
    value: Any = properties
    for key in path.split("/"):
        if not isinstance(value, Mapping):
            return None
        value = value.get(key)
    return value


@cache
def _schema_files() -> dict[str, str]:
    """Return the names of the schema files by type."""
    return dict(json.loads((_folder() / "providers" / "us-east-1.json").read_text()))


def _folder() -> Path:
    spec = find_spec("cfnlint")
    if spec is None or spec.origin is None:
        message = "cfn-lint is not installed, and localcloud needs its schemas of resource types. Run: make setup"
        raise ModuleNotFoundError(message)
    return Path(spec.origin).parent / "data" / "schemas"
