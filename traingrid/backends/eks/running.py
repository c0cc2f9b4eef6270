"""Running: the phase of a training job that has not ended, in SageMaker's terms, and the reason if it waits."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.backends.eks import labels
from traingrid.backends.eks.left_running import PATIENCE_SECONDS
from traingrid.backends.eks.start_wait import start_wait
from traingrid.backends.eks.unscheduled import wait_reason
from traingrid.job.observed import QUEUED, UPLOADING

if TYPE_CHECKING:
    from traingrid.backends.eks.cluster_job import ClusterJob
    from traingrid.backends.eks.pods import Pod

_NOT_CREATED = ("FailedCreate", "MPIJobFailed")
"""The reasons of events about pods that cannot be created: of the Job controller, and of the MPI operator."""
_OVERDUE_SECONDS = 600.0
"""The time after which a pod that should have ended is one of a node that does not report any more."""
_OUT_OF_SERVICE = "node.kubernetes.io/out-of-service=nodeshutdown:NoExecute"
"""The taint by which a person states that a node is shut down, so that the cluster removes its pods
(https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#non-graceful-node-shutdown)."""


def phase_of(cluster_job: ClusterJob, now: float) -> tuple[str, str]:
    """Return the phase, and the reason if it waits; else an empty text.

    Args:
        cluster_job: A training job that is neither deleted nor has ended.
        now: The present time, in seconds since 1970.
    """
    if cluster_job.is_suspended:
        queue = (cluster_job.object["metadata"].get("labels") or {}).get(labels.QUEUE, "")
        cause = f"in the queue {queue} of Kueue" if queue else "because its object is suspended"
        reason = f"It waits {cause}. `kubectl get workloads -n {cluster_job.namespace}` shows its place."
        return QUEUED, reason
    if not cluster_job.pods:
        return _reason_without_pods(cluster_job)
    pods = cluster_job.pods
    if waiting := cluster_job.unscheduled:
        return "Pending", wait_reason(cluster_job, waiting)
    if wait := start_wait(cluster_job):
        phase = "Starting" if wait.has_failed else _phase(pods, cluster_job.hosts)
        return phase, wait.sentence(cluster_job.namespace, now)
    return _phase(pods, cluster_job.hosts), _left_running_reason(cluster_job)


def overdue_reason(cluster_job: ClusterJob, now: float) -> str:
    """Return why a training job lasts longer than its `max_runtime`; empty if it does not.

    The cluster keeps a pod whose kubelet is silent, because its containers may still run; and so does the line.

    Args:
        now: The present time, in seconds since 1970.
    """
    for pod in cluster_job.pods_left:
        if pod.ends_by is not None and now >= pod.ends_by + _OVERDUE_SECONDS:
            reason = f"Its max_runtime is over, but the node {pod.node} does not report the end of the pod {pod.name}."
            taint = f"`kubectl taint nodes {pod.node} {_OUT_OF_SERVICE}`"
            ways = f"`kubectl delete node {pod.node}`, or {taint}"
            return f"{reason} If its instance is gone, or after you have terminated it, run {ways}."
    return ""


def _phase(pods: list[Pod], hosts: int) -> str:
    """Return SageMaker's SecondaryStatus of hosts that all have nodes."""
    if len(pods) < hosts or not all(pod.is_preparing or pod.has_ended for pod in pods):
        return "Starting"
    if not all(pod.is_training or pod.has_ended for pod in pods):
        return "Downloading"
    return UPLOADING if all(pod.has_trained or pod.has_ended for pod in pods) else "Training"


def _left_running_reason(cluster_job: ClusterJob) -> str:
    """Return why a pod does not end after its training, if a container that is not ours keeps it; else empty."""
    for pod in cluster_job.pods_left:
        if name := pod.left_running:
            reason = f"The training has ended, but the container {name}, which is not of traingrid, keeps {pod.name}"
            limit = f"running, at most until {PATIENCE_SECONDS:.0f} seconds after the training of all hosts"
            return f"{reason} {limit}. Let the program that adds it exclude the namespace {cluster_job.namespace}."
    return ""


def _reason_without_pods(cluster_job: ClusterJob) -> tuple[str, str]:
    warned = [event for event in cluster_job.events if event.get("reason") in _NOT_CREATED]
    if not warned:
        return "Starting", ""
    message = str(warned[-1].get("message", "")).rstrip(".")
    if "exceeded quota" in message:
        command = f"`kubectl describe resourcequota -n {cluster_job.namespace}` shows it."
        return "Pending", f"The quota of the namespace is used up: {message}. {command}"
    command = f"`kubectl describe {cluster_job.kind.plural} {cluster_job.name} -n {cluster_job.namespace}` shows more."
    return "Starting", f"Its pods cannot be created: {message}. {command}"
