"""Node: the states and failure classes of training jobs whose pods were evicted, or lost with their node."""

import pytest

from tests.support.eks_jobs import NAME, at, found, pod, terminated
from tests.unit.backends.eks.pods import (
    CONTAINER_FULL,
    DISK_FULL,
    FAILED,
    VOLUME_FULL,
    End,
    check_end,
    evicted,
    failed,
    worker,
)

LOW = "The node was low on resource: memory"
"""The kubelet's message of a node-pressure eviction (nodeLowMessageFmt in pkg/kubelet/eviction/helpers.go)."""

ENDS: dict[str, End] = {
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
}


@pytest.mark.parametrize("end", ENDS.values(), ids=list(ENDS))
def test_the_reason_of_the_lost_pod_decides(end: End) -> None:
    check_end(end)
