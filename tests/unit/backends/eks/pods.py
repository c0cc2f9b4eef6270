"""Pods of training jobs in the states that the tests of this folder need, and the check of an end."""

import json
from typing import Any

from tests.support.eks_jobs import NAME, at, pod, running, terminated
from traingrid.backends.eks.cluster_job import ClusterJob
from traingrid.backends.eks.state import describe_cluster_job
from traingrid.job.failures import failure_of_end

PREPARED: dict[str, Any] = {"prepare": terminated(until=15)}
UPLOADED = json.dumps({"artifact": "s3://out/model.tar.gz", "failure": "", "error": ""})
SUCCEEDED = pod(phase="Succeeded", **PREPARED, train=terminated(), results=terminated(until=55, message=UPLOADED))
SUCCESS = [{"type": "Succeeded", "lastTransitionTime": at(60)}]
COMPLETE = [{"type": "Complete", "lastTransitionTime": at(60)}]
FAILED = [{"type": "Failed", "lastTransitionTime": at(60), "reason": "BackoffLimitExceeded", "message": "too many"}]

DISK_FULL = "ClientError: Insufficient disk space on host"
VOLUME_FULL = 'Usage of EmptyDir volume "opt-ml" exceeds the limit "10Gi".'
CONTAINER_FULL = 'Container train exceeded its local ephemeral storage limit "1Gi".'


def unscheduled(message: str = "") -> dict[str, Any]:
    condition = {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": message}
    return pod(phase="Pending", scheduled=False, conditions=[condition], startTime=None)


def waiting(reason: str, message: str = "") -> dict[str, Any]:
    return {"waiting": {"reason": reason, "message": message}}


def failed(index: int = 0, code: int = 1, text: str = "", **more: Any) -> dict[str, Any]:
    """Return a pod whose training failed, with a failure text."""
    times = {name: more.pop(name) for name in ("until", "reason") if name in more}
    results = terminated(message=json.dumps({"artifact": "", "failure": text, "error": ""}), until=58)
    return pod(index, "Failed", **PREPARED, train=terminated(code, **times), results=results, **more)


def succeeded(index: int = 0, **more: Any) -> dict[str, Any]:
    """Return a pod whose training ended without an error in second 50."""
    results = terminated(until=55, message=UPLOADED)
    return pod(index, "Succeeded", **PREPARED, train=terminated(), results=results, **more)


def evicted(message: str, index: int = 0, **more: Any) -> dict[str, Any]:
    """Return a pod that the kubelet has evicted."""
    containers = {**PREPARED, "train": terminated(137, until=51), "results": terminated(137, until=52), **more}
    return pod(index, "Failed", reason="Evicted", message=message, **containers)


def late(index: int = 0, error: str = "", **more: Any) -> dict[str, Any]:
    """Return a pod whose training ended in second 50, before its deadline in second 52, and its upload after it."""
    text = json.dumps({"artifact": "" if error else "s3://out/model.tar.gz", "failure": "", "error": error})
    train, results = more.pop("train", terminated()), terminated(1 if error else 0, until=55, message=text)
    ended = {"reason": "DeadlineExceeded", "limit": 42, **more}
    return pod(index, "Failed", **PREPARED, train=train, results=results, **ended)


def worker(other: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return the first worker of an MPIJob; `other` is another pod of it."""
    other = other or pod(1, "Failed", **PREPARED, **more)
    other["metadata"]["name"] = other["spec"]["hostname"] = f"{NAME}-worker-0"
    return other


def disrupted(second: int) -> list[dict[str, Any]]:
    reason = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    return [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at(second), **reason}]


def refused(reasons: str, preemption: str) -> dict[str, Any]:
    """Return a pod that the scheduler has refused on two nodes, with its whole message."""
    total = "0/2 nodes are available"
    return unscheduled(f"{total}: {reasons}. no new claims to deallocate, preemption: {total}: {preemption}.")


def with_proxy(other: dict[str, Any], state: dict[str, Any] | None = None, phase: str = "") -> dict[str, Any]:
    """Return a pod to which a webhook has added a container that runs, or has another state."""
    other["status"].setdefault("containerStatuses", []).append({"name": "istio-proxy", "state": state or running()})
    other["status"]["phase"] = phase or other["status"]["phase"]
    return other


End = tuple[ClusterJob, str, str, str]
"""An ended training job, its state, its failure class, and the beginning of its reason."""


def check_end(end: End) -> None:
    """Check that the table gives a training job this end."""
    cluster_job, state, failure, reason = end
    description = describe_cluster_job(cluster_job)
    assert description.has_ended
    assert description.state == state
    assert description.reason.startswith(reason)
    ended = failure_of_end(description)
    assert (ended.name if ended else "") == failure
