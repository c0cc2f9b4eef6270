"""Templates: loads them, finds references between their resources, and resolves their expressions."""

import graphlib
import json
import re
from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from typing import Any, cast
from urllib.parse import unquote, urlparse

from moto.cloudformation.exceptions import ValidationError
from moto.cloudformation.models import Stack, cloudformation_backends
from moto.cloudformation.parsing import ResourceMap, clean_json
from moto.s3.models import s3_backends
from moto.ssm.models import ssm_backends

_SUBSTITUTED = re.compile(r"\$\{([^!][^.}]*)[^}]*\}")
_DYNAMIC = re.compile(r"\{\{resolve:ssm:([^:}]+)(?::\d+)?\}\}")


def template_from_url(template_url: str, account_id: str, partition: str) -> str:
    """Read a template from S3 by a path-style or virtual-hosted-style URL.

    Args:
        template_url: The URL; the SDKs use path style if the endpoint is an IP address.
        account_id: Account of the bucket.
        partition: Partition of the bucket.
    """
    parts = urlparse(template_url)
    host = parts.hostname or ""
    path = unquote(parts.path.lstrip("/"))
    if ".s3" in host and not host.startswith("s3"):  # BUCKET.s3.REGION.amazonaws.com
        bucket, key = host.split(".s3", 1)[0], path
    else:
        bucket, _, key = path.partition("/")
    template_object = s3_backends[account_id][partition].get_object(bucket, key)
    if template_object is None:
        raise ValidationError(message=f"S3 error: The specified key does not exist: {bucket}/{key}")
    return str(template_object.value.decode())


def parse(text: str) -> dict[str, Any]:
    """Return a template from its text, JSON or YAML.

    moto parses JSON as YAML, too, which takes a hundred times as long.
    """
    try:
        return cast(dict[str, Any], json.loads(text))
    except ValueError:
        return deepcopy(_from_yaml(text))


@lru_cache(maxsize=8)
def _from_yaml(text: str) -> dict[str, Any]:
    """Return a template in YAML. Cached, because each Region has the bootstrap stack, which is parsed three times."""
    return cast(dict[str, Any], Stack.parse_template(text))


def deployment_order(resources: dict[str, Any]) -> list[str]:
    """Return the logical ids in an order in which each follows its references and dependencies.

    Args:
        resources: The template's Resources.

    Raises:
        ValidationError: If the references are circular.
    """
    graph = {name: set(references(resource)) & set(resources) for name, resource in resources.items()}
    try:
        return list(graphlib.TopologicalSorter(graph).static_order())
    except graphlib.CycleError as error:
        message = f"Circular dependency between resources: [{', '.join(error.args[1])}]"
        raise ValidationError(message=message) from error


def references(value: Any) -> Iterator[str]:
    """Yield the logical ids that a part of a template refers to or depends on."""
    if isinstance(value, list):
        for item in value:
            yield from references(item)
    elif isinstance(value, dict):
        for key, item in value.items():
            if key in ("Ref", "DependsOn", "Fn::GetAtt"):
                if isinstance(item, str):
                    yield item.split(".")[0]
                else:  # the list of Fn::GetAtt is a resource and its attribute
                    yield from item if key == "DependsOn" else item[:1]
            elif key == "Fn::Sub":
                text, own_variables = (item, {}) if isinstance(item, str) else item
                yield from (name for name in _SUBSTITUTED.findall(text) if name not in own_variables)
            yield from references(item)


