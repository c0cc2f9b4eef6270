"""EKS inventory: lists, stops and releases the training jobs of a grid in a Region's cluster."""

from __future__ import annotations

import math
import time
from itertools import chain
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.aws.clients import Maker, gentle
from traingrid.backends.eks import labels
from traingrid.backends.eks.found import Found
from traingrid.backends.eks.jobs import KINDS, ClusterJobs
from traingrid.backends.eks.left_running import left_running
from traingrid.backends.eks.orphaned_pods import OrphanedPods
from traingrid.backends.eks.owned_pods import PodsByOwner
from traingrid.backends.eks.pods import ENDED_PHASES, Pod
from traingrid.backends.eks.start_wait import PATIENCE_SECONDS, start_wait
from traingrid.backends.eks.state import seen_of, tags_in
from traingrid.backends.eks.worker_failure import may_hang
from traingrid.backends.found_job import TrainingJob
from traingrid.backends.inventory import ACTIVE_STATES, ALL, Details, Window
from traingrid.job.ownership import is_of_grid
from traingrid.job.state import JobState
from traingrid.kubernetes.client import JOB, MPI_JOB, POD
from traingrid.kubernetes.errors import CONFLICT, NOT_FOUND, ApiError
from traingrid.ledger.items import attempts

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.deployment import Deployment
    from traingrid.kubernetes.client import Kind, Object
    from traingrid.ledger.items import JobItem

_POD_FIELDS = ("hostname", "subdomain", "nodeName", "activeDeadlineSeconds")
"""The fields of a pod's specification on which the state of its training job depends."""
_LIVE_PODS = ",".join(f"status.phase!={phase}" for phase in ENDED_PHASES)


