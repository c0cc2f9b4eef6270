"""GPU network: the variables of the traffic between the GPUs of several hosts, by interface and instance type.

AWS's containers set the same ones:
https://github.com/aws/sagemaker-training-toolkit, src/sagemaker_training/mpi.py and torch_distributed.py;
https://github.com/aws/sagemaker-python-sdk, sagemaker-train/src/sagemaker/train/container_drivers/common/utils.py.
GLOO_SOCKET_IFNAME: https://docs.pytorch.org/docs/stable/distributed.html, "Choosing the network interface to use".
Their lists of instance types lack those after ml.p5 (sagemaker-python-sdk issue 5491), so families stand here.
"""

import re
import socket

from training_container.contract.training_job import TrainingJob

# Types with an adapter for EFA: the SDK's SM_EFA_NCCL_INSTANCES, and the families after ml.p5. EC2 has it in more types
# of the families G, but no source shows that SageMaker attaches it there.
_WITH_EFA = re.compile(
    r"ml\.(?:g4dn\.(?:8|12)xlarge|g5\.48xlarge|p3dn\.24xlarge|p4de?\.24xlarge|p5\w*\.\d+xlarge|p6e?-\w+\.\d+xlarge)"
)


def has_efa(instance_type: str) -> bool:
    """Return True if hosts of an instance type have an adapter for EFA, for example of ml.p4d.24xlarge."""
    return _WITH_EFA.fullmatch(instance_type) is not None


def gpu_network(job: TrainingJob) -> dict[str, str]:
    """Return the variables of NCCL, libfabric and Gloo; none for a job of one host.

    Without NCCL_SOCKET_IFNAME, NCCL may choose an interface that does not reach the other hosts. FI_PROVIDER makes
    libfabric use EFA, or fail, in place of TCP; an image without libfabric's plugin for NCCL does not read it.

    AWS's containers also set FI_EFA_USE_DEVICE_RDMA, which is not needed now, and RDMAV_FORK_SAFE, which "can break
    things" with newer kernels (https://github.com/aws/aws-ofi-nccl/blob/v1.20.0/doc/efa-env-var.md).
    """
    if len(job.hosts) == 1:
        return {}
    variables: dict[str, str] = {}
    if job.network_interface in [name for _, name in socket.if_nameindex()]:
        variables |= dict.fromkeys(("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"), str(job.network_interface))
    if has_efa(str(job.resources.get("current_instance_type", ""))):
        variables["FI_PROVIDER"] = "efa"
    return variables
