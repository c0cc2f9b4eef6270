"""Left running: pods whose training has ended, but which the container of another program keeps running.

The kubelet ends a pod, and sends SIGTERM to `results`, when all containers have ended that are not sidecars of
Kubernetes (https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/). A webhook may have added one that
runs on, for example the proxy of a service mesh (https://github.com/kubeflow/trainer/issues/1681). So such a pod is
deleted: its containers get SIGTERM, then `results` uploads, within the grace period of the pod.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from traingrid.backends.eks.cluster_job import ClusterJob
    from traingrid.backends.eks.pods import Pod

PATIENCE_SECONDS = 60.0
"""The time after the training in which other containers may end by themselves."""


def left_running(cluster_job: ClusterJob, now: float) -> list[Pod]:
    """Return the pods that other containers keep running too long, once they decide the end of their training job.

    While other hosts train, only a pod whose training failed decides it: the end of another one could fail the Job.

    Args:
        now: The present time, in seconds since 1970.
    """
    if cluster_job.is_over:
        return []
    all_trained = len(cluster_job.pods) >= cluster_job.hosts and all(
        pod.has_trained or pod.has_ended for pod in cluster_job.pods
    )
    running_pods = [pod for pod in cluster_job.pods_left if pod.left_running and not pod.is_deleting]
    deciding_pods = [pod for pod in running_pods if all_trained or pod.exit_code]
    return [pod for pod in deciding_pods if pod.training and now - pod.training[1] >= PATIENCE_SECONDS]