class EksInventory:
    """The training jobs of a grid in one cluster.

    They are found by their names. Their labels are hints, because persons and other programs can change them, so no
    object is left out for a label.

    Args:
        deployment: The grid.
        region: The Region.
        make: Makes the clients of EKS and STS.
        role: The ARN of the process's role, if it is not that of the deployment's `part`.
    """

    def __init__(self, deployment: Deployment, region: str, make: Maker = gentle, role: str = "") -> None:
        self._grid, self._region = deployment.grid.name, region
        self._jobs = ClusterJobs(deployment, region, make, role)
        self._orphans = OrphanedPods(self._grid, self._jobs)

    def listed(self, state: str = "", submission: str = "", window: Window = ALL) -> Iterator[TrainingJob]:
        """See `Inventory.listed`.

        A cluster keeps ended objects only for days, so each sweep lists all, and none is left for a list of older ones.
        For active states, only pods that run are read.
        """
        if window.before < math.inf:
            return
        present: list[Object] = []
        objects = self._objects(submission, present)
        pods = self._pods(objects, _LIVE_PODS if state in ACTIVE_STATES else "")
        orphans = (job for job in self._orphans.listed(pods, present) if submission in ("", job.identity.submission))
        for job in chain(self._training_jobs(objects, pods), orphans):
            if state in ("", job.state):
                yield job

    def ended(self) -> Iterator[TrainingJob]:
        """See `Inventory.ended`; also objects that were released `KEEP_DAYS` ago."""
        now = time.time()
        objects = [(kind, made) for kind, made in self._objects() if not labels.is_kept(made["metadata"], now)]
        if objects:
            pods = self._pods(objects, _LIVE_PODS)
            yield from (job for job in self._training_jobs(objects, pods) if not job.active)

    def details(self, job: TrainingJob) -> Details | None:
        """See `Inventory.details`."""
        if job.orphaned_pods:
            return self._orphans.details(job)
        found = self._jobs.find(job.name)
        if found is None:
            return None
        seen = seen_of(found)
        return Details(
            state=seen.state,
            started_at=seen.started_at,
            ended_at=found.ended_at,
            artifact=seen.artifact,
            billable_seconds=seen.billable_seconds,
            is_exact=len(found.pods) >= found.hosts,
        )

    def is_ours(self, job: TrainingJob, item: JobItem | None) -> bool:
        """See `Inventory.is_ours`. The ledger records the object's uid in the ARN."""
        recorded = attempts(item).get(job.identity.attempt)
        if not job.orphaned_pods and recorded and recorded.training_job_arn and recorded.training_job_arn == job.arn:
            return True
        return self.has_our_tag(job)

    def has_our_tag(self, job: TrainingJob) -> bool:
        """See `Inventory.has_our_tag`."""
        if job.orphaned_pods:
            return self._orphans.are_ours(job)
        found = self._jobs.find(job.name)
        return found is not None and is_of_grid(tags_in(found), self._grid)

    def stop(self, job: TrainingJob) -> bool:
        """See `Inventory.stop`."""
        if job.orphaned_pods:
            return self._orphans.stop(job)
        found = self._jobs.find(job.name)
        if found is None or found.ended_at is not None:
            return False
        self._jobs.stop(found, "cancel")
        return True

    def complete_stop(self, job: TrainingJob) -> bool:
        """See `Inventory.complete_stop`."""
        found = None if job.orphaned_pods else self._jobs.find(job.name, whole=True)
        if found is None:
            return False
        return self._jobs.stop_hanging(found) or self._jobs.end_left_running(found) or self._jobs.complete_stop(found)

    def release(self, job: TrainingJob) -> bool:
        """See `Inventory.release`: removes the finalizer, or deletes an object that was released before.

        The resource version protects other finalizers, for example of a deletion in the foreground.
        """
        found = self._jobs.find(job.name)
        if found is None or found.ended_at is None:
            return False
        metadata = found.object["metadata"]
        finalizers = metadata.get("finalizers") or []
        if labels.FINALIZER not in finalizers:  # an object of another program may have one of our names
            is_ours = is_of_grid(tags_in(found), self._grid)
            return is_ours and self._jobs.client.delete(found.kind, found.name, uid=found.uid)
        left = [finalizer for finalizer in finalizers if finalizer != labels.FINALIZER]
        changed = {"finalizers": left or None, "labels": {labels.RECORDED: labels.today(time.time())}}
        try:
            version = metadata["resourceVersion"]
            self._jobs.client.patch(found.kind, found.name, {"metadata": {"resourceVersion": version, **changed}})
        except ApiError as error:
            if error.code in (CONFLICT, NOT_FOUND):  # it has changed since; the next sweep reads it again
                return False
            raise
        return True

    def _objects(self, submission: str = "", present: list[Object] | None = None) -> list[tuple[Kind, Object]]:
        """Return the objects with names of the grid, or of a submission, without their large pod templates.

        Args:
            submission: The submission; empty for all.
            present: Gets the metadata of all objects of the namespace, also of those of others.
        """
        found = []
        for kind in KINDS:
            try:
                for made in self._jobs.client.all(kind):
                    if present is not None:
                        present.append({"metadata": made["metadata"]})
                    if self._is_in(kind, made, submission):
                        found.append((kind, _small(made)))
            except ApiError as error:
                if error.code != NOT_FOUND:  # the cluster has no MPI operator
                    raise
        return found

    def _is_in(self, kind: Kind, made: Object, submission: str) -> bool:
        """Return True if an object has a name of the grid, and our finalizer or tags; people change labels."""
        metadata = made["metadata"]
        identity = names.parse_training_job(self._grid, metadata["name"])
        if identity is None or submission not in ("", identity.submission):
            return False
        found = Found(kind=kind, object=made, pods=[], cluster_arn="")
        return labels.FINALIZER in (metadata.get("finalizers") or []) or is_of_grid(tags_in(found), self._grid)

    def _pods(self, objects: list[tuple[Kind, Object]], fields: str) -> PodsByOwner:
        """Return the pods of the namespace that a field selector selects."""
        client = self._jobs.client
        launchers = client.all(JOB) if any(kind is MPI_JOB for kind, _ in objects) else ()
        return PodsByOwner(launchers, map(_without_spec, client.all(POD, fields=fields)))

    def _training_jobs(self, objects: list[tuple[Kind, Object]], pods: PodsByOwner) -> Iterator[TrainingJob]:
        """Yield the training jobs of objects, with their pods."""
        for kind, made in objects:
            job = self._training_job(kind, made, [Pod(pod) for pod in pods.of(made)])
            if job:
                yield job

    def _training_job(self, kind: Kind, made: Object, pods: list[Pod]) -> TrainingJob | None:
        found = Found(kind=kind, object=made, pods=pods, cluster_arn=self._jobs.client.cluster.arn)
        identity = names.parse_training_job(self._grid, found.name)
        if identity is None:
            return None
        seen, created = seen_of(found), found.created_at
        return TrainingJob(
            name=found.name,
            identity=identity,
            region=self._region,
            arn=seen.arn,
            state=JobState(seen.state),
            created_at=created,
            ended_at=found.ended_at,
            backend="eks",
            may_hang=may_hang(found) or _waits_long(found) or bool(left_running(found, time.time())),
        )


def _waits_long(found: Found) -> bool:
    """Return True if a training job may have waited too long for its start; the events about it are not known here."""
    wait = start_wait(found)
    return wait is not None and time.time() - wait.since >= PATIENCE_SECONDS


def _small(made: Object) -> Object:
    """Return an object with the parts of its specification that its state depends on."""
    spec = made["spec"]
    kept = {name: spec[name] for name in ("suspend", "completions", "runPolicy") if name in spec}
    replicas = spec.get("mpiReplicaSpecs")
    if replicas:
        kept["mpiReplicaSpecs"] = {name: {"replicas": each.get("replicas", 1)} for name, each in replicas.items()}
    return {**made, "spec": kept}


def _without_spec(pod: Object) -> Object:
    metadata = {name: value for name, value in pod["metadata"].items() if name != "annotations"}
    spec = {name: pod["spec"][name] for name in _POD_FIELDS if name in pod["spec"]}
    return {**pod, "metadata": metadata, "spec": spec}
