"""Jobs on EKS: a grid with a cluster, its jobs, and pods in any state."""

from typing import Any

from tests.support.sample_deployment import ACCOUNT
from tests.support.sample_job import sample_job
from traingrid import names
from traingrid.backends.eks.cluster_job import ClusterJob
from traingrid.backends.eks.indexed_job import indexed_job
from traingrid.backends.eks.mpi_job import mpi_job
from traingrid.backends.eks.owned_pods import CONTROLLER_UID
from traingrid.backends.eks.pods import Pod
from traingrid.backends.eks.training_object import TrainingObject
from traingrid.backends.sagemaker.request import fingerprint, training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.grid.eks import EksCluster
from traingrid.grid.model import GridSettings
from traingrid.job.job import Job
from traingrid.job.ownership import tags_of
from traingrid.kubernetes.client import JOB, MPI_JOB

REGION = "eu-west-1"
NAME = "traingrid-0123abcd-0-1"
CLUSTER_ARN = f"arn:aws:eks:{REGION}:{ACCOUNT}:cluster/research"
POD_IMAGE = f"{ACCOUNT}.dkr.ecr.us-east-1.amazonaws.com/traingrid/orchestrator:1"


def eks_deployment(**settings: Any) -> Deployment:
    """Return a grid with a cluster in one of its Regions; `settings` are fields of its `eks` section."""
    grid = GridSettings.model_validate(
        {
            "name": "traingrid",
            "home": "us-east-1",
            "regions": {"us-east-1": None, REGION: {"eks": {"cluster": "research", **settings}}},
            "images": {"resnet": {"repository": "training", "tag": "1"}},
            "job": {"image": "resnet", "instance_type": "ml.m5.large"},
        }
    )
    return Deployment(grid=grid, account=ACCOUNT, table="ledger", manifest_bucket="manifests", pod_image=POD_IMAGE)


def eks_job(**fields: Any) -> Job:
    """Return a job of the Region with the cluster."""
    return sample_job(REGION).model_copy(update={"backends": ("eks",), **fields})


def training_object(job: Job | None = None, **settings: Any) -> TrainingObject:
    """Return the training job of a job, with its request; `settings` are fields of the `eks` section."""
    wanted, identity = job or eks_job(), names.parse_training_job("traingrid", NAME)
    assert identity
    role = names.execution_role_arn("traingrid", ACCOUNT, REGION)
    tags = tags_of("traingrid", "0123abcd", 0, fingerprint(training_job_request(NAME, wanted, role, {})))
    request = training_job_request(NAME, wanted, role, tags)
    return TrainingObject(
        grid="traingrid",
        name=NAME,
        identity=identity,
        job=wanted,
        region=REGION,
        cluster=EksCluster.model_validate({"cluster": "research", **settings}),
        cluster_arn=CLUSTER_ARN,
        auto_mode=False,
        request=request,
        fingerprint=fingerprint(request),
        tags={**wanted.tags, **tags},
        pod_image=POD_IMAGE,
    )


def at(second: int) -> str:
    """Return a time as Kubernetes writes it."""
    return f"2026-11-25T12:{second // 60:02d}:{second % 60:02d}Z"


def found(*pods: dict[str, Any], mpi: bool = False, hosts: int = 1, **more: Any) -> ClusterJob:
    """Return a training job.

    Args:
        pods: Its pods.
        mpi: Whether it is an MPIJob.
        hosts: The number of its hosts.
        more: `conditions`, `deleted` (a time), `annotations`, `suspend`, `events` and `status` (more fields of it).
    """
    wanted = training_object(eks_job(instance_count=hosts))
    made = mpi_job(wanted) if mpi else indexed_job(wanted)
    made["metadata"] |= {"uid": "uid-1", "creationTimestamp": at(0), "resourceVersion": "7"}
    made["metadata"]["annotations"] |= more.get("annotations", {})
    if "deleted" in more:
        made["metadata"]["deletionTimestamp"] = more["deleted"]
    if more.get("suspend"):
        made["spec"] |= {"runPolicy": {"suspend": True}} if mpi else {"suspend": True}
    conditions = [{"status": "True", **condition} for condition in more.get("conditions", ())]
    made["status"] = {"conditions": conditions, "startTime": at(1), **more.get("status", {})}
    return ClusterJob(
        kind=MPI_JOB if mpi else JOB,
        object=made,
        pods=[Pod(pod) for pod in pods],
        events=more.get("events", ()),
        cluster_arn=CLUSTER_ARN,
    )


def pod(index: int = 0, phase: str = "Running", **status: Any) -> dict[str, Any]:
    """Return the pod of a host of an Indexed Job.

    Args:
        index: Its index.
        phase: Its phase.
        status: `prepare`, `results` and `train`: states of containers; `deleted`: the end of its grace period, and
            `grace`: its seconds; `limit`: its activeDeadlineSeconds; other fields of its status.
    """
    states = {name: status.pop(name) for name in ("prepare", "results", "train") if name in status}
    metadata: dict[str, Any] = {
        "name": f"{NAME}-{index}",
        "uid": f"uid-of-pod-{index}",
        "labels": {CONTROLLER_UID: "uid-1", "batch.kubernetes.io/job-completion-index": str(index)},
    }
    if "deleted" in status:
        metadata |= {"deletionTimestamp": status.pop("deleted"), "deletionGracePeriodSeconds": status.pop("grace", 0)}
    required = {"imageID": "", "ready": False, "restartCount": 0, "containerID": f"containerd://{index}"}
    named = {name: {"name": name, "image": f"{name}:1", "state": state, **required} for name, state in states.items()}
    containers = {
        "initContainerStatuses": [named[name] for name in ("prepare", "results") if name in named],
        "containerStatuses": [named["train"]] if "train" in named else [],
    }
    spec: dict[str, Any] = {"hostname": f"{NAME}-{index}"}
    if status.pop("scheduled", True):
        spec["nodeName"] = "node-1"
    if "limit" in status:
        spec["activeDeadlineSeconds"] = status.pop("limit")
    return {"metadata": metadata, "spec": spec, "status": {"phase": phase, **containers, "startTime": at(10), **status}}


def running(second: int = 20) -> dict[str, Any]:
    """Return the state of a running container."""
    return {"running": {"startedAt": at(second)}}


def terminated(
    code: int = 0, *, since: int = 20, until: int = 50, message: str = "", reason: str = ""
) -> dict[str, Any]:
    """Return the state of an ended container."""
    how = reason or ("Error" if code else "Completed")
    times = {"startedAt": at(since), "finishedAt": at(until)}
    return {"terminated": {"exitCode": code, "reason": how, **times, **({"message": message} if message else {})}}
