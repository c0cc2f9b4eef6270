"""Found: a training job's object, pods and events as a cluster has them, before they are interpreted (`state`)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from traingrid.backends.eks import labels
from traingrid.backends.eks.pods import Pod, seconds_of
from traingrid.backends.eks.stored_request import StoredRequest, stored_request
from traingrid.kubernetes.client import MPI_JOB, Kind

_COMPLETE, _FAILED = ("Complete", "Succeeded"), ("Failed",)
"""The conditions of a Job and of an MPIJob that has ended."""


@dataclass(frozen=True, kw_only=True)
class ClusterJob:
    """A training job in a cluster.

    Attributes:
        object: The object.
        pods: Its pods, as the cluster lists them.
        events: The events about the object if it has no pods, or about the pod that waits for a node or a start.
    """

    kind: Kind
    object: Mapping[str, Any]
    pods: list[Pod]
    events: Sequence[Mapping[str, Any]] = ()
    cluster_arn: str = ""

    @property
    def name(self) -> str:
        """The training job's name."""
        return str(self._metadata["name"])

    @property
    def namespace(self) -> str:
        """The namespace."""
        return str(self._metadata["namespace"])

    @property
    def uid(self) -> str:
        """The object's uid."""
        return str(self._metadata["uid"])

    @property
    def annotations(self) -> Mapping[str, str]:
        """The object's annotations."""
        return self._metadata.get("annotations") or {}

    @cached_property
    def request(self) -> StoredRequest:
        """The request in the object's pod template; without contents if traingrid has not made the object."""
        return stored_request(self.object)

    @property
    def status(self) -> Mapping[str, Any]:
        """The status of the object."""
        return self.object.get("status") or {}

    @property
    def created_at(self) -> float:
        """The time at which the object was created, in seconds since 1970."""
        return seconds_of(self._metadata.get("creationTimestamp")) or 0.0

    @property
    def deleted_at(self) -> float | None:
        """The time at which the object's deletion was requested, in seconds since 1970; None if it was not."""
        return seconds_of(self._metadata.get("deletionTimestamp"))

    @property
    def hosts(self) -> int:
        """The number of hosts."""
        spec = self.object["spec"]
        replicas = spec.get("mpiReplicaSpecs")
        return int(
            sum(replica_spec["replicas"] for replica_spec in replicas.values())
            if replicas
            else spec.get("completions", 1)
        )

    @property
    def is_suspended(self) -> bool:
        """True if Kueue has not admitted it, or has suspended it."""
        spec = self.object["spec"]
        return bool(spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend"))

    @property
    def completion_condition(self) -> Mapping[str, Any]:
        """The condition of a training job that ended without an error; empty if it did not, or was deleted before.

        The controller also counts pods that end on SIGTERM after the deletion, or in the same second as the deletion.
        So pods must show that they were not interrupted.
        """
        condition = self._condition(_COMPLETE)
        ended_uninterrupted = bool(self.pods) and not any(pod.was_interrupted for pod in self.pods)
        if self._is_after_deletion(condition) and not ended_uninterrupted:
            return {}
        return condition

    @property
    def failure_condition(self) -> Mapping[str, Any]:
        """The condition of a training job that failed by itself; empty if it did not, or was deleted before."""
        condition = self._condition(_FAILED)
        return {} if self._is_after_deletion(condition) else condition

    @property
    def disruption(self) -> str:
        """The pod that the cluster ended while it trained, as a sentence; empty if there is none.

        A deletion without the condition of a disruption only counts for pods of a training job that has completed,
        because Kueue and the controllers delete pods, too; also then, the operator deletes the workers of an MPIJob.
        """
        for pod in self.pods:
            decides_result = self.completion_condition and not (self.kind is MPI_JOB and pod.host > 0)
            if pod.was_interrupted and (pod.disruption or decides_result):
                reason = pod.disruption or "it was deleted"
                return f"The pod {pod.name} of host {pod.host + 1} was ended by the cluster: {reason}"
        return ""

    @property
    def pods_left(self) -> list[Pod]:
        """The pods that have not ended."""
        return [pod for pod in self.pods if not pod.has_ended]

    @property
    def unscheduled(self) -> Pod | None:
        """The first pod that waits for a node; None if there is none."""
        return next((pod for pod in self.pods_left if not pod.is_scheduled), None)

    @property
    def is_over(self) -> bool:
        """True if it has ended, or will end as soon as its pods have."""
        return bool(self.deleted_at is not None or self.completion_condition or self.failure_condition)

    @property
    def started_at(self) -> float | None:
        """The time at which the last host got its node, in seconds since 1970; None before."""
        starts = [pod.started_at for pod in self.pods if pod.started_at is not None]
        if len(starts) >= self.hosts:
            return max(starts)
        noted_seconds = _noted_seconds(self.annotations.get(labels.STARTED_AT))
        if noted_seconds is not None:
            return noted_seconds
        # The pods of a training job that has ended may be gone with their nodes.
        return seconds_of(self.status.get("startTime")) if self.completion_condition or self.failure_condition else None

    @property
    def ended_at(self) -> float | None:
        """The best known time at which the job ended, in seconds since 1970; None while it runs."""
        if not self.is_over or self.pods_left:
            return None
        ends = [pod.ended_at for pod in self.pods if pod.ended_at is not None]
        if ends:
            return max(ends)
        condition = self.completion_condition or self.failure_condition
        changed_at = seconds_of(condition.get("lastTransitionTime"))
        return self.deleted_at if changed_at is None else changed_at

    @property
    def _metadata(self) -> Mapping[str, Any]:
        metadata: Mapping[str, Any] = self.object["metadata"]
        return metadata

    def _is_after_deletion(self, condition: Mapping[str, Any]) -> bool:
        at = seconds_of(condition.get("lastTransitionTime"))
        return self.deleted_at is not None and (at is None or at >= self.deleted_at)

    def _condition(self, names: tuple[str, ...]) -> Mapping[str, Any]:
        conditions = self.status.get("conditions") or []
        return next(
            (condition for condition in conditions if condition["type"] in names and condition["status"] == "True"), {}
        )


def _noted_seconds(text: str | None) -> float | None:
    """Return a time in an annotation, in seconds since 1970; None if it is no time, because others can write it."""
    try:
        return seconds_of(text)
    except (ValueError, OverflowError):
        return None
