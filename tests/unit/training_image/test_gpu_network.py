import gzip
import importlib.resources
import json
from pathlib import Path

import botocore.loaders
import pytest

from training_container.contract.launch_options import LaunchOptions
from training_container.contract.training_job import Folders, TrainingJob
from training_container.launcher import gpu_network


def job(instance_type: str, hosts: int = 2, interface: str = "eth0") -> TrainingJob:
    names = tuple(f"algo-{number + 1}" for number in range(hosts))
    return TrainingJob(
        folders=Folders(base=Path("/opt/ml")), hosts=names, current_host=names[0], network_interface=interface,
        channels={}, hyperparameters={}, launch=LaunchOptions(processes_per_host=1),
        resources={"current_instance_type": instance_type},
    )  # fmt: skip


def training_types() -> list[str]:
    model = botocore.loaders.Loader().load_service_model("sagemaker", "service-2")
    names: list[str] = model["shapes"]["TrainingInstanceType"]["enum"]
    return names


def training_types_with_efa() -> set[str]:
    """SageMaker's training instance types with GPUs that EC2 lists with EFA, in the data of moto."""
    file = importlib.resources.files("moto") / "ec2/resources/instance_types.json.gz"
    types = json.loads(gzip.decompress(file.read_bytes()))
    known = {name: types[name.removeprefix("ml.")] for name in training_types() if name.removeprefix("ml.") in types}
    return {name for name, one in known.items() if "GpuInfo" in one and one["NetworkInfo"].get("EfaSupported")}


def test_only_types_of_ec2_with_efa_use_it() -> None:
    ours = {name for name in training_types() if gpu_network.has_efa(name)}
    with_efa = training_types_with_efa()
    assert ours - with_efa <= {"ml.p6e-gb200.36xlarge"}, "moto's data lack this type"
    assert {name for name in with_efa if name.startswith("ml.p")} <= ours


@pytest.mark.parametrize(
    ("instance_type", "expected"),
    [
        ("ml.p4d.24xlarge", {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1", "RDMAV_FORK_SAFE": "1"}),
        ("ml.p5en.48xlarge", {"FI_PROVIDER": "efa", "FI_EFA_USE_DEVICE_RDMA": "1", "RDMAV_FORK_SAFE": "1"}),
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
