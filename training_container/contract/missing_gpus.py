"""Missing GPUs: refuses to train on the CPUs of a host that has NVIDIA GPUs."""

import re
from collections.abc import Mapping
from pathlib import Path

from training_container.contract.launch_options import ALLOW_CPU, gpu_count
from training_container.contract.training_job import ContractError, TrainingJob

# SageMaker's training instance types with NVIDIA GPUs are those of the families P and G
# (https://aws.amazon.com/ec2/instance-types/, "Accelerated Computing"). tests/unit/job/test_accelerators.py
# compares this with SageMaker's own list. Trainium (ml.trn1) has other devices.
_GPU_FAMILIES = re.compile(r"ml\.[gp]\d")
_VARIABLE = "TRAINGRID_ALLOW_CPU"


def has_gpus(instance_type: str) -> bool:
    """Return True if hosts of an instance type have NVIDIA GPUs."""
    return _GPU_FAMILIES.match(instance_type) is not None


def may_use_cpu(job: TrainingJob, environment: Mapping[str, str]) -> bool:
    """Return True if ranks may train without a GPU: on a host type without GPUs, or if that is explicitly allowed."""
    instance_type = str(job.resources.get("current_instance_type", ""))
    return not has_gpus(instance_type) or job.launch.allow_cpu or environment.get(_VARIABLE) == "1"


def refuse_missing_gpus(job: TrainingJob, environment: Mapping[str, str], devices: Path = Path("/dev")) -> None:
    """Raise an error if this host type has GPUs, but the container sees none.

    Args:
        job: The job; resourceconfig.json contains the host's instance type.
        environment: The container's variables. An image for training on CPUs sets TRAINGRID_ALLOW_CPU to 1.
        devices: The folder in which the driver creates the GPUs' device files.

    Raises:
        ContractError: Ranks would train on the CPUs.
    """
    if gpu_count(devices) == 0 and not may_use_cpu(job, environment):
        raise ContractError(
            f"{job.current_host} is {job.resources['current_instance_type']}, which has GPUs, but the container sees "
            "none. Use an image with GPU libraries that sets NVIDIA_VISIBLE_DEVICES=all and "
            "NVIDIA_DRIVER_CAPABILITIES=compute,utility, as the target gpu of training_container/Dockerfile does. To "
            f"train on the CPUs of this host, set the hyperparameter {ALLOW_CPU} to true."
        )
