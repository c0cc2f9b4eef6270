"""EKS inventory: lists, stops and releases the training jobs of a grid in a Region's cluster."""

import math
import time
from collections.abc import Iterator
from itertools import chain
from typing import NamedTuple

from traingrid import names
from traingrid.aws.clients import ClientFactory, background_client
from traingrid.backends.eks import labels
from traingrid.backends.eks.cluster_job import ClusterJob
from traingrid.backends.eks.jobs import KINDS, ClusterJobs
from traingrid.backends.eks.left_running import left_running
from traingrid.backends.eks.orphaned_pods import OrphanedPods
from traingrid.backends.eks.owned_pods import PodsByOwner
from traingrid.backends.eks.pods import ENDED_PHASES, Pod
from traingrid.backends.eks.start_wait import PATIENCE_SECONDS, start_wait
from traingrid.backends.eks.state import describe_cluster_job, tags_in
from traingrid.backends.eks.stored_request import StoredRequest, damaged, stored_request
from traingrid.backends.eks.worker_failure import may_hang
from traingrid.backends.inventory import ACTIVE_STATES, ALL, Details, Window
from traingrid.backends.training_job import TrainingJob
from traingrid.grid.deployment import Deployment
from traingrid.job.ownership import is_of_grid
from traingrid.job.state import JobState
from traingrid.kubernetes.client import JOB, MPI_JOB, POD, Kind, Object
from traingrid.kubernetes.errors import CONFLICT, NOT_FOUND, ApiError

_POD_FIELDS = ("hostname", "subdomain", "nodeName", "activeDeadlineSeconds")
"""The fields of a pod's specification on which the state of its training job depends."""
_LIVE_PODS = ",".join(f"status.phase!={phase}" for phase in ENDED_PHASES)


class _Listed(NamedTuple):
    """An object of the grid without its large pod template, and the rule that the request in it breaks."""

    kind: Kind
    entry: Object
    problem: str


