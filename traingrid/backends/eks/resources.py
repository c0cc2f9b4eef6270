"""Resources: the resources that the container `train` requests, by instance type.

Sources: accelerators, see traingrid/job/accelerators.py. EFA interfaces: EfaInfo of EC2's DescribeInstanceTypes, and
https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/efa.html#efa-instance-types; names of resources:
https://docs.aws.amazon.com/eks/latest/userguide/node-efa.html and
https://docs.aws.amazon.com/eks/latest/userguide/device-management-neuron.html. Numbers of vCPUs and memory:
https://aws.amazon.com/ec2/instance-types/. A test compares all of them with EC2's descriptions.
"""

import re

from traingrid.job.accelerators import accelerators
from traingrid.job.job import Job

GPU, NEURON, EFA = "nvidia.com/gpu", "aws.amazon.com/neuron", "vpc.amazonaws.com/efa"
"""The names of the resources that the device plugins of NVIDIA, AWS Neuron and EFA provide."""
_EFA_INTERFACES = {
    "ml.p3dn.24xlarge": 1,
    "ml.p4d.24xlarge": 4,
    "ml.p4de.24xlarge": 4,
    "ml.p5.4xlarge": 1,
    "ml.p5.48xlarge": 32,
    "ml.p5e.48xlarge": 32,
    "ml.p5en.48xlarge": 16,
    "ml.p6-b200.48xlarge": 8,
    "ml.p6-b300.48xlarge": 16,
    "ml.trn1.32xlarge": 8,
    "ml.trn1n.32xlarge": 16,
    "ml.trn2.48xlarge": 16,
}
"""The types of which a training job with several hosts requests all EFA interfaces. Others also have EFA, but clusters
rarely install its device plugin for them, without which a pod would wait forever."""
_CPUS = {"medium": 2, "large": 2, "xlarge": 4}
_CPUS_PER_XLARGE = 4
_SIZE = re.compile(r"([0-9]+)xlarge")
_MEMORY_GIB_PER_CPU = {"c": 2, "m": 4, "r": 8}
_MILLICORES, _MILLICORES_WITH_DEVICES = 750, 250
"""Of 1,000 of each vCPU. The rest is for the daemons of a node and the container `results`. Of types without
accelerators it is more than a half, so two training jobs never share a node. Of the others, all accelerators are
requested, which has the same effect; their nodes may have only half of the vCPUs, because instance groups of HyperPod
can have one thread for each core (ThreadsPerCore in
https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ClusterInstanceGroupSpecification.html)."""
_MEMORY_SHARE = 0.6
"""Of the memory of a node; a node of 4 GiB offers about 3 GiB to pods, one of 8 GiB about 7 GiB
(https://docs.aws.amazon.com/eks/latest/userguide/choosing-instance-type.html). There is no limit."""


def cpus(instance_type: str) -> int:
    """Return the number of vCPUs of a SageMaker instance type, which follows from its size.

    It is too small for `ml.c4.8xlarge`, which has 36.
    """
    size = instance_type.rpartition(".")[2]
    match = _SIZE.fullmatch(size)
    return int(match[1]) * _CPUS_PER_XLARGE if match else _CPUS.get(size, 1)


def resources(job: Job, *, queued: bool = False) -> dict[str, dict[str, str]]:
    """Return the `resources` of the container `train`.

    The volume at /opt/ml is a part of the node's disk, which the scheduler considers if it is requested
    (https://kubernetes.io/docs/concepts/storage/ephemeral-storage/). Kueue admits only requests of resources for which
    the queue has a quota, which queues rarely have for disks (findFlavorForPodSets in
    pkg/scheduler/flavorassigner/flavorassigner.go of https://github.com/kubernetes-sigs/kueue).

    Memory is requested for general purpose, compute optimized and memory optimized types, whose sizes follow from
    their families; nodes with accelerators run one training job, which requests all of them.

    Args:
        queued: True if it waits in a queue of Kueue; then no disk is requested.
    """
    devices = accelerators(job.instance_type, job.processes_per_host)
    share = _MILLICORES_WITH_DEVICES if devices else _MILLICORES
    requests = {"cpu": f"{cpus(job.instance_type) * share}m"}
    if memory := _MEMORY_GIB_PER_CPU.get(_family(job.instance_type)):
        requests["memory"] = f"{int(cpus(job.instance_type) * memory * _MEMORY_SHARE * 1024)}Mi"
    if not queued:
        requests["ephemeral-storage"] = f"{job.volume_gb}Gi"
    limits = {}
    if devices:
        limits[NEURON if job.instance_type.startswith("ml.trn") else GPU] = str(devices)
    if uses_efa(job):
        limits[EFA] = str(_EFA_INTERFACES[job.instance_type])
    # A device is a limit, which is the request too (https://kubernetes.io/docs/tasks/manage-gpus/scheduling-gpus/).
    return {"requests": requests, "limits": limits} if limits else {"requests": requests}


def uses_efa(job: Job) -> bool:
    """Return True if the hosts of a training job request EFA interfaces."""
    return job.instance_count > 1 and job.instance_type in _EFA_INTERFACES


def _family(instance_type: str) -> str:
    """Return the letter of a family without accelerators, and "" for t2 and t3, whose ratios differ by size."""
    match = re.fullmatch(r"ml\.([cmr])[0-9][a-z0-9-]*\..*", instance_type)
    return match[1] if match else ""
