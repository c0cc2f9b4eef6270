"""Accelerators: compares the table and the GPU families with SageMaker's and EC2's lists of instance types."""

from tests.support.instance_types import UNRECORDED, described, training_types
from traingrid.job.accelerators import accelerators
from training_container.contract.missing_gpus import has_gpus

# https://aws.amazon.com/ec2/instance-types/: general purpose, compute and memory optimized; Trainium.
WITHOUT = ("ml.m", "ml.c", "ml.r", "ml.t3.", "ml.trn")


def number_of_devices(instance_type: str) -> int:
    """Return the number of GPUs and Trainium devices that EC2 reports."""
    found = described(instance_type)
    gpus, neuron = found.get("GpuInfo", {}).get("Gpus", []), found.get("NeuronInfo", {}).get("NeuronDevices", [])
    return sum(device["Count"] for device in [*gpus, *neuron])


def test_every_training_instance_type_is_known_to_have_gpus_or_not() -> None:
    for kind in training_types():
        assert has_gpus(kind) != kind.startswith(WITHOUT), kind


def test_the_number_of_accelerators_of_every_training_instance_type_is_known() -> None:
    assert [kind for kind in training_types() if accelerators(kind, -1) < 0] == []


def test_the_numbers_of_accelerators_are_those_of_ec2() -> None:
    compared = [kind for kind in training_types() if described(kind)]
    assert {kind: accelerators(kind, -1) for kind in compared} == {kind: number_of_devices(kind) for kind in compared}


def test_every_type_with_accelerators_is_compared_or_left_out_by_name() -> None:
    assert {kind for kind in training_types() if accelerators(kind, 1) and not described(kind)} == UNRECORDED
