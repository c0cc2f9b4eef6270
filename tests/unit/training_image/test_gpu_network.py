from pathlib import Path

import pytest

from tests.support.instance_types import UNRECORDED, described, training_types
from traingrid.manifest import hardware_warnings
from training_container.contract.launch_options import LaunchOptions
from training_container.contract.missing_gpus import has_gpus
from training_container.contract.training_job import Folders, TrainingJob
from training_container.launcher import gpu_network, kernel_cache


def job(instance_type: str, hosts: int = 2, interface: str = "eth0") -> TrainingJob:
    names = tuple(f"algo-{number + 1}" for number in range(hosts))
    return TrainingJob(
        folders=Folders(base=Path("/opt/ml")), hosts=names, current_host=names[0], network_interface=interface,
        channels={}, hyperparameters={}, launch=LaunchOptions(processes_per_host=1),
        resources={"current_instance_type": instance_type},
    )  # fmt: skip


def gpu_names(instance_type: str) -> set[str]:
    """Return the names of an instance type's GPUs; empty if EC2's replies lack the type."""
    return {gpu["Name"] for gpu in described(instance_type).get("GpuInfo", {}).get("Gpus", ())}


def training_types_with_efa() -> set[str]:
    """Return SageMaker's training instance types with GPUs that EC2 lists with EFA."""
    known = {name: described(name) for name in training_types() if gpu_names(name)}
    return {name for name, one in known.items() if one["NetworkInfo"].get("EfaSupported")}


# EC2 has EFA in these types, but AWS's containers do not use it there, and no source shows that SageMaker attaches it.
LEFT_OUT = {
    "ml.g4dn.16xlarge",
    *(f"ml.g5.{size}xlarge" for size in (8, 12, 16, 24)),
    *(f"ml.{family}.{size}xlarge" for family in ("g6", "g6e") for size in (8, 12, 16, 24, 48)),
    *(f"ml.{family}.{size}xlarge" for family in ("g7", "g7e") for size in (8, 12, 24, 48)),
}


def test_types_of_ec2_with_efa_use_it_or_are_left_out_by_name() -> None:
    ours = {name for name in training_types() if gpu_network.has_efa(name)}
    with_efa = training_types_with_efa()
    assert ours - with_efa == {"ml.p6e-gb200.36xlarge"}, "EC2's replies lack this type"
    assert with_efa - ours == LEFT_OUT
    assert not [name for name in LEFT_OUT if name.startswith("ml.p")]


def test_the_plan_knows_the_same_types_as_the_image() -> None:
    for name in training_types():
        assert hardware_warnings.has_efa(name) == gpu_network.has_efa(name), name
        newer = kernel_cache._NEWER_THAN_TENSORFLOW.match(name) is not None
        assert hardware_warnings.is_newer_than_tensorflow(name) == newer, name


# Compute capability 9.0 and higher: https://developer.nvidia.com/cuda-gpus.
NEWER_GPUS = {"H100", "H200", "B200", "B300", "GB200", "RTX PRO Server 6000", "RTX PRO 4500"}


def test_types_with_gpus_of_hopper_and_later_compile_kernels() -> None:
    known = {name: gpus for name in training_types() if (gpus := gpu_names(name))}
    assert {name for name in training_types() if has_gpus(name)} - UNRECORDED == known.keys()
    assert {gpu for gpus in known.values() for gpu in gpus} >= {"V100", "A100", "A10G", "L4", "L40S", "H100"}
    for name, gpus in known.items():
        assert hardware_warnings.is_newer_than_tensorflow(name) == bool(gpus & NEWER_GPUS), (name, gpus)


@pytest.mark.parametrize(
    ("instance_type", "expected"),
    [
        ("ml.p4d.24xlarge", {"FI_PROVIDER": "efa"}),
        ("ml.p5en.48xlarge", {"FI_PROVIDER": "efa"}),
        ("ml.g5.48xlarge", {"FI_PROVIDER": "efa"}),
        ("ml.p3dn.24xlarge", {"FI_PROVIDER": "efa"}),
        ("ml.g5.xlarge", {}),
    ],
)
def test_hosts_use_their_interface_and_their_adapter(
    monkeypatch: pytest.MonkeyPatch, instance_type: str, expected: dict[str, str]
) -> None:
    monkeypatch.setattr("socket.if_nameindex", lambda: [(1, "lo"), (2, "eth0")])
    interface = {"NCCL_SOCKET_IFNAME": "eth0", "GLOO_SOCKET_IFNAME": "eth0"}
    assert gpu_network.gpu_network(job(instance_type)) == interface | expected
    assert gpu_network.gpu_network(job(instance_type, interface="eth7")) == expected
    assert gpu_network.gpu_network(job(instance_type, hosts=1)) == {}
