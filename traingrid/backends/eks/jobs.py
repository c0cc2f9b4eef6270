"""Jobs: finds, stops and completes the training jobs of one namespace, for the backend and the inventory."""

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from functools import cached_property

from traingrid.aws.clients import ClientFactory, periodic_client
from traingrid.backends.eks import labels
from traingrid.backends.eks.access import Access
from traingrid.backends.eks.cluster_job import ClusterJob
from traingrid.backends.eks.hosts import launcher_name
from traingrid.backends.eks.left_running import left_running
from traingrid.backends.eks.notes import Notes
from traingrid.backends.eks.owned_pods import PodsByOwner, pods_of
from traingrid.backends.eks.pods import Pod
from traingrid.backends.eks.start_wait import start_wait
from traingrid.backends.eks.state import failure_to_note
from traingrid.backends.eks.worker_failure import worker_failure
from traingrid.errors import UsageError
from traingrid.grid.deployment import Deployment
from traingrid.grid.eks import EksCluster
from traingrid.kubernetes.client import EVENT, JOB, MPI_JOB, POD, Client, Kind, Object
from traingrid.kubernetes.cluster import cluster_of
from traingrid.kubernetes.connection import RequestLimits
from traingrid.kubernetes.errors import CONFLICT, NOT_FOUND, ApiError, UnavailableError
from traingrid.kubernetes.token import Tokens

KINDS = (JOB, MPI_JOB)
"""The kinds of training jobs. A name is looked up in both, because a grid may change its kind."""
_PERIODIC_LIMITS = RequestLimits(connect=5.0, read=10.0, tries=2)
_CHANGES = 5
"""The number of times that a change is tried while other processes change the same object."""


