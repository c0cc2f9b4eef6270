"""Processors: compares the pattern of Arm types with SageMaker's and EC2's lists of instance types."""

from tests.support.instance_types import ec2_types, training_types
from traingrid.job.processors import is_arm


def test_the_arm_types_are_those_of_ec2() -> None:
    types = ec2_types()
    arm = {name for name, found in types.items() if "arm64" in found["ProcessorInfo"]["SupportedArchitectures"]}
    assert {name for name in types if is_arm(f"ml.{name}")} == arm
    assert {"a1.xlarge", "m8g.xlarge", "im4gn.xlarge", "g5g.xlarge"} <= arm


def test_one_training_instance_type_is_arm() -> None:
    assert [name for name in training_types() if is_arm(name)] == ["ml.p6e-gb200.36xlarge"]
