"""Instance types: the resources that a node of an EC2 instance type offers to pods.

The types and the Regions that offer them are those of moto's copy of EC2's description. Reservations of the kubelet are
those of the EKS AMI and of Karpenter (https://karpenter.sh/docs/reference/instance-types/): parts of the processors,
255 MiB and 11 MiB for each pod, 100 MiB for the eviction threshold, and 7.5 % of the memory for the hypervisor; and of
the disk 1 GiB, and 10 % for the eviction threshold.
"""

from __future__ import annotations

from functools import cache

from moto.ec2.models.instance_types import INSTANCE_TYPE_OFFERINGS, INSTANCE_TYPES

_GENERAL = ("m5.large", "m5.xlarge", "m5.2xlarge", "m5.4xlarge", "m5.12xlarge", "m5.24xlarge")
_DISK_GIB = 200
"""The size of the disk, as a NodeClass with `ephemeralStorage: {size: 200Gi}` gives it. The default of EKS Auto Mode is
80 GiB (https://docs.aws.amazon.com/eks/latest/userguide/create-node-class.html)."""
_PROCESSOR_SHARES = (60.0, 10.0, 5.0, 5.0)
_SHARE_OF_OTHERS = 2.5


@cache
def offered(region: str) -> frozenset[str]:
    """Return the instance types of a Region."""
    offerings = INSTANCE_TYPE_OFFERINGS["region"].get(region, [])
    return frozenset(offering["InstanceType"] for offering in offerings) & frozenset(INSTANCE_TYPES)


def general(region: str) -> tuple[str, ...]:
    """Return the instance types for pods that ask for none, smallest first."""
    return tuple(kind for kind in _GENERAL if kind in offered(region))


@cache
def capacity(instance_type: str) -> dict[str, str]:
    """Return the capacity of a node."""
    description = INSTANCE_TYPES[instance_type]
    return {
        "cpu": str(description["VCpuInfo"]["DefaultVCpus"]),
        "memory": f"{description['MemoryInfo']['SizeInMiB']}Mi",
        "ephemeral-storage": f"{_DISK_GIB}Gi",
        "pods": str(_pods(instance_type)),
        **_devices(instance_type),
    }


@cache
def allocatable(instance_type: str) -> dict[str, str]:
    """Return the resources of a node for pods."""
    description = INSTANCE_TYPES[instance_type]
    processors, memory = description["VCpuInfo"]["DefaultVCpus"], description["MemoryInfo"]["SizeInMiB"]
    shares = _PROCESSOR_SHARES[:processors]
    reserved = sum(shares) + _SHARE_OF_OTHERS * max(0, processors - len(_PROCESSOR_SHARES))
    allocatable_memory = memory - int(memory * 0.075) - (255 + 11 * _pods(instance_type)) - 100
    return {
        **capacity(instance_type),
        "cpu": f"{int(1000 * processors - reserved)}m",
        "memory": f"{allocatable_memory}Mi",
        "ephemeral-storage": f"{_DISK_GIB * 9 // 10 - 1}Gi",
    }


def _pods(instance_type: str) -> int:
    """Return the maximum number of pods (nodeadm/internal/kubelet/eni_max_pods.go of awslabs/amazon-eks-ami)."""
    network = INSTANCE_TYPES[instance_type]["NetworkInfo"]
    return int(network["MaximumNetworkInterfaces"] * (network["Ipv4AddressesPerInterface"] - 1) + 2)


def _devices(instance_type: str) -> dict[str, str]:
    description = INSTANCE_TYPES[instance_type]
    gpus = [gpu for gpu in (description.get("GpuInfo") or {}).get("Gpus", []) if gpu.get("Manufacturer") == "NVIDIA"]
    efa = (description["NetworkInfo"].get("EfaInfo") or {}).get("MaximumEfaInterfaces", 0)
    neuron = (description.get("NeuronInfo") or {}).get("NeuronDevices") or []
    counts = {
        "nvidia.com/gpu": sum(int(gpu["Count"]) for gpu in gpus),
        "vpc.amazonaws.com/efa": int(efa),
        "aws.amazon.com/neuron": sum(int(device["Count"]) for device in neuron),
    }
    return {name: str(count) for name, count in counts.items() if count}