class EksInventory:
    """The training jobs of a grid in one cluster.

    They are found by their names. Their labels are hints, because persons and other programs can change them, so no
    object is left out for a label.

    Args:
        role: The ARN of the process's role, if it is not the role of the deployment's `part`.
    """

    def __init__(
        self, deployment: Deployment, region: str, make_client: ClientFactory = background_client, role: str = ""
    ) -> None:
        self._grid, self._region = deployment.grid.name, region
        self._jobs = ClusterJobs(deployment, region, make_client, role)
        self._orphans = OrphanedPods(self._grid, self._jobs)

    def listed(self, state: str = "", submission: str = "", window: Window = ALL) -> Iterator[TrainingJob]:
        """See `Inventory.listed`.

        A cluster keeps ended objects only for days, so each pass lists all, and none is left for a list of older ones.
        For active states, only pods that run are read.
        """
        if window.before < math.inf:
            return
        all_objects: list[Object] = []
        objects = self._objects(submission, all_objects)
        pods = self._pods(objects, _LIVE_PODS if state in ACTIVE_STATES else "")
        orphans = (
            job for job in self._orphans.listed(pods, all_objects) if submission in ("", job.identity.submission)
        )
        for job in chain(self._training_jobs(objects, pods), orphans):
            if state in ("", job.state):
                yield job

    def ended(self) -> Iterator[TrainingJob]:
        """See `Inventory.ended`; also objects that were released `KEEP_DAYS` ago."""
        now = time.time()
        objects = [
            listed_object
            for listed_object in self._objects()
            if not labels.is_kept(listed_object.entry["metadata"], now)
        ]
        if objects:
            pods = self._pods(objects, _LIVE_PODS)
            yield from (job for job in self._training_jobs(objects, pods) if not job.is_active)

    def details(self, job: TrainingJob) -> Details | None:
        """See `Inventory.details`."""
        if job.orphaned_pods:
            return self._orphans.details(job)
        cluster_job = self._jobs.find(job.name)
        if cluster_job is None:
            return None
        training_job = describe_cluster_job(cluster_job)
        return Details(
            state=training_job.state,
            started_at=training_job.started_at,
            ended_at=cluster_job.ended_at,
            artifact=training_job.artifact,
            billable_seconds=training_job.billable_seconds,
            is_exact=len(cluster_job.pods) >= cluster_job.hosts,
        )

    def has_our_tag(self, job: TrainingJob) -> bool:
        """See `Inventory.has_our_tag`."""
        if job.orphaned_pods:
            return self._orphans.are_ours(job)
        cluster_job = self._jobs.find(job.name)
        return cluster_job is not None and is_of_grid(tags_in(cluster_job), self._grid)

    def stop(self, job: TrainingJob) -> bool:
        """See `Inventory.stop`."""
        if job.orphaned_pods:
            return self._orphans.stop(job)
        cluster_job = self._jobs.find(job.name)
        if cluster_job is None or cluster_job.ended_at is not None:
            return False
        self._jobs.stop(cluster_job, "cancel")
        return True

    def complete_stop(self, job: TrainingJob) -> bool:
        """See `Inventory.complete_stop`."""
        cluster_job = None if job.orphaned_pods else self._jobs.find(job.name, whole=True)
        if cluster_job is None:
            return False
        return (
            self._jobs.stop_hanging(cluster_job)
            or self._jobs.end_left_running(cluster_job)
            or self._jobs.complete_stop(cluster_job)
        )

    def release(self, job: TrainingJob) -> bool:
        """See `Inventory.release`: removes the finalizer, or deletes an object that was released before.

        The resource version protects other finalizers, for example of a deletion in the foreground.
        """
        cluster_job = self._jobs.find(job.name)
        if cluster_job is None or cluster_job.ended_at is None:
            return False
        metadata = cluster_job.object["metadata"]
        finalizers = metadata.get("finalizers") or []
        if labels.FINALIZER not in finalizers:  # an object of another program may have one of our names
            is_ours = is_of_grid(tags_in(cluster_job), self._grid)
            return is_ours and self._jobs.client.delete(cluster_job.kind, cluster_job.name, uid=cluster_job.uid)
        other_finalizers = [finalizer for finalizer in finalizers if finalizer != labels.FINALIZER]
        metadata_change = {
            "finalizers": other_finalizers or None,
            "labels": {labels.RECORDED: labels.today(time.time())},
        }
        try:
            version = metadata["resourceVersion"]
            self._jobs.client.patch(
                cluster_job.kind, cluster_job.name, {"metadata": {"resourceVersion": version, **metadata_change}}
            )
        except ApiError as error:
            if error.code in (CONFLICT, NOT_FOUND):  # it has changed since; the next pass reads it again
                return False
            raise
        return True

    def _objects(self, submission: str = "", all_objects: list[Object] | None = None) -> list[_Listed]:
        """Return the objects with names of the grid, or of a submission, without their large pod templates.

        Args:
            submission: The submission; empty for all.
            all_objects: Gets the metadata of all objects of the namespace, also of those of others.
        """
        selected = []
        for kind in KINDS:
            try:
                for entry in self._jobs.client.all(kind):
                    if all_objects is not None:
                        all_objects.append({"metadata": entry["metadata"]})
                    request = stored_request(entry)
                    if self._is_in(entry, request, submission):
                        selected.append(_Listed(kind, _shortened(entry), request.problem))
            except ApiError as error:
                if error.code != NOT_FOUND:  # the cluster has no MPI operator
                    raise
        return selected

    def _is_in(self, entry: Object, request: StoredRequest, submission: str) -> bool:
        """Return True if an object has a name of the grid, and our finalizer or tags; people change labels."""
        metadata = entry["metadata"]
        identity = names.parse_training_job(self._grid, metadata["name"])
        if identity is None or submission not in ("", identity.submission):
            return False
        return labels.FINALIZER in (metadata.get("finalizers") or []) or is_of_grid(request.tags, self._grid)

    def _pods(self, objects: list[_Listed], fields: str) -> PodsByOwner:
        """Return the pods of the namespace that a field selector selects."""
        client = self._jobs.client
        launchers = client.all(JOB) if any(listed_object.kind is MPI_JOB for listed_object in objects) else ()
        return PodsByOwner(launchers, map(_without_spec, client.all(POD, fields=fields)))

    def _training_jobs(self, objects: list[_Listed], pods: PodsByOwner) -> Iterator[TrainingJob]:
        """Yield the training jobs of objects, with their pods."""
        for listed_object in objects:
            job = self._training_job(listed_object, [Pod(pod) for pod in pods.of(listed_object.entry)])
            if job:
                yield job

    def _training_job(self, listed: _Listed, pods: list[Pod]) -> TrainingJob | None:
        """Return the training job of an object; None if the name is not one of this grid."""
        arn = self._jobs.client.cluster.arn
        cluster_job = ClusterJob(kind=listed.kind, object=listed.entry, pods=pods, cluster_arn=arn)
        identity = names.parse_training_job(self._grid, cluster_job.name)
        if identity is None:
            return None
        training_job = describe_cluster_job(cluster_job)
        created_at = cluster_job.created_at
        return TrainingJob(
            name=cluster_job.name,
            identity=identity,
            region=self._region,
            arn=training_job.arn,
            state=JobState(training_job.state),
            created_at=created_at,
            ended_at=cluster_job.ended_at,
            backend="eks",
            may_hang=may_hang(cluster_job) or _waits_long(cluster_job) or bool(left_running(cluster_job, time.time())),
            damaged=damaged(listed.kind, listed.entry, self._region, listed.problem) if listed.problem else None,
        )


def _waits_long(cluster_job: ClusterJob) -> bool:
    """Return True if a training job may have waited too long for its start; the events about it are not known here."""
    wait = start_wait(cluster_job)
    return wait is not None and time.time() - wait.since >= PATIENCE_SECONDS


def _shortened(entry: Object) -> Object:
    """Return an object with the parts of its specification that its state depends on."""
    spec = entry["spec"]
    fields = {name: spec[name] for name in ("suspend", "completions", "runPolicy") if name in spec}
    replicas = spec.get("mpiReplicaSpecs")
    if replicas:
        fields["mpiReplicaSpecs"] = {
            name: {"replicas": replica_spec.get("replicas", 1)} for name, replica_spec in replicas.items()
        }
    return {**entry, "spec": fields}


def _without_spec(pod: Object) -> Object:
    metadata = {name: value for name, value in pod["metadata"].items() if name != "annotations"}
    spec = {name: pod["spec"][name] for name in _POD_FIELDS if name in pod["spec"]}
    return {**pod, "metadata": metadata, "spec": spec}
