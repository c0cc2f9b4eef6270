"""Instance types: SageMaker's training instance types, and EC2's description of them."""

import gzip
import importlib.resources
import json
from functools import cache
from typing import Any

import botocore.loaders

UNRECORDED = {
    *("ml.p2.xlarge", "ml.p2.8xlarge", "ml.p2.16xlarge"),
    *("ml.p3.2xlarge", "ml.p3.8xlarge", "ml.p3.16xlarge"),
    "ml.p6e-gb200.36xlarge",
}
"""The training instance types with accelerators that the recorded replies of DescribeInstanceTypes lack."""


def training_types() -> list[str]:
    """Return the TrainingInstanceType values of SageMaker's service model."""
    model = botocore.loaders.Loader().load_service_model("sagemaker", "service-2")
    names: list[str] = model["shapes"]["TrainingInstanceType"]["enum"]
    return names


def described(instance_type: str) -> dict[str, Any]:
    """Return EC2's description of a training instance type; empty if there is none."""
    return ec2_types().get(instance_type.removeprefix("ml."), {})


@cache
def ec2_types() -> dict[str, dict[str, Any]]:
    """Return EC2's instance types, as DescribeInstanceTypes returned them: moto contains its replies."""
    file = importlib.resources.files("moto") / "ec2/resources/instance_types.json.gz"
    types: dict[str, dict[str, Any]] = json.loads(gzip.decompress(file.read_bytes()))
    return types
