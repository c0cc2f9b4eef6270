"""Notes: annotations of a training job's object, with facts that its pods show only for a while.

The pods may be gone with their nodes, or with the deletion of the object, when the end of the training job is read.
"""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING

from traingrid.backends.eks import labels
from traingrid.backends.eks.hosts import launcher_name
from traingrid.backends.eks.pod_template import TRAIN
from traingrid.backends.eks.pods import seconds_of
from traingrid.backends.eks.state import end_to_note, has_trained_in_time, tags_in
from traingrid.job.ownership import is_of_grid
from traingrid.kubernetes.client import EVENT, MPI_JOB
from traingrid.kubernetes.errors import CONFLICT, NOT_FOUND, ApiError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from traingrid.backends.eks.cluster_job import ClusterJob
    from traingrid.backends.eks.pods import Pod
    from traingrid.kubernetes.client import Client, Object

logger = logging.getLogger(__name__)
_TRIES = 5
"""The number of times that notes are decided and written while other processes change the same object."""


class Notes:
    """The notes of one process about the training jobs of a cluster.

    Args:
        client: Returns the client of the cluster.
    """

    def __init__(self, grid: str, client: Callable[[], Client]) -> None:
        self._grid, self._client = grid, client
        self._unwritten: dict[str, dict[str, str]] = {}

    def added_to(self, cluster_job: ClusterJob) -> ClusterJob:
        """Write notes about a training job, and return it with them.

        One note is a pod that the cluster has ended while it trained: the Job controller counts it as succeeded if it
        then ends without an error. Its event is kept for an hour by default (kube-apiserver's --event-ttl). Another one
        is that all hosts have trained, while the controller counts one as failed and deletes the others. The last one
        is the end; the first process that writes it decides.

        Notes that could not be written hold for this process nevertheless, and are tried again each time. So this
        process records neither a disrupted training job as completed, nor its own cancel as the deletion of a person.
        If it ends before they are written, the next process decides by the pods and events, as if this one had not seen
        the disruption; the cancel is in the ledger, so the line is stopped by a user in any case.
        """
        for _ in range(_TRIES):
            notes = self._notes_of(cluster_job)
            if not notes:
                return cluster_job
            try:
                return self._write(cluster_job, notes)
            except ApiError as error:  # also of a policy of admission: a note must not keep an end from the ledger
                if error.code not in (CONFLICT, NOT_FOUND):
                    self.remember(cluster_job, notes, error)
                current = self._client().find(cluster_job.kind, cluster_job.name) if error.code == CONFLICT else None
                if current is None or current["metadata"]["uid"] != cluster_job.uid:
                    return _with_annotations(cluster_job, notes)
                cluster_job = replace(cluster_job, object=current)  # with the pods as they were; they may be gone now
        return _with_annotations(cluster_job, self._notes_of(cluster_job))

    def _notes_of(self, cluster_job: ClusterJob) -> dict[str, str]:
        """Return the notes that an object lacks, decided by its present state; none of one that is not of the grid."""
        if labels.ENDED in cluster_job.annotations or not is_of_grid(tags_in(cluster_job), self._grid):
            return {}
        notes = _missing_notes(cluster_job, self._unwritten.get(cluster_job.uid, {}) | self._new_notes(cluster_job))
        end = end_to_note(_with_annotations(cluster_job, notes))
        return {**notes, labels.ENDED: end} if end else notes

    def _write(self, cluster_job: ClusterJob, notes: dict[str, str]) -> ClusterJob:
        """Add notes to an object; an end only to the state of which it was decided.

        Raises:
            ApiError: The object has changed since, or the API server refuses the change.
        """
        metadata: Object = {"annotations": notes}
        if labels.ENDED in notes:
            metadata["resourceVersion"] = cluster_job.object["metadata"]["resourceVersion"]
        patched = self._client().patch(cluster_job.kind, cluster_job.name, {"metadata": metadata})
        self._unwritten.pop(cluster_job.uid, None)
        return replace(cluster_job, object=patched)

    def _new_notes(self, cluster_job: ClusterJob) -> dict[str, str]:
        notes = {}
        if text := self._new_disruption(cluster_job):
            notes[labels.DISRUPTED] = text
        if labels.TRAINED not in cluster_job.annotations and cluster_job.pods_left and has_trained_in_time(cluster_job):
            notes[labels.TRAINED] = "true"
        return notes

    def _new_disruption(self, cluster_job: ClusterJob) -> str:
        if (
            cluster_job.annotations.get(labels.DISRUPTED)
            or cluster_job.deleted_at is not None
            or cluster_job.is_suspended
        ):
            return ""
        return cluster_job.disruption or self._killed_earlier(cluster_job)

    def remember(self, cluster_job: ClusterJob, notes: dict[str, str], error: ApiError) -> None:
        """Keep notes that the API server did not accept; `added_to` tries again to write them."""
        logger.warning("%s cannot be annotated now, which is tried again: %s", cluster_job.name, error)
        self._unwritten.setdefault(cluster_job.uid, {}).update(notes)

    def killed(self, pod: Pod) -> Pod:
        """Return a pod with the time of its kubelet's event, if its deletionTimestamp does not show it any more."""
        if not pod.has_late_deletion or pod.was_interrupted:
            return pod
        kills = self._kills(f",involvedObject.uid={pod.uid}")
        return replace(pod, killed_at=min((killed_at for _, killed_at in kills), default=None))

    def _kills(self, selection: str = "") -> Iterator[tuple[str, float]]:
        """Yield the pods whose training a kubelet has ended, each with the time, in seconds since 1970.

        The kubelet writes the event before it stops a container (killContainer in
        pkg/kubelet/kuberuntime/kuberuntime_container.go of Kubernetes).
        """
        fields = f"reason=Killing,involvedObject.fieldPath=spec.containers{{{TRAIN}}}{selection}"
        for event in self._client().all(EVENT, fields=fields):
            killed_at = seconds_of(event.get("firstTimestamp") or event.get("eventTime"))
            if killed_at is not None:
                yield event["involvedObject"].get("name", ""), killed_at

    def _killed_earlier(self, cluster_job: ClusterJob) -> str:
        """Return the pod of a completed training job whose training the kubelet has ended, by its event.

        An event from before the start belongs to pods that Kueue has suspended.
        """
        if not cluster_job.completion_condition or len(cluster_job.pods) >= cluster_job.hosts:
            return ""
        start = seconds_of((cluster_job.object.get("status") or {}).get("startTime")) or cluster_job.created_at
        main = launcher_name(cluster_job.name) if cluster_job.kind is MPI_JOB else f"{cluster_job.name}-"
        remaining_pods = [pod.name for pod in cluster_job.pods]
        for pod, killed_at in self._kills():
            if pod.startswith(main) and pod not in remaining_pods and killed_at > start:
                return f"The pod {pod} was ended by the cluster while it trained"
        return ""


def _missing_notes(cluster_job: ClusterJob, notes: dict[str, str]) -> dict[str, str]:
    """Return the notes that an object does not have; notes of other processes stay."""
    return {name: text for name, text in notes.items() if name not in cluster_job.annotations}


def _with_annotations(cluster_job: ClusterJob, notes: dict[str, str]) -> ClusterJob:
    metadata = cluster_job.object["metadata"]
    annotations = {**_missing_notes(cluster_job, notes), **cluster_job.annotations}
    return replace(cluster_job, object={**cluster_job.object, "metadata": {**metadata, "annotations": annotations}})
