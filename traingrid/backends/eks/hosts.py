"""Hosts: the host names of a training job's pods, and the order of its hosts."""

import re
from collections.abc import Mapping
from typing import Any

from traingrid.job.job import ObjectKind

_NUMBERED = re.compile(r".*?(?P<worker>-worker)?-(?P<index>\d+)")


def host_names(name: str, kind: ObjectKind, count: int) -> list[str]:
    """Return the names with which the hosts of a training job reach each other; the first one is the main host.

    They resolve through the search domain of a pod, because a headless Service with the training job's name selects
    the pods (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-hostname-and-subdomain-fields).
    The Job controller names the hosts of an Indexed Job `<job>-<index>`
    (https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode), and the MPI operator those of an
    MPIJob `<job>-launcher` and `<job>-worker-<index>` (newLauncherPodTemplate and newWorker in
    https://github.com/kubeflow/mpi-operator/blob/master/pkg/controller/mpi_job_controller.go).

    Args:
        count: The number of its hosts.
    """
    if kind == "job":
        return [f"{name}-{index}.{name}" for index in range(count)]
    return [f"{host}.{name}" for host in (launcher_name(name), *worker_names(name, count - 1))]


def launcher_name(name: str) -> str:
    """Return the name of the Job that the MPI operator creates for the launcher of an MPIJob."""
    return f"{name}-launcher"


def worker_names(name: str, count: int) -> list[str]:
    """Return the names of the pods that the MPI operator creates for the workers of an MPIJob."""
    return [f"{name}-worker-{index}" for index in range(count)]


def host_index(pod: Mapping[str, Any]) -> int:
    """Return the place of a pod in `host_names`, by its host name.

    The labels with a pod's index and role can change while it runs; `spec.hostname` cannot
    (https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement).
    """
    match = _NUMBERED.fullmatch(pod["spec"].get("hostname") or "")
    return int(match["index"]) + bool(match["worker"]) if match else 0


def host_name(pod: Mapping[str, Any]) -> str:
    """Return SageMaker's name of the host that a pod is: algo-1, algo-2, ..."""
    return f"algo-{host_index(pod) + 1}"
