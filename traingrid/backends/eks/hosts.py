"""Hosts: the host names of a training job's pods, and the order of its hosts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.job.job import ObjectKind

_INDEX = "batch.kubernetes.io/job-completion-index"
_ROLE = "training.kubeflow.org/job-role"


def host_names(name: str, kind: ObjectKind, count: int) -> list[str]:
    """Return the names with which the hosts of a training job reach each other; the first one is the main host.

    They resolve through the search domain of a pod, because a headless Service with the training job's name selects
    the pods (https://kubernetes.io/docs/concepts/services-networking/dns-pod-service/#pod-s-hostname-and-subdomain-fields).
    The Job controller names the hosts of an Indexed Job `<job>-<index>`
    (https://kubernetes.io/docs/concepts/workloads/controllers/job/#completion-mode), and the MPI operator those of an
    MPIJob `<job>-launcher` and `<job>-worker-<index>` (newLauncherPodTemplate and newWorker in
    https://github.com/kubeflow/mpi-operator/blob/master/pkg/controller/mpi_job_controller.go).

    Args:
        name: The training job's name.
        kind: The kind of its object.
        count: The number of its hosts.
    """
    if kind == "job":
        return [f"{name}-{index}.{name}" for index in range(count)]
    return [f"{name}-launcher.{name}", *(f"{name}-worker-{index}.{name}" for index in range(count - 1))]


def host_index(pod: Mapping[str, Any]) -> int:
    """Return the place of a pod in `host_names`.

    The MPI operator names workers `<job>-worker-<index>`. Its label with the index also counts the launcher if that is
    a worker, depending on its version.
    """
    metadata = pod["metadata"]
    found = {**(metadata.get("annotations") or {}), **(metadata.get("labels") or {})}
    if _INDEX in found:
        return int(found[_INDEX])
    return int(metadata["name"].rpartition("-")[2]) + 1 if found.get(_ROLE) == "worker" else 0


def host_name(pod: Mapping[str, Any]) -> str:
    """Return SageMaker's name of the host that a pod is: algo-1, algo-2, ..."""
    return f"algo-{host_index(pod) + 1}"
