"""Templates: synthesizes grids, and queries their CloudFormation templates."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any

from aws_cdk import App
from aws_cdk.cx_api import CloudAssembly

from app import build_app
from traingrid.grid.model import GridSettings

ROOT = Path(__file__).parents[3]
REGIONS = (
    "us-east-1",
    "us-west-2",
    "eu-west-1",
    "eu-central-1",
    "ap-northeast-1",
    "ap-southeast-2",
    "ca-central-1",
    "sa-east-1",
    "eu-north-1",
    "af-south-1",
    "me-central-1",
    "us-east-2",
)

Template = dict[str, Any]
_assemblies: dict[tuple[str, Path], CloudAssembly] = {}


def a_grid(regions: int | Mapping[str, Any] = 4, **changes: Any) -> GridSettings:
    """Return a grid with these training Regions, or this number of them; `changes` are other keys of grid.yaml."""
    described = {
        "name": "traingrid",
        "home": "us-east-1",
        "regions": dict.fromkeys(REGIONS[:regions]) if isinstance(regions, int) else regions,
        "images": {"resnet": {"repository": "training", "tag": "1"}},
        "job": {"image": "resnet", "instance_type": "ml.g5.48xlarge"},
    }
    return GridSettings.model_validate({**described, **changes})


def an_app(grid: GridSettings, layer: Path, folder: Path, context: Mapping[str, Any] = MappingProxyType({})) -> App:
    """Return a grid's app with the feature flags of cdk.json, as the CDK CLI creates it, and a further context."""
    return build_app(grid, layer=layer, app=App(context={**cdk_context(), **context}, outdir=str(folder)))


def cdk_context() -> dict[str, Any]:
    """Return the context of cdk.json, which has the CDK's feature flags."""
    return dict(json.loads((ROOT / "cdk.json").read_text())["context"])


def assembly(grid: GridSettings, layer: Path) -> CloudAssembly:
    """Return the assembly of a grid, which a process synthesizes once, into a folder beside the layer's."""
    key = grid.model_dump_json(), layer
    if key not in _assemblies:
        _assemblies[key] = an_app(grid, layer, layer.with_name(f"assembly-{len(_assemblies)}")).synth()
    return _assemblies[key]


def synthesise(grid: GridSettings, layer: Path) -> dict[str, Template]:
    """Return a grid's templates by stack name."""
    return {stack.stack_name: stack.template for stack in assembly(grid, layer).stacks}


def resources(template: Template, kind: str) -> dict[str, Any]:
    """Return the resources of one type by logical id."""
    return {name: found for name, found in template["Resources"].items() if found["Type"] == kind}


def only(template: Template, kind: str) -> Any:
    """Return the properties of the only resource of a type."""
    (resource,) = resources(template, kind).values()
    return resource["Properties"]


def statements(template: Template, role: str = "") -> Iterator[dict[str, Any]]:
    """Yield all policy statements of roles whose logical ids begin with `role`, with lists instead of single values."""
    for policy in policies(template):
        if any(attached["Ref"].startswith(role) for attached in policy["Properties"]["Roles"]):
            for statement in policy["Properties"]["PolicyDocument"]["Statement"]:
                yield {
                    **statement,
                    "Action": as_list(statement["Action"]),
                    "Resource": [flat(resource) for resource in as_list(statement["Resource"])],
                }


def policies(template: Template) -> list[Any]:
    """Return the policies of a template: inline ones, and managed ones for statements that exceed a role's limit."""
    kinds = ("AWS::IAM::Policy", "AWS::IAM::ManagedPolicy")
    return [policy for kind in kinds for policy in resources(template, kind).values()]


def as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


def allowed(template: Template, role: str = "") -> Iterator[dict[str, Any]]:
    """Yield the statements with the effect Allow."""
    return (statement for statement in statements(template, role) if statement["Effect"] == "Allow")


def actions(template: Template, role: str) -> set[str]:
    """Return all actions that a role is allowed."""
    return {action for statement in allowed(template, role) for action in statement["Action"]}


def on(template: Template, role: str, action: str) -> set[str]:
    """Return the resources on which a role is allowed an action."""
    found = (statement for statement in allowed(template, role) if action in statement["Action"])
    return {resource for statement in found for resource in statement["Resource"]}


def flat(value: Any) -> str:
    """Return a value as one string, with references as <Name> or <Name.Attribute>."""
    match value:
        case str():
            return value
        case {"Ref": name}:
            return f"<{name}>"
        case {"Fn::GetAtt": [name, attribute]}:
            return f"<{name}.{attribute}>"
        case {"Fn::Join": [delimiter, parts]}:
            return str(delimiter).join(map(flat, parts))
        case {"Fn::Sub": str() as text}:
            return text.replace("${", "<").replace("}", ">")
        case {"Fn::GetStackOutput": {"StackName": name, "OutputName": output}}:
            return f"<{name}.{output}>"
    raise AssertionError(f"unexpected {value!r}")


def environment(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return the environment variables of a function, or of a job definition's container."""
    if "ContainerProperties" in properties:
        return {entry["Name"]: flat(entry["Value"]) for entry in properties["ContainerProperties"]["Environment"]}
    return {name: flat(value) for name, value in properties["Environment"]["Variables"].items()}
