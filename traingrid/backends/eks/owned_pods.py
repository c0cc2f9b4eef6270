"""Owned pods: the pods of a training job, by the uid of the object that controls them.

The labels of traingrid are no evidence, because a person can change those of a pod while it runs. The owner reference
of a pod has the uid of its controller (https://kubernetes.io/docs/concepts/overview/working-with-objects/owners-dependents/).
The Job controller also selects its pods by the label `batch.kubernetes.io/controller-uid`
(https://kubernetes.io/docs/reference/labels-annotations-taints/#batchkubernetesio-controller-uid). A pod that loses it
is released (ClaimPods in pkg/controller/controller_ref_manager.go of Kubernetes): it runs on without a controller, and
only the name in its `spec.subdomain` shows where it belongs, which cannot change
(https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement).

The MPI operator creates a Job for the pod of the launcher and the pods of workers itself, which it finds by their names
(getOrCreateWorker in https://github.com/kubeflow/mpi-operator/blob/master/pkg/controller/mpi_job_controller.go). So its
labels only save requests here.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from traingrid.backends.eks.hosts import launcher_name, worker_names
from traingrid.kubernetes.client import JOB, MPI_JOB, POD, Client, Kind, Object

CONTROLLER_UID = "batch.kubernetes.io/controller-uid"
"""The label of a Job's pods with the Job's uid, which is the selector of the Job."""
_OF_MPI_JOB = "training.kubeflow.org/job-name"
"""The label of an MPIJob's pods with the MPIJob's name (defaultLabels of the MPI operator)."""


def selector_of(kind: Kind, owner: Mapping[str, Any]) -> str:
    """Return the selector by which the controller of an object has labelled its pods."""
    metadata = owner["metadata"]
    return f"{_OF_MPI_JOB}={metadata['name']}" if kind is MPI_JOB else f"{CONTROLLER_UID}={metadata['uid']}"


def pods_of(client: Client, kind: Kind, owner: Object) -> list[Object]:
    """Return the pods of a training job's object.

    Raises:
        ApiError: The request was refused, or the cluster did not answer.
    """
    pods = [pod for pod in client.all(POD, labels=selector_of(kind, owner)) if _is_of(pod, owner)]
    if kind is MPI_JOB:
        pods += _pods_without_label(client, owner, {pod["metadata"]["name"] for pod in pods})
    return pods


class PodsByOwner:
    """All pods of a namespace, by the training job that they belong to.

    Args:
        jobs: The Jobs of the namespace, among them the Jobs of launchers.
    """

    def __init__(self, jobs: Iterable[Object], pods: Iterable[Object]) -> None:
        owners = {job["metadata"]["uid"]: _controller(job).get("uid", "") for job in jobs}
        self._pods: dict[str, list[Object]] = defaultdict(list)
        for pod in pods:
            controller = _controller(pod)
            name = pod["spec"].get("subdomain", "")
            is_of_launcher = name and controller.get("name") == launcher_name(name)
            uid = controller.get("uid", "")
            self._pods[owners.get(uid) or ("" if is_of_launcher else uid) or name].append(pod)

    def of(self, owner: Object) -> list[Object]:
        """Return the pods of an object, also those that have no controller any longer."""
        metadata = owner["metadata"]
        released = (pod for pod in self._pods.get(metadata["name"], ()) if may_be_of(pod, owner))
        return [*self._pods.get(metadata["uid"], ()), *released]

    def without(self, objects: Iterable[Object]) -> Iterator[tuple[str, list[Object]]]:
        """Yield the pods without a controller that none of the objects has, by the name of their training job.

        A pod that still names a controller that is gone is left out: the garbage collector of Kubernetes deletes it
        (attemptToDeleteItem in pkg/controller/garbagecollector/garbagecollector.go of Kubernetes).

        Args:
            objects: All Jobs and MPIJobs of the namespace.
        """
        owners = defaultdict(list)
        for owner in objects:
            owners[owner["metadata"]["name"]].append(owner)
        for name, pods in self._pods.items():
            orphans = [pod for pod in pods if not any(may_be_of(pod, owner) for owner in owners[name])]
            released = [pod for pod in orphans if pod["spec"].get("subdomain") == name]
            if released:
                yield name, released


def may_be_of(pod: Object, owner: Object) -> bool:
    """Return True if a pod without a controller may be one of an object with its training job's name.

    It is not if it is older: then it is one of an earlier object with this name.
    """
    created = owner["metadata"].get("creationTimestamp") or ""
    started = pod["metadata"].get("creationTimestamp") or ""
    return not started or started >= created


def _pods_without_label(client: Client, owner: Object, names: set[str]) -> Iterator[Object]:
    """Yield the pods of an MPIJob that do not have the operator's label any more; `names` are the names of others."""
    name, roles = owner["metadata"]["name"], owner["spec"]["mpiReplicaSpecs"]
    if not any(pod.startswith(f"{launcher_name(name)}-") for pod in names):
        launcher = client.find(JOB, launcher_name(name))
        yield from pods_of(client, JOB, launcher) if launcher and _is_of(launcher, owner) else ()
    for worker in worker_names(name, (roles.get("Worker") or {}).get("replicas", 0)):
        pod = client.find(POD, worker) if worker not in names else None
        if pod and _is_of(pod, owner):
            yield pod


def _is_of(dependent: Object, entry: Object) -> bool:
    """Return True if an object controls another one, or did before a deletion that orphans it."""
    owner, metadata = _controller(dependent), entry["metadata"]
    is_of_launcher = owner.get("kind") == JOB.kind and owner.get("name") == launcher_name(metadata["name"])
    return not owner or owner.get("uid") == metadata["uid"] or is_of_launcher


def _controller(dependent: Object) -> Mapping[str, Any]:
    owners = dependent["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), {})
