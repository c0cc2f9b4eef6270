"""State: the table from an object and its pods to SageMaker's states and reasons, and to failure classes."""

import json
from datetime import datetime
from typing import Any

import pytest

from tests.support.eks_jobs import CLUSTER_ARN, NAME, at, found, pod, running, terminated, training_object
from traingrid.backends.eks.cluster_job import ClusterJob
from traingrid.backends.eks.pods import seconds_of
from traingrid.backends.eks.state import describe_cluster_job, tags_in
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


def worker(made: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    """Return the first worker of an MPIJob; `made` is another pod of it."""
    made = made or pod(1, "Failed", **PREPARED, **more)
    made["metadata"]["name"] = made["spec"]["hostname"] = f"{NAME}-worker-0"
    return made


def disrupted(second: int) -> list[dict[str, Any]]:
    reason = {"reason": "EvictionByEvictionAPI", "message": "Eviction API: evicting"}
    return [{"type": "DisruptionTarget", "status": "True", "lastTransitionTime": at(second), **reason}]


def refused(reasons: str, preemption: str) -> dict[str, Any]:
    """Return a pod that the scheduler has refused on two nodes, with its whole message."""
    total = "0/2 nodes are available"
    return unscheduled(f"{total}: {reasons}. no new claims to deallocate, preemption: {total}: {preemption}.")


def with_proxy(made: dict[str, Any], state: dict[str, Any] | None = None, phase: str = "") -> dict[str, Any]:
    """Return a pod to which a webhook has added a container that runs, or has another state."""
    made["status"].setdefault("containerStatuses", []).append({"name": "istio-proxy", "state": state or running()})
    made["status"]["phase"] = phase or made["status"]["phase"]
    return made


RUNNING: dict[str, tuple[ClusterJob, str, str]] = {
    "created just now": (found(), "Starting", ""),
    "suspended by Kueue": (found(suspend=True), "Queued", "It waits because its object is suspended"),
    "suspended MPIJob": (found(mpi=True, suspend=True), "Queued", ""),
    "preempted by Kueue": (found(pod(deleted=at(30)), suspend=True), "Queued", ""),
    "no node": (
        found(unscheduled("0/3 nodes are available")),
        "Pending",
        "The pod has no node: 0/3 nodes are available. `",
    ),
    "no node of this size": (
        found(refused("2 Insufficient ephemeral-storage", "2 Preemption is not helpful for scheduling")),
        "Pending",
        "The pod has no node: 0/2 nodes are available: 2 Insufficient ephemeral-storage. No node of the cluster can",
    ),
    "one node is full": (
        found(
            refused(
                "2 Insufficient cpu",
                "1 No preemption victims found for incoming pod, 1 Preemption is not helpful for scheduling",
            )
        ),
        "Pending",
        "The pod has no node: 0/2 nodes are available: 2 Insufficient cpu. `",
    ),
    "both nodes are full": (
        found(refused("2 Insufficient cpu", "2 No preemption victims found for incoming pod")),
        "Pending",
        "The pod has no node: 0/2 nodes are available: 2 Insufficient cpu. `",
    ),
    "namespace quota": (
        found(events=[{"reason": "FailedCreate", "message": "pods x is forbidden: exceeded quota: q"}]),
        "Pending",
        "The quota of the namespace is used up",
    ),
    "denied pods": (
        found(events=[{"reason": "FailedCreate", "message": "denied by a webhook"}]),
        "Starting",
        "Its pods cannot be created: denied by a webhook",
    ),
    "one of two hosts": (found(pod(), hosts=2), "Starting", ""),
    "second host unscheduled": (
        found(pod(prepare=running()), unscheduled(), hosts=2),
        "Pending",
        "The pod has no node: the scheduler has not chosen one yet. `",
    ),
    "image of the shim": (
        found(pod(phase="Pending", prepare=waiting("ErrImagePull", "not found"))),
        "Starting",
        "The image cannot be pulled: prepare:1: not found",
    ),
    "training image": (
        found(pod(phase="Pending", **PREPARED, train=waiting("ImagePullBackOff", "back-off"))),
        "Starting",
        "The image cannot be pulled: train:1: back-off",
    ),
    "missing secret": (
        found(pod(phase="Pending", **PREPARED, train=waiting("CreateContainerConfigError", 'secret "x" not found'))),
        "Starting",
        'The container train cannot be started (CreateContainerConfigError): secret "x" not found. The training job',
    ),
    "unknown reason": (
        found(pod(phase="Pending", prepare=waiting("NewReason"))),
        "Starting",
        "The container prepare cannot be started (NewReason): NewReason. The training job",
    ),
    "sidecar is started again": (
        found(pod(**PREPARED, train=running(), results=waiting("CrashLoopBackOff", "back-off"))),
        "Training",
        "",
    ),
    "a proxy runs on": (
        found(with_proxy(pod(**PREPARED, train=terminated(), results=running()))),
        "Uploading",
        "The training has ended, but the container istio-proxy, which is not of traingrid, keeps ",
    ),
    "a proxy beside the training": (
        found(with_proxy(pod(**PREPARED, train=running(), results=running()))),
        "Training",
        "",
    ),
    "containers are created": (found(pod(prepare=waiting("ContainerCreating"))), "Starting", ""),
    "downloads": (found(pod(prepare=running())), "Downloading", ""),
    "one host downloads": (
        found(pod(prepare=running()), pod(1, **PREPARED, train=running()), hosts=2),
        "Downloading",
        "",
    ),
    "pulls the training image": (found(pod(**PREPARED, train=waiting("PodInitializing"))), "Downloading", ""),
    "trains": (found(pod(**PREPARED, train=running())), "Training", ""),
    "one host has ended": (
        found(pod(**PREPARED, train=running()), pod(1, **PREPARED, train=terminated()), hosts=2),
        "Training",
        "",
    ),
    "uploads": (found(pod(**PREPARED, train=terminated(), results=running())), "Uploading", ""),
    "complete, but a pod is left": (found(pod(**PREPARED), conditions=COMPLETE), "Uploading", ""),
    "failed, but a pod is left": (found(failed(), pod(1), conditions=FAILED, hosts=2), "Uploading", ""),
}


@pytest.mark.parametrize(("one", "phase", "reason"), RUNNING.values(), ids=list(RUNNING))
def test_a_training_job_that_has_not_ended(one: ClusterJob, phase: str, reason: str) -> None:
    seen = describe_cluster_job(one, seconds_of(at(40)))
    assert (seen.state, seen.phase) == ("InProgress", phase)
    assert seen.reason.startswith(reason)
    assert bool(seen.reason) is (bool(reason) or phase == "Queued")
    assert failure_of_end(seen) is None
    assert seen.facts().get("reason", "") == seen.reason


LOW = "The node was low on resource: memory"
"""The kubelet's message of a node-pressure eviction (nodeLowMessageFmt in pkg/kubelet/eviction/helpers.go)."""

ENDED: dict[str, tuple[ClusterJob, str, str, str]] = {
    "completed": (found(SUCCEEDED, conditions=COMPLETE), "Completed", "", ""),
    "MPIJob succeeded": (found(mpi=True, conditions=[{"type": "Succeeded"}]), "Completed", "", ""),
    "completed before a deletion": (found(SUCCEEDED, conditions=COMPLETE, deleted=at(70)), "Completed", "", ""),
    "a proxy failed after the training": (
        found(with_proxy(succeeded(), terminated(1, until=54), "Failed"), conditions=FAILED),
        "Completed",
        "",
        "",
    ),
    "a proxy of one host failed after the training": (
        found(with_proxy(succeeded(), terminated(1, until=54), "Failed"), failed(1, 3), conditions=FAILED, hosts=2),
        "Failed",
        "algorithm",
        "AlgorithmError: exit code: 3",
    ),
    "a command of the program is not in the image": (
        found(failed(code=127, text="train.sh: torchrunn: not found"), conditions=FAILED),
        "Failed",
        "command",
        "AlgorithmError: train.sh: torchrunn: not found, exit code: 127",
    ),
    "a proxy failed, and its pod was evicted": (
        found(with_proxy(succeeded(reason="Evicted"), terminated(1, until=54), "Failed"), conditions=FAILED),
        "Failed",
        "lost_node",
        "",
    ),
    "evicted, and ended without an error": (
        found(succeeded(conditions=disrupted(45), deleted=at(945), grace=900), conditions=COMPLETE),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: EvictionByEvictionAPI: Eviction API: evicting. Its",
    ),
    "evicted in the second of its end": (
        found(succeeded(conditions=disrupted(50)), conditions=COMPLETE),
        "Failed",
        "lost_node",
        "",
    ),
    "evicted while it uploaded": (
        found(succeeded(conditions=disrupted(51), deleted=at(951), grace=900), conditions=COMPLETE),
        "Completed",
        "",
        "",
    ),
    "deleted pod that ended without an error": (
        found(succeeded(deleted=at(940), grace=900), conditions=COMPLETE),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: it was deleted. Its program",
    ),
    "worker that the operator has deleted": (
        found(
            succeeded(), worker(deleted=at(52), train=terminated(143, until=53)), mpi=True, hosts=2, conditions=SUCCESS
        ),
        "Completed",
        "",
        "",
    ),
    "deleted pod that ended with an error": (
        found(failed(code=143, deleted=at(940), grace=900), conditions=FAILED),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was deleted while it trained.",
    ),
    "deleted after its error": (
        found(failed(code=1, text="own", deleted=at(960), grace=900), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: own, exit code: 1",
    ),
    "evicted worker": (
        found(succeeded(), worker(conditions=disrupted(40), train=terminated()), mpi=True, hosts=2, conditions=SUCCESS),
        "Failed",
        "lost_node",
        "",
    ),
    "noted disruption": (
        found(conditions=COMPLETE, annotations={"traingrid/disrupted": "The pod x was ended"}),
        "Failed",
        "lost_node",
        "The pod x was ended. Its program then ended without an error, perhaps too early.",
    ),
    "ended before a deletion that came before the condition": (
        found(succeeded(), conditions=COMPLETE, deleted=at(58)),
        "Completed",
        "",
        "",
    ),
    "ended by a deletion, and counted": (
        found(succeeded(deleted=at(940), grace=900), conditions=COMPLETE, deleted=at(40)),
        "Stopped",
        "stopped_by_user",
        f"The Job {NAME} was deleted in the cluster, but not by traingrid.",
    ),
    "ended by itself after a person's deletion": (found(succeeded(), deleted=at(40)), "Completed", "", ""),
    "ended before the deletion, and not counted": (
        found(succeeded(), deleted=at(51), annotations={"traingrid/stopped-for": "cancel"}),
        "Completed",
        "",
        "",
    ),
    "one of two ended by itself": (
        found(succeeded(), succeeded(1, deleted=at(940), grace=900), deleted=at(40), hosts=2),
        "Stopped",
        "stopped_by_user",
        f"The Job {NAME} was deleted in the cluster",
    ),
    "one of two is gone": (found(succeeded(), deleted=at(51), hosts=2), "Stopped", "stopped_by_user", "The Job"),
    "failed by itself after a person's deletion": (
        found(failed(text="own"), deleted=at(40)),
        "Failed",
        "algorithm",
        "AlgorithmError: own",
    ),
    "stopped by the deletion": (
        found(failed(code=143, deleted=at(940), grace=900), deleted=at(40)),
        "Stopped",
        "stopped_by_user",
        f"The Job {NAME} was deleted in the cluster",
    ),
    "evicted after a person's deletion": (
        found(failed(code=143, conditions=disrupted(45)), deleted=at(40)),
        "Stopped",
        "stopped_by_user",
        f"The Job {NAME} was deleted in the cluster",
    ),
    "failed after a cancel": (
        found(failed(code=143), deleted=at(40), annotations={"traingrid/stopped-for": "cancel"}),
        "Stopped",
        "stopped_by_user",
        "",
    ),
    "upload failed": (
        found(
            pod(
                phase="Succeeded",
                train=terminated(),
                results=terminated(1, message='{"error": "ClientError: Artifact upload failed:x"}'),
            ),
            conditions=COMPLETE,
        ),
        "Failed",
        "data",
        "ClientError: Artifact upload failed:x",
    ),
    "upload killed": (
        found(
            pod(phase="Succeeded", train=terminated(), results=terminated(137, reason="OOMKilled")), conditions=COMPLETE
        ),
        "Failed",
        "memory",
        "ClientError: The artifact upload failed: Out of memory on host 1 (OOMKilled), exit code: 137. Choose an ",
    ),
    "upload killed, but not for memory": (
        found(pod(phase="Succeeded", train=terminated(), results=terminated(137)), conditions=COMPLETE),
        "Failed",
        "internal_error",
        "InternalServerError: The artifact upload failed: it ended with exit code 137",
    ),
    "download killed": (
        found(
            pod(phase="Failed", prepare=terminated(137, message="downloads x", reason="OOMKilled")), conditions=FAILED
        ),
        "Failed",
        "memory",
        "ClientError: The preparation of host 1 failed: Out of memory on host 1 (OOMKilled), exit code: 137. ",
    ),
    "training failed": (
        found(failed(text="ValueError: no"), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: ValueError: no, exit code: 1",
    ),
    "training failed without a text": (
        found(failed(code=3), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: exit code: 3",
    ),
    "out of memory": (
        found(failed(code=137, reason="OOMKilled"), conditions=FAILED),
        "Failed",
        "memory",
        "ClientError: Out of memory on host 1 (OOMKilled), exit code: 137. Choose an instance_type with more memory",
    ),
    "out of memory, with a text": (
        found(failed(code=137, reason="OOMKilled", text="died"), conditions=FAILED),
        "Failed",
        "memory",
        "ClientError: Out of memory on host 1 (OOMKilled), exit code: 137: died. Choose an instance_type with more ",
    ),
    "killed, but not for memory": (
        found(failed(code=137), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: exit code: 137",
    ),
    "image cannot be started": (
        found(failed(code=128, reason="StartError"), conditions=FAILED),
        "Failed",
        "image",
        "ClientError: CannotStartContainerError",
    ),
    "the first failure counts": (
        found(failed(0, 1, "second", until=40), failed(1, 2, "first", until=30), conditions=FAILED, hosts=2),
        "Failed",
        "algorithm",
        "AlgorithmError: first, exit code: 2",
    ),
    "a pod that the controller stopped does not count": (
        found(failed(0, 143, "", until=30, deleted=at(29)), failed(1, 2, "own", until=31), conditions=FAILED, hosts=2),
        "Failed",
        "algorithm",
        "AlgorithmError: own",
    ),
    "preparation failed": (
        found(
            pod(phase="Failed", prepare=terminated(1, message="log\nClientError: Data download failed:NoSuchKey")),
            conditions=FAILED,
        ),
        "Failed",
        "data",
        "ClientError: Data download failed:NoSuchKey",
    ),
    "preparation killed": (
        found(pod(phase="Failed", prepare=terminated(137)), conditions=FAILED),
        "Failed",
        "internal_error",
        "InternalServerError: The preparation of host 1 failed",
    ),
    "maximum runtime": (
        found(pod(phase="Failed", reason="DeadlineExceeded", train=terminated(143)), conditions=FAILED),
        "Stopped",
        "max_runtime",
        "",
    ),
    "uploaded after the deadline": (found(late(), conditions=FAILED), "Completed", "", ""),
    "one of two uploaded after the deadline": (
        found(late(), succeeded(1), conditions=FAILED, hosts=2),
        "Completed",
        "",
        "",
    ),
    "failed to upload after the deadline": (
        found(late(error="ClientError: Artifact upload failed:x"), conditions=FAILED),
        "Failed",
        "data",
        "ClientError: Artifact upload failed:x",
    ),
    "ended in the second of the deadline": (found(late(limit=40), conditions=FAILED), "Stopped", "max_runtime", ""),
    "uploaded after the deadline, and another host trained until it was deleted for that": (
        found(late(), failed(1, 143, until=57, deleted=at(956), grace=900), conditions=FAILED, hosts=2),
        "Stopped",
        "max_runtime",
        "",
    ),
    "uploaded after the deadline, and another host is gone": (
        found(late(), conditions=FAILED, hosts=2),
        "Stopped",
        "max_runtime",
        "",
    ),
    "uploaded after the deadline, and another host failed": (
        found(late(), failed(1, 2, "own", until=51), conditions=FAILED, hosts=2),
        "Failed",
        "algorithm",
        "AlgorithmError: own, exit code: 2",
    ),
    "failed before the deadline, and uploaded after it": (
        found(late(train=terminated(3)), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: exit code: 3",
    ),
    "preparation failed just before the deadline": (
        found(
            pod(
                phase="Failed",
                prepare=terminated(1, until=51, message="ClientError: Data download failed:NoSuchKey"),
                reason="DeadlineExceeded",
                limit=42,
            ),
            conditions=FAILED,
        ),
        "Failed",
        "data",
        "ClientError: Data download failed:NoSuchKey",
    ),
    "evicted before the deadline, and ended after it": (
        found(late(train=terminated(143, until=54), conditions=disrupted(45)), conditions=FAILED),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: EvictionByEvictionAPI",
    ),
    "evicted while it uploaded, and ended after the deadline": (
        found(late(conditions=disrupted(51), deleted=at(951), grace=900), conditions=FAILED),
        "Completed",
        "",
        "",
    ),
    "exceeded its runtime before it was evicted": (
        found(late(train=terminated(143, until=54), conditions=disrupted(53)), conditions=FAILED),
        "Stopped",
        "max_runtime",
        "",
    ),
    "launcher uploaded after the deadline, and the operator has deleted the worker": (
        found(
            late(),
            worker(deleted=at(956), grace=900, train=terminated(143, until=57)),
            mpi=True,
            hosts=2,
            conditions=FAILED,
        ),
        "Completed",
        "",
        "",
    ),
    "worker uploaded after the deadline, and the launcher failed": (
        found(failed(code=2, text="own"), worker(late(1)), mpi=True, hosts=2, conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: own, exit code: 2",
    ),
    "worker uploaded after the deadline, and the launcher is gone": (
        found(worker(late(1)), mpi=True, hosts=2, conditions=FAILED),
        "Failed",
        "lost_node",
        "A pod was deleted or lost with its node",
    ),
    "uploaded after the deadline, and then deleted by a person": (
        found(late(), deleted=at(56)),
        "Completed",
        "",
        "",
    ),
    "drained node": (
        found(
            pod(
                phase="Failed",
                train=terminated(143),
                conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI"}],
            ),
            conditions=FAILED,
        ),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: EvictionByEvictionAPI",
    ),
    "volume was full": (
        found(evicted(f"{VOLUME_FULL} "), conditions=FAILED),
        "Failed",
        "data",
        f"{DISK_FULL} 1: {VOLUME_FULL} Set a higher volume_gb.",
    ),
    "container used too much of the disk": (
        found(
            evicted(f"{CONTAINER_FULL} ", train=terminated(137)),
            conditions=FAILED,
        ),
        "Failed",
        "data",
        f"{DISK_FULL} 1: {CONTAINER_FULL} Set a higher limit of ephemeral-storage in the LimitRange of the namespace",
    ),
    "pod used too much of the disk": (
        found(
            evicted("Pod ephemeral local storage usage exceeds the total limit of containers 1Gi. "), conditions=FAILED
        ),
        "Failed",
        "data",
        f"{DISK_FULL} 1: Pod ephemeral local storage usage exceeds the total limit",
    ),
    "node ran out of disk": (
        found(
            evicted(
                "The node was low on resource: ephemeral-storage. Container train was using 9Gi, request is 1Gi, "
                "which exceeds its limit. ",
                conditions=[{"type": "DisruptionTarget", "status": "True", "reason": "TerminationByKubelet"}],
            ),
            conditions=FAILED,
        ),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: TerminationByKubelet",
    ),
    "node without disk refused the pod": (
        found(
            pod(
                phase="Failed",
                reason="Evicted",
                message="Pod was rejected: The node had condition: [DiskPressure]. ",
            ),
            conditions=FAILED,
        ),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: Evicted: Pod was rejected",
    ),
    "worker had a full volume": (
        found(
            failed(code=1, text="lost a peer", until=52),
            worker(evicted(f"{VOLUME_FULL} ", index=1)),
            mpi=True,
            hosts=2,
            conditions=FAILED,
        ),
        "Failed",
        "data",
        f"{DISK_FULL} 2: {VOLUME_FULL}",
    ),
    "evicted by the kubelet": (
        found(pod(phase="Failed", reason="Evicted", message="low on memory"), conditions=FAILED),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: Evicted: low on memory",
    ),
    "evicted from a node without memory": (
        found(pod(phase="Failed", reason="Evicted", message=f"{LOW}. Container train used 9Gi."), conditions=FAILED),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was ended by the cluster: Evicted: {LOW}. Container train used 9Gi. Choose an ",
    ),
    "drained node whose pod is gone": (
        found(
            conditions=[{**FAILED[0], "reason": "PodFailurePolicy", "message": "Pod has condition DisruptionTarget"}]
        ),
        "Failed",
        "lost_node",
        "The cluster ended a pod: Pod has condition DisruptionTarget",
    ),
    "pod was deleted while it trained, and its kubelet has deleted it again": (
        found(failed(code=143, deleted=at(52)), conditions=FAILED),
        "Failed",
        "lost_node",
        f"The pod {NAME}-0 of host 1 was deleted while it trained.",
    ),
    "failed by itself, then was deleted": (
        found(failed(text="own", deleted=at(52)), conditions=FAILED),
        "Failed",
        "algorithm",
        "AlgorithmError: own",
    ),
    "ran out of memory, then was deleted": (
        found(
            pod(phase="Failed", train=terminated(137, reason="OOMKilled"), deleted=at(52)),
            conditions=FAILED,
        ),
        "Failed",
        "memory",
        "ClientError: Out of memory on host 1 (OOMKilled), exit code: 137. Choose an instance_type with more memory",
    ),
    "pod deleted by a person": (
        found(conditions=FAILED),
        "Failed",
        "lost_node",
        "A pod was deleted or lost with its node",
    ),
    "cancelled": (
        found(deleted=at(40), annotations={"traingrid/stopped-for": "cancel"}),
        "Stopped",
        "stopped_by_user",
        "",
    ),
    "cancelled, and its pod failed because of it": (
        found(failed(code=143), deleted=at(40), conditions=FAILED, annotations={"traingrid/stopped-for": "cancel"}),
        "Stopped",
        "stopped_by_user",
        "",
    ),
    "deleted by a person": (
        found(deleted=at(40)),
        "Stopped",
        "stopped_by_user",
        f"The Job {NAME} was deleted in the cluster, but not by traingrid.",
    ),
    "failed before it was deleted": (
        found(failed(text="own"), conditions=FAILED, deleted=at(90)),
        "Failed",
        "algorithm",
        "AlgorithmError: own",
    ),
    "waited too long for capacity": (
        found(deleted=at(40), annotations={"traingrid/stopped-for": "capacity"}),
        "Stopped",
        "capacity",
        "It was stopped after its capacity_wait.",
    ),
    "waited too long for capacity, with the reason of the wait": (
        found(
            deleted=at(40),
            annotations={"traingrid/stopped-for": "capacity", "traingrid/stopped-because": "It waits in a queue."},
        ),
        "Stopped",
        "capacity",
        "It was stopped after its capacity_wait. Until then: It waits in a queue.",
    ),
    "stopped for its deadline": (
        found(deleted=at(40), annotations={"traingrid/stopped-for": "deadline"}),
        "Stopped",
        "stopped_by_user",
        "",
    ),
    "failed by itself before it was stopped for its deadline": (
        found(
            failed(text="own"), conditions=FAILED, deleted=at(400), annotations={"traingrid/stopped-for": "deadline"}
        ),
        "Failed",
        "algorithm",
        "AlgorithmError: own",
    ),
    "image was never pulled": (
        found(
            deleted=at(40),
            annotations={"traingrid/stopped-for": "image", "traingrid/stopped-because": "ClientError: x: not found"},
        ),
        "Failed",
        "image",
        "ClientError: x: not found",
    ),
}


@pytest.mark.parametrize(("one", "state", "failure", "reason"), ENDED.values(), ids=list(ENDED))
def test_an_ended_training_job(one: ClusterJob, state: str, failure: str, reason: str) -> None:
    seen = describe_cluster_job(one)
    assert seen.has_ended
    assert seen.state == state
    assert seen.reason.startswith(reason)
    ended = failure_of_end(seen)
    assert (ended.name if ended else "") == failure


def test_a_deleted_training_job_is_stopping_until_its_pods_are_gone() -> None:
    seen = describe_cluster_job(found(pod(), deleted=at(40)))
    assert (seen.state, seen.phase) == ("Stopping", "Stopping")


def test_a_stopped_training_job_whose_pods_are_gone_has_trained_since_its_start() -> None:
    started = {"traingrid/started-at": at(10), "traingrid/stopped-for": "cancel"}
    seen = describe_cluster_job(found(deleted=at(40), annotations=started))
    assert (seen.state, seen.training_seconds, seen.billable_seconds) == ("Stopped", 30, 30)


def test_the_facts_of_a_completed_training_job_come_from_its_pods() -> None:
    seen = describe_cluster_job(found(SUCCEEDED, conditions=COMPLETE))
    assert seen.artifact == "s3://out/model.tar.gz"
    assert (seen.training_seconds, seen.billable_seconds) == (30, 45)
    assert seen.arn == f"{CLUSTER_ARN}/traingrid/jobs/{NAME}/uid-1"


@pytest.mark.parametrize(("until", "state"), [(50, "Completed"), (54, "Stopped")], ids=["in time", "overtime"])
def test_a_model_that_was_uploaded_after_the_deadline_is_kept(until: int, state: str) -> None:
    seen = describe_cluster_job(found(late(train=terminated(until=until)), conditions=FAILED))
    assert (seen.state, seen.artifact) == (state, "s3://out/model.tar.gz")


@pytest.mark.parametrize("reason", ["cancel", "capacity", "deadline"])
def test_a_model_that_is_uploaded_during_a_stop_is_kept_whatever_it_was_stopped_for(reason: str) -> None:
    noted = {"traingrid/stopped-for": reason}
    seen = describe_cluster_job(found(late(), conditions=FAILED, deleted=at(400), annotations=noted))
    assert (seen.state, seen.failure, seen.artifact) == ("Completed", "", "s3://out/model.tar.gz")


def test_a_completed_training_job_whose_nodes_are_gone_has_a_model() -> None:
    seen = describe_cluster_job(found(conditions=COMPLETE))
    assert seen.artifact.endswith(f"/out/{NAME}/output/model.tar.gz")
    assert seen.billable_seconds == 59


def test_a_stopped_training_job_is_billed_from_the_noted_start() -> None:
    noted = {"traingrid/stopped-for": "cancel", "traingrid/started-at": at(10)}
    assert describe_cluster_job(found(deleted=at(40), annotations=noted)).billable_seconds == 30


def test_a_training_job_starts_when_its_last_host_has_a_node() -> None:
    assert describe_cluster_job(found(pod(startTime=at(10)), hosts=2)).started_at is None
    started = describe_cluster_job(found(pod(startTime=at(10)), pod(1, startTime=at(30)), hosts=2)).started_at
    assert started == describe_cluster_job(found(pod(startTime=at(30)))).started_at


@pytest.mark.parametrize("mpi", [False, True])
def test_tags_and_fingerprint_are_those_of_the_request_and_not_of_annotations(mpi: bool) -> None:
    changed = found(mpi=mpi, annotations={"traingrid/tags": "{}", "traingrid/fingerprint": "x"})
    assert tags_in(changed)["traingrid:submission"] == "0123abcd"
    assert describe_cluster_job(changed).fingerprint == training_object().fingerprint


@pytest.mark.parametrize("annotations", [{}, {"traingrid/request": "no JSON"}, {"traingrid/request": "[]"}])
def test_an_object_of_another_program_has_neither_tags_nor_a_fingerprint(annotations: dict[str, str]) -> None:
    foreign = found()
    foreign.object["spec"]["template"]["metadata"]["annotations"] = annotations
    assert (tags_in(foreign), describe_cluster_job(foreign).fingerprint) == ({}, "")


@pytest.mark.parametrize(
    ("late", "conditions", "shown"),
    [(3600 + 900 + 599, (), False), (3600 + 900 + 600, (), True), (3600 + 900 + 600, COMPLETE, True)],
)
def test_a_node_that_does_not_report_the_end_of_a_pod_is_named(late: int, conditions: Any, shown: bool) -> None:
    one = pod(**PREPARED, train=running())
    one["spec"] |= {"activeDeadlineSeconds": 3600, "terminationGracePeriodSeconds": 900}
    start = datetime.fromisoformat(at(10)).timestamp()
    seen = describe_cluster_job(found(one, conditions=conditions), now=start + late)
    assert seen.state == "InProgress"
    ways = "`kubectl delete node node-1`", "node-1 node.kubernetes.io/out-of-service=nodeshutdown:NoExecute`"
    assert [way in seen.reason for way in ways] == [shown] * 2
