"""Orphaned pods: pods of the grid whose Job or MPIJob is gone, while they run on.

A person who removes the finalizer of an object and deletes it with `kubectl delete --cascade=orphan` leaves its pods
without a controller (https://kubernetes.io/docs/concepts/architecture/garbage-collection/#orphaned-dependents). Nothing
ends them or records their end, so they are listed as a training job that no line owns, and are stopped.

The name in a pod's `spec.subdomain` shows the training job that it belongs to, and its containers that the grid has
made it. Neither can change while it runs (https://kubernetes.io/docs/concepts/workloads/pods/#pod-update-and-replacement).
"""

import logging
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from traingrid import names
from traingrid.backends.eks.hosts import launcher_name
from traingrid.backends.eks.jobs import ClusterJobs
from traingrid.backends.eks.owned_pods import PodsByOwner, may_be_of
from traingrid.backends.eks.pod_template import PREPARE, TRAIN
from traingrid.backends.eks.pods import Pod, seconds_of
from traingrid.backends.inventory import Details
from traingrid.backends.training_job import TrainingJob
from traingrid.job.state import JobState
from traingrid.kubernetes.client import JOB, MPI_JOB, POD, Object

logger = logging.getLogger(__name__)
_PROGRAM = "traingrid.pod"
_NAME_VARIABLE = "TRAINING_JOB_NAME"


class OrphanedPods:
    """The orphaned pods of a grid in one cluster."""

    def __init__(self, grid: str, jobs: ClusterJobs) -> None:
        self._grid, self._jobs = grid, jobs

    def listed(self, pods: PodsByOwner, objects: Iterable[Object]) -> Iterator[TrainingJob]:
        """Yield the training jobs of which only pods are left.

        Args:
            pods: The pods of the namespace, read after the objects.
            objects: All Jobs and MPIJobs of the namespace.
        """
        for name, orphans in pods.without(objects):
            identity = names.parse_training_job(self._grid, name)
            live = [pod for pod in map(Pod, orphans) if not pod.has_ended]
            if identity is None or not live:
                continue
            yield TrainingJob(
                name=name,
                identity=identity,
                region=self._jobs.region,
                state=_state_of(live),
                created_at=min(seconds_of(pod.raw["metadata"].get("creationTimestamp")) or 0.0 for pod in live),
                backend="eks",
                orphaned_pods=tuple(sorted(pod.name for pod in live)),
            )

    def details(self, job: TrainingJob) -> Details | None:
        """Return the present state of orphaned pods; None if they have ended, or an object has them again."""
        live = self._live(job)
        return Details(state=_state_of(live), is_exact=False) if live else None

    def are_ours(self, job: TrainingJob) -> bool:
        """Return True if the containers of orphaned pods show that traingrid has made them for this training job."""
        live = self._live(job)
        return bool(live) and all(_is_made_for(pod, job.name) for pod in live)

    def stop(self, job: TrainingJob) -> bool:
        """Delete orphaned pods, and first the launcher's Job of an MPIJob, which would create its pod again.

        Returns:
            False if none is left.
        """
        live, client = self._live(job), self._jobs.client
        if not live:
            return False
        launcher = client.find(JOB, launcher_name(job.name))
        if launcher and client.find(MPI_JOB, job.name) is None:
            client.delete(JOB, launcher_name(job.name), uid=launcher["metadata"]["uid"])
        for pod in live:
            client.delete(POD, pod.name, uid=pod.uid)
        deleted = ", ".join(pod.name for pod in live)
        logger.warning("The object of %s is gone, but not its pods, which are deleted: %s", job.name, deleted)
        return True

    def _live(self, job: TrainingJob) -> list[Pod]:
        """Return the listed pods that have not ended, and that no object has."""
        client = self._jobs.client
        objects = [entry for kind in (JOB, MPI_JOB) if (entry := client.find(kind, job.name))]
        pods = (client.find(POD, name) for name in job.orphaned_pods)
        orphans = (pod for pod in pods if pod and pod["spec"].get("subdomain") == job.name)
        orphaned_pods = (Pod(pod) for pod in orphans if not any(may_be_of(pod, entry) for entry in objects))
        return [pod for pod in orphaned_pods if not pod.has_ended]


def _state_of(live: list[Pod]) -> JobState:
    return JobState.STOPPING if all(pod.is_deleting for pod in live) else JobState.IN_PROGRESS


def _is_made_for(pod: Pod, name: str) -> bool:
    """Return True if a pod has the containers of a training job with this name."""
    prepare = _container(pod, "initContainers", PREPARE)
    train = _container(pod, "containers", TRAIN)
    variables = {variable["name"]: variable.get("value") for variable in train.get("env") or ()}
    return _PROGRAM in (prepare.get("command") or ()) and variables.get(_NAME_VARIABLE) == name


def _container(pod: Pod, part: str, name: str) -> Mapping[str, Any]:
    return next((container for container in pod.raw["spec"].get(part) or () if container["name"] == name), {})
