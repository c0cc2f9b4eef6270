"""Processors: the instance types whose CPUs are Arm.

Of SageMaker's training instance types, only ml.p6e-gb200.36xlarge is one of them, with NVIDIA's Grace
(https://docs.aws.amazon.com/eks/latest/userguide/ml-eks-nvidia-ultraserver.html recommends the AMI for Arm). The others
are EC2's types with AWS Graviton, which a grid may allow for EKS. Their families have a "g" after the generation
(https://docs.aws.amazon.com/ec2/latest/instancetypes/instance-type-names.html), except for a1. A test compares the
pattern with ProcessorInfo of EC2's DescribeInstanceTypes.
"""

from __future__ import annotations

import re

_ARM = re.compile(r"ml\.(a1|[a-z]+[0-9]+g[a-z]*|[a-z]+[0-9]+e-gb[0-9]+)\..*")


def is_arm(instance_type: str) -> bool:
    """Return True if the CPUs of an instance type are Arm.

    Args:
        instance_type: SageMaker's instance type.
    """
    return _ARM.fullmatch(instance_type) is not None
