"""Running: the phases of training jobs that have not ended, with the reason for which they wait."""

from datetime import datetime
from typing import Any

import pytest

from tests.support.eks_jobs import at, found, pod, running, terminated
from tests.unit.backends.eks.pods import (
    COMPLETE,
    FAILED,
    PREPARED,
    failed,
    refused,
    unscheduled,
    waiting,
    with_proxy,
)
from traingrid.backends.eks.cluster_job import ClusterJob
from traingrid.backends.eks.pods import seconds_of
from traingrid.backends.eks.state import describe_cluster_job
from traingrid.job.failures import failure_of_end

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


@pytest.mark.parametrize(("cluster_job", "phase", "reason"), RUNNING.values(), ids=list(RUNNING))
def test_a_training_job_that_has_not_ended(cluster_job: ClusterJob, phase: str, reason: str) -> None:
    seen = describe_cluster_job(cluster_job, seconds_of(at(40)))
    assert (seen.state, seen.phase) == ("InProgress", phase)
    assert seen.reason.startswith(reason)
    assert bool(seen.reason) is (bool(reason) or phase == "Queued")
    assert failure_of_end(seen) is None
    assert seen.facts().get("reason", "") == seen.reason


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
