"""Accelerators: the number of accelerators of each instance type, for the limit on a submission's accelerators.

Sources: https://aws.amazon.com/ec2/instance-types/ (accelerated computing), and GpuInfo and NeuronInfo of EC2's
DescribeInstanceTypes, the only API that reports these numbers; a test compares them. For ml.p6e-gb200.36xlarge:
https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html.
"""

from __future__ import annotations

_BY_TYPE = {
    "ml.g4dn.12xlarge": 4,
    "ml.g5.12xlarge": 4,
    "ml.g5.24xlarge": 4,
    "ml.g5.48xlarge": 8,
    "ml.g6.12xlarge": 4,
    "ml.g6.24xlarge": 4,
    "ml.g6.48xlarge": 8,
    "ml.g6e.12xlarge": 4,
    "ml.g6e.24xlarge": 4,
    "ml.g6e.48xlarge": 8,
    "ml.g7.12xlarge": 2,
    "ml.g7.24xlarge": 4,
    "ml.g7.48xlarge": 8,
    "ml.g7e.12xlarge": 2,
    "ml.g7e.24xlarge": 4,
    "ml.g7e.48xlarge": 8,
    "ml.p2.xlarge": 1,
    "ml.p2.8xlarge": 8,
    "ml.p2.16xlarge": 16,
    "ml.p3.2xlarge": 1,
    "ml.p3.8xlarge": 4,
    "ml.p3.16xlarge": 8,
    "ml.p3dn.24xlarge": 8,
    "ml.p4d.24xlarge": 8,
    "ml.p4de.24xlarge": 8,
    "ml.p5.4xlarge": 1,
    "ml.p5.48xlarge": 8,
    "ml.p5e.48xlarge": 8,
    "ml.p5en.48xlarge": 8,
    "ml.p6-b200.48xlarge": 8,
    "ml.p6-b300.48xlarge": 8,
    "ml.p6e-gb200.36xlarge": 4,
    "ml.trn1.2xlarge": 1,
    "ml.trn1.32xlarge": 16,
    "ml.trn1n.32xlarge": 16,
    "ml.trn2.48xlarge": 16,
}
# Families in which every size that is not in the table has one accelerator.
_ONE = ("ml.g4dn.", "ml.g5.", "ml.g6.", "ml.g6e.", "ml.g7.", "ml.g7e.")
# Families without accelerators: general purpose, compute optimized, memory optimized.
_NONE = ("ml.m", "ml.c", "ml.r", "ml.t2.", "ml.t3.")


def accelerators(instance_type: str, processes_per_host: int) -> int:
    """Return the number of accelerators of a host.

    Args:
        instance_type: SageMaker's instance type.
        processes_per_host: Returned for a type that is not in the table, because each accelerator has one rank.
    """
    if instance_type in _BY_TYPE:
        return _BY_TYPE[instance_type]
    if instance_type.startswith(_ONE):
        return 1
    return 0 if instance_type.startswith(_NONE) else processes_per_host


def is_known(instance_type: str) -> bool:
    """Return True if the number of accelerators of an instance type is known."""
    return instance_type in _BY_TYPE or instance_type.startswith((*_ONE, *_NONE))