class ClusterJobs:
    """The training jobs of a Region's cluster; nothing is called before a method is.

    Args:
        role: The ARN of the process's role, if it is not the role of the deployment's `part`.

    Raises:
        UsageError: The Region has no cluster.
    """

    def __init__(self, deployment: Deployment, region: str, make_client: ClientFactory, role: str = "") -> None:
        settings = deployment.grid.regions[region].eks if region in deployment.grid.regions else None
        if settings is None:
            text = f"{region} has no cluster of Amazon EKS in grid.yaml."
            raise UsageError(text, f"Add `eks: {{cluster: NAME}}` to {region} in grid.yaml and deploy.")
        self.settings: EksCluster = settings
        self.deployment, self.region = deployment, region
        self.access = Access.of(deployment, region, settings, role)
        self._make_client = make_client
        self.notes = Notes(deployment.grid.name, lambda: self.client)

    @cached_property
    def client(self) -> Client:
        """The client of the cluster; the first call describes the cluster."""
        role = self.deployment.acting_role_in(self.region)
        name = self.settings.cluster
        cluster = cluster_of(name, self.region, self._make_client, role)
        tokens = Tokens(name, self.region, self._make_client, role)
        # callers that run periodically must not wait long for one cluster
        limits = _PERIODIC_LIMITS if self._make_client is periodic_client else RequestLimits()
        return Client(cluster, self.settings.namespace, tokens, limits, explain=self.access.explain)

    def find(self, name: str, *, whole: bool = False) -> ClusterJob | None:
        """Return a training job; None if the cluster does not have it.

        The object is read before its pods: of an object that is being deleted, no new pods are created.

        Args:
            whole: Read all pods of the namespace, to find also those that their controller has released.
        """
        kind_and_object = self._object(name)
        if kind_and_object is None:
            return None
        pods = PodsByOwner(self.client.all(JOB), self.client.all(POD)).of(kind_and_object[1]) if whole else None
        return self.read_cluster_job(*kind_and_object, pods)

    def pods(self, name: str) -> list[Object]:
        """Return the pods of a training job; none if the cluster does not have it."""
        kind_and_object = self._object(name)
        return pods_of(self.client, *kind_and_object) if kind_and_object else []

    def _object(self, name: str) -> tuple[Kind, Object] | None:
        objects = ((kind, self.client.find(kind, name)) for kind in KINDS)
        return next(((kind, entry) for kind, entry in objects if entry is not None), None)

    def read_cluster_job(self, kind: Kind, entry: Object, listed: list[Object] | None = None) -> ClusterJob:
        """Return the training job of an object, with its pods and the events that explain why it waits.

        Args:
            entry: The object.
            listed: Its pods; None if they are to be listed.
        """
        name, client = entry["metadata"]["name"], self.client
        listed = pods_of(client, kind, entry) if listed is None else listed
        pods = [self.notes.killed(Pod(pod)) for pod in listed]
        cluster_job = ClusterJob(kind=kind, object=entry, pods=pods, cluster_arn=client.cluster.arn)
        wait = start_wait(cluster_job)
        if pod := cluster_job.unscheduled or (wait.pod if wait else None):
            waiting = [pod.name]
        elif pods:
            waiting = []
        else:  # the launcher's pod is created by a Job, which the operator creates
            waiting = [launcher_name(name), name] if kind is MPI_JOB else [name]
        events: list[Object] = []
        for object_name in waiting:
            events += client.all(EVENT, fields=f"involvedObject.name={object_name}")
        return replace(cluster_job, events=tuple(events))

    def stop(self, cluster_job: ClusterJob, reason: str, message: str = "") -> None:
        """Stop a training job: note the reason, and delete its object, which the finalizer keeps.

        `reason` is a `StopReason`, or the name of the failure class with which the training job ends.

        The first reason stays, because its process may already act on it.

        A cancel is also sent if the note cannot be written. Kueue's webhook must admit each change of a Job, but not
        its deletion (vjob.kb.io in config/components/webhook/manifests.yaml of
        https://github.com/kubernetes-sigs/kueue), so while it is down, a PATCH fails and a DELETE does not. The ledger
        has the cancel, so the line ends as stopped by a user, and no attempt follows, also without the note. Other
        stops wait until the note is written, because the end of the line, or its reason, depends on it.
        """

        def stop(current: ClusterJob) -> None:
            if not current.annotations.get(labels.STOPPED_FOR) and current.deleted_at is None:
                annotations = {labels.STOPPED_FOR: reason}
                if message:
                    annotations[labels.STOPPED_BECAUSE] = message
                annotations |= self._start_of(current)
                try:
                    self._annotate(current, annotations)
                except UnavailableError as error:
                    if reason != "cancel":
                        raise
                    self.notes.remember(current, annotations, error)
            self.client.delete(current.kind, current.name, uid=current.uid, propagation="Foreground")

        self._change(cluster_job, stop)

    def stop_hanging(self, cluster_job: ClusterJob) -> bool:
        """Stop a training job that does not start in time, and an MPIJob that a worker has failed.

        The operator and the launcher may not end such an MPIJob. The reason is noted first, because the deletion also
        removes the pod that shows it.

        Returns:
            True if it was stopped.
        """
        failure, wait = worker_failure(cluster_job), start_wait(cluster_job)
        if failure:
            self.stop(cluster_job, failure.failure, failure.reason)
        elif wait and wait.is_over(time.time()):
            self.stop(cluster_job, wait.failure, wait.end)
        else:
            return False
        return True

    def end_left_running(self, cluster_job: ClusterJob) -> bool:
        """Delete the pods that only containers of other programs keep running after the training.

        The end of the training is noted first, because the pods may be gone when it is read.

        Returns:
            True if there were any.
        """
        pods = left_running(cluster_job, time.time())
        if not pods:
            return False
        failure = failure_to_note(cluster_job, pods)
        noted_job = self.notes.added_to(cluster_job)

        def end_pods(current: ClusterJob) -> None:
            if failure and labels.ENDED not in current.annotations:
                self._annotate(current, {labels.ENDED: failure})
            for pod in pods:
                self.client.delete(POD, pod.name, uid=pod.uid)

        self._change(noted_job, end_pods)
        return True

    def complete_stop(self, cluster_job: ClusterJob) -> bool:
        """Delete the pods of an object that is being deleted, if its deletion has left them running.

        A person's deletion in the background leaves them running for as long as the finalizer keeps the object. The
        note of their start, by which only their billed time is known later, does not delay that.

        Returns:
            True if there were any.
        """
        if cluster_job.deleted_at is None or not _remaining_pods(cluster_job):
            return False

        def end_pods(current: ClusterJob) -> None:
            if start := self._start_of(current):
                try:
                    self._annotate(current, start)
                except UnavailableError as error:
                    self.notes.remember(current, start, error)
            if current.kind is MPI_JOB:  # a Job that would start the launcher again
                self.client.delete(JOB, launcher_name(current.name))
            for pod in _remaining_pods(current):
                self.client.delete(POD, pod.name, uid=pod.uid)

        self._change(cluster_job, end_pods)
        return True

    def _start_of(self, cluster_job: ClusterJob) -> dict[str, str]:
        """Return the annotation with the start of the pods, which will be gone when their end is recorded."""
        if cluster_job.started_at is None or labels.STARTED_AT in cluster_job.annotations:
            return {}
        return {labels.STARTED_AT: datetime.fromtimestamp(cluster_job.started_at, UTC).isoformat()}

    def _change(self, cluster_job: ClusterJob, change: Callable[[ClusterJob], None]) -> None:
        """Change a training job; nothing if it is gone, or another one has its name.

        The API server answers 404 if the object or a pod is gone, and 409 to a PATCH that it could not apply because
        of other changes, and to a DELETE whose uid is that of an earlier object. After 409, the object is read again.

        Raises:
            ApiError: The request was refused.
        """
        current: ClusterJob | None = cluster_job
        for attempt in range(1, _CHANGES + 1):
            if current is None or current.uid != cluster_job.uid:
                return
            try:
                change(current)
            except ApiError as error:
                if error.code == NOT_FOUND:
                    return
                if error.code != CONFLICT or attempt == _CHANGES:
                    raise
                current = self.find(cluster_job.name)
            else:
                return

    def _annotate(self, cluster_job: ClusterJob, annotations: dict[str, str]) -> None:
        self.client.patch(cluster_job.kind, cluster_job.name, {"metadata": {"annotations": annotations}})


def _remaining_pods(cluster_job: ClusterJob) -> list[Pod]:
    """Return the pods that have not ended and are not being deleted."""
    return [pod for pod in cluster_job.pods_left if not pod.is_deleting]
