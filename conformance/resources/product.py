"""Conditions of the product's own policies, as its stacks write them; tests/integration/conformance compares them."""

from __future__ import annotations

from typing import Any

TAG_GRID = "traingrid:grid"
TAGS_OF_A_LINE = ("traingrid:submission", "traingrid:job", "traingrid:fingerprint")
GRID = "tgc"
"""Name of the grid in the conditions, and the beginning of the training jobs' names."""

Conditions = dict[str, dict[str, Any]]


def trust_conditions(account: str, arn: str | list[str]) -> Conditions:
    """Return the conditions of the trust in a service that acts for resources with these ARNs."""
    return {"StringEquals": {"aws:SourceAccount": account}, "ArnLike": {"aws:SourceArn": arn}}


def creation_conditions(instance_type: str, max_runtime: int) -> Conditions:
    """Return the conditions on CreateTrainingJob of a grid with default settings and no VPC."""
    absent = ("sagemaker:InstanceTypes", *(f"aws:RequestTag/{tag}" for tag in TAGS_OF_A_LINE))
    network = ("sagemaker:VpcSubnets", "sagemaker:VpcSecurityGroupIds", "sagemaker:FileSystemId")
    return {
        "StringEquals": {f"aws:RequestTag/{TAG_GRID}": GRID},
        "ForAllValues:StringEquals": {"sagemaker:InstanceTypes": [instance_type]},
        "Null": dict.fromkeys(absent, "false") | dict.fromkeys(network, "true"),
        "NumericLessThanEquals": {"sagemaker:MaxRuntimeInSeconds": str(max_runtime)},
        "Bool": {"sagemaker:InterContainerTrafficEncryption": "true"},
    }


def denied_creations() -> list[dict[str, Any]]:
    """Return the product's denials of CreateTrainingJob: kept instances, and a shell in the container."""
    deny = {"Effect": "Deny", "Action": "sagemaker:CreateTrainingJob", "Resource": "*"}
    return [
        {**deny, "Condition": {"NumericGreaterThan": {"sagemaker:KeepAlivePeriod": "0"}}},
        {**deny, "Condition": {"Bool": {"sagemaker:EnableRemoteDebug": "true"}}},
    ]


def tags() -> list[dict[str, str]]:
    """Return the tags with which the product creates a training job."""
    return [{"Key": TAG_GRID, "Value": GRID}, *({"Key": tag, "Value": "x"} for tag in TAGS_OF_A_LINE)]


def one_of(key: str, *values: str) -> Conditions:
    """Return the conditions that a multivalued key is present and has only these values."""
    return {"ForAllValues:StringEquals": {key: list(values)}, "Null": {key: "false"}}


def submission_conditions() -> Conditions:
    """Return the conditions on SubmitServiceJob."""
    return {
        "StringEquals": {f"aws:RequestTag/{TAG_GRID}": GRID},
        "Null": {f"aws:RequestTag/{tag}": "false" for tag in TAGS_OF_A_LINE},
    }


def own_resources() -> Conditions:
    """Return the condition that a resource has the grid's tag."""
    return {"StringEquals": {f"aws:ResourceTag/{TAG_GRID}": GRID}}


def denied_to_code(actions: str) -> dict[str, Any]:
    """Return the denial of space-separated actions to the code of a function, for which Lambda makes them."""
    condition = {"Null": {"lambda:SourceFunctionArn": "false"}}
    return {"Effect": "Deny", "Action": actions.split(), "Resource": "*", "Condition": condition}
