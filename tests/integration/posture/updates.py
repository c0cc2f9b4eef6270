"""Updates: determines from provider schemas how CloudFormation changes a grid's resources, without deploying."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from ipaddress import ip_network
from typing import Any

from localcloud.cloudformation.resource_schemas import resource_schema
from tests.integration.posture.configurations import HOME
from tests.integration.posture.synthesised import Resource, synthesised
from traingrid import names

Place = tuple[str, str, str]
"""The account, Region and name of a stack."""

NEEDED = ("AWS::EC2::VPC", "AWS::Batch::ComputeEnvironment", "AWS::Batch::JobQueue")
"""Types that running jobs require, in addition to their roles and subnets."""


@dataclass(frozen=True)
class Deployed:
    """The resources of a grid by stack and logical id, with all values that are known before a deployment."""

    stacks: dict[Place, dict[str, Resource]]

    def question(self) -> dict[str, Any]:
        """Return the properties of the custom resource that an update of the control stack evaluates first."""
        for resources in self.stacks.values():
            for resource in resources.values():
                if resource["Type"] == names.REGIONS_QUESTION:
                    return dict(resource["Properties"])
        raise AssertionError("no question")


@dataclass(frozen=True)
class Replacement:
    """A resource that an update replaces, and the changed properties that require it."""

    where: str
    kind: str
    paths: list[str]
    custom_name: str


@cache
def deployed(configuration: str) -> Deployed:
    """Return a configuration's resources in account 123456789012."""
    made = synthesised(configuration)
    stacks = {}
    for stack, template in made.templates.items():
        account = made.accounts[stack] if made.accounts[stack].isdigit() else HOME
        region = made.regions[stack]
        known = {
            "AWS::AccountId": account,
            "AWS::Region": region,
            "AWS::Partition": "aws",
            "AWS::URLSuffix": "amazonaws.com",
        }
        stacks[account, region, stack] = {
            name: {**resource, "Properties": _resolved(resource.get("Properties", {}), known)}
            for name, resource in template["Resources"].items()
        }
    return Deployed(stacks)


def replacements(before: Deployed, after: Deployed) -> Iterator[Replacement]:
    """Yield the resources that CloudFormation replaces."""
    for place, logical_id, paths in _replaced(before, after):
        resource = after.stacks[place][logical_id]
        schema = resource_schema(resource["Type"])
        name = schema.name(resource["Properties"])
        kept = name == schema.name(before.stacks[place][logical_id]["Properties"])
        yield Replacement(f"{place[2]}/{logical_id}", resource["Type"], paths, name if kept else "")


def lost_by_jobs(before: Deployed, after: Deployed) -> Iterator[str]:
    """Yield resources of running jobs that an update deletes or replaces, in stacks that both grids have."""
    replaced = {(place, logical_id) for place, logical_id, _ in _replaced(before, after)}
    for place in before.stacks.keys() & after.stacks.keys():
        if place[2].endswith("-builds"):  # its roles build images; no job uses them
            continue
        for logical_id in _needed(before.stacks[place]):
            if logical_id not in after.stacks[place]:
                yield f"{place[2]}/{logical_id} is deleted"
            elif (place, logical_id) in replaced:
                yield f"{place[2]}/{logical_id} is replaced"


def overlapping_subnets(before: Deployed, after: Deployed) -> Iterator[str]:
    """Yield the subnets that an update creates with addresses of a subnet that exists until the update ends."""
    replaced = {(place, logical_id) for place, logical_id, _ in _replaced(before, after)}
    for place in before.stacks.keys() & after.stacks.keys():
        old, new = (_subnets(one.stacks[place]) for one in (before, after))
        for logical_id, cidr in new.items():
            created = logical_id not in old or (place, logical_id) in replaced
            others = [other for other in old if created and ip_network(cidr).overlaps(ip_network(old[other]))]
            if others:
                yield f"{place[2]}/{logical_id} would be created on the addresses of {others}"


def _subnets(resources: dict[str, Resource]) -> dict[str, str]:
    found = {name: it["Properties"] for name, it in resources.items() if it["Type"] == "AWS::EC2::Subnet"}
    return {name: properties["CidrBlock"] for name, properties in found.items()}


def _needed(resources: dict[str, Resource]) -> Iterator[str]:
    """Yield the logical ids of resources that running jobs require: queues, network, and roles of jobs or SageMaker."""
    by_children = json.dumps(
        [it["Properties"] for it in resources.values() if it["Type"] in ("AWS::Batch::JobDefinition", NEEDED[1])]
    )
    for logical_id, resource in resources.items():
        used = resource["Type"] in ("AWS::IAM::Role", "AWS::EC2::Subnet") and f'"{logical_id}"' in by_children
        role = resource["Properties"].get("RoleName", "") if resource["Type"] == "AWS::IAM::Role" else ""
        named = role and not role.endswith(names.follower_role(""))  # no job waits for the catalog
        if resource["Type"] in NEEDED or named or used:
            yield logical_id


def _replaced(before: Deployed, after: Deployed) -> list[tuple[Place, str, list[str]]]:
    """Return the replaced resources, including those that refer to a replaced one."""
    found = []
    for place in before.stacks.keys() & after.stacks.keys():
        old, new = before.stacks[place], after.stacks[place]
        replaced: dict[str, list[str]] = {}
        while True:
            more = {
                name: paths
                for name in old.keys() & new.keys() - replaced.keys()
                if (paths := _replaces(old[name], new[name], replaced))
            }
            if not more:
                break
            replaced |= more
        found += [(place, name, paths) for name, paths in replaced.items()]
    return found


def _replaces(old: Resource, new: Resource, replaced: dict[str, list[str]]) -> list[str]:
    if old["Type"] != new["Type"]:
        return ["Type"]
    schema = resource_schema(new["Type"])
    return schema.replaces(old["Properties"], _with_new(new["Properties"], replaced) if replaced else new["Properties"])


def _with_new(value: Any, replaced: dict[str, list[str]]) -> Any:
    """Mark references to replaced resources, so that they differ from their old values."""
    match value:
        case {"Ref": str(name)} | {"Fn::GetAtt": [str(name), _]} if name in replaced:
            return {**value, "replaced": True}
        case dict():
            return {key: _with_new(item, replaced) for key, item in value.items()}
        case list():
            return [_with_new(item, replaced) for item in value]
    return value


def _resolved(value: Any, known: dict[str, str]) -> Any:
    """Fill in values that are known before a deployment. References to resources stay."""
    match value:
        case {"Ref": str(name)} if name in known:
            return known[name]
        case {"Fn::GetAZs": _}:
            return [f"{known['AWS::Region']}{letter}" for letter in "abc"]
        case dict():
            return _evaluated({key: _resolved(item, known) for key, item in value.items()})
        case list():
            return [_resolved(item, known) for item in value]
    return value


def _evaluated(value: dict[str, Any]) -> Any:
    """Evaluate a CloudFormation function whose arguments are known."""
    match value:
        case {"Fn::Select": [index, list() as choices]}:
            return choices[int(index)]
        case {"Fn::Join": [str(delimiter), list() as parts]} if all(isinstance(part, str) for part in parts):
            return delimiter.join(parts)
    return value