class Resources(ResourceMap):
    """moto's map, which resolves expressions; unlike moto's, it does not create a resource on access.

    Attributes:
        replaced: Resources replaced by the current update, by logical id; they exist until the update ends.
    """

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self.replaced: dict[str, Any] = {}

    def __getitem__(self, key: str) -> Any:
        """Return a parameter's value, or a provisioned resource (None if its condition is false)."""
        if key in self._parsed_resources:
            return self._parsed_resources[key]
        if key in self._resource_json_map:
            return None
        raise KeyError(key)

    @property
    def resources(self) -> list[str]:
        """Return the logical ids of the provisioned resources."""
        return [name for name in self._resource_json_map if name in self._parsed_resources]

    def validate_outputs(self) -> None:
        """Do nothing: moto would check its own model classes. Resolving an output reports an invalid attribute."""

    def parse_ssm_parameter(self, value: str, value_type: str) -> Any:
        """Return the value of an SSM parameter; moto raises AttributeError if the parameter does not exist."""
        parameter = ssm_backends[self._account_id][self._region_name].get_parameter(value)
        if parameter is None:
            raise ValidationError(message=f"Unable to fetch parameters [{value}] from parameter store")
        return parameter.value.split(",") if "List<" in value_type or "StringList" in value_type else parameter.value

    def take(self, template: dict[str, Any], parameters: dict[str, Any]) -> None:
        """Replace the template with the one to deploy next, and keep the provisioned resources."""
        self._template = template
        self._resource_json_map = template["Resources"]
        self.input_parameters = parameters
        self.resolved_parameters: dict[str, Any] = {}
        self.load()

    def wanted(self) -> list[str]:
        """Return the logical ids to provision, in order, without resources whose condition is false."""
        return [
            name
            for name in deployment_order(self._resource_json_map)
            if "Condition" not in self._resource_json_map[name]
            or self.lazy_condition_map[self._resource_json_map[name]["Condition"]]
        ]

    def definition(self, name: str) -> dict[str, Any]:
        """Return a resource's entry in the template."""
        return dict(self._resource_json_map[name])

    def properties(self, name: str) -> dict[str, Any]:
        """Return a resource's properties with all expressions resolved."""
        raw = _with_zones(self._resource_json_map[name].get("Properties", {}), self._region_name)
        raw = self._with_outputs(raw)
        resolved = self._resolved(clean_json(raw, self))
        return resolved if isinstance(resolved, dict) else {}

    def keep(self, name: str, resource: Any) -> None:
        """Store a provisioned resource."""
        self._parsed_resources[name] = resource

    def take_back_replacements(self) -> list[Any]:
        """Restore the resources that a failed update replaced; return the replacements, which must be deleted."""
        undone = [self._parsed_resources[name] for name in self.replaced]
        self._parsed_resources.update(self.replaced)
        self.replaced.clear()
        return undone

    def forget(self, name: str) -> None:
        """Remove a deleted resource from the map."""
        self._parsed_resources.pop(name, None)

    def _with_outputs(self, value: Any) -> Any:
        """Resolve Fn::GetStackOutput of another stack, which moto 5.2.5 does not support."""
        if isinstance(value, dict):
            if set(value) == {"Fn::GetStackOutput"}:
                return self._output(value["Fn::GetStackOutput"])
            return {key: self._with_outputs(item) for key, item in value.items()}
        return [self._with_outputs(item) for item in value] if isinstance(value, list) else value

    def _output(self, reference: dict[str, str]) -> str:
        stacks = cloudformation_backends[self._account_id][reference.get("Region", self._region_name)].stacks.values()
        output = reference["OutputName"]
        for stack in stacks:
            if reference["StackName"] in (stack.name, stack.stack_id) and output in set(stack.output_map):
                return str(stack.output_map[output].value)
        message = f"Stack {reference['StackName']} has no output {reference['OutputName']}"
        raise ValidationError(message=message)

    def _resolved(self, value: Any) -> Any:
        if isinstance(value, dict):
            return {key: self._resolved(item) for key, item in value.items() if item is not None}
        if isinstance(value, list):
            return [self._resolved(item) for item in value if item is not None]
        return _DYNAMIC.sub(self._parameter_value, value) if isinstance(value, str) else value

    def _parameter_value(self, match: re.Match[str]) -> str:
        parameter = ssm_backends[self._account_id][self._region_name].get_parameter(match[1])
        if parameter is None:
            raise ValidationError(message=f"SSM parameter {match[1]} does not exist")
        return str(parameter.value)


def _with_zones(value: Any, region: str) -> Any:
    """Resolve Fn::GetAZs for this Region; moto always returns the zones of us-east-1."""
    if isinstance(value, dict):
        if set(value) == {"Fn::GetAZs"}:
            return [f"{region}{zone}" for zone in "abc"]
        return {key: _with_zones(item, region) for key, item in value.items()}
    return [_with_zones(item, region) for item in value] if isinstance(value, list) else value
