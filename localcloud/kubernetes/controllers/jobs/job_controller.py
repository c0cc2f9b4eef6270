"""Job controller: brings the pods of a job to its desired state.

Source: pkg/controller/job/job_controller.go of Kubernetes (syncJob, manageJob, trackJobStatusAndRemoveFinalizers), of
version 1.31 or later, in which a job gets FailureTarget or SuccessCriteriaMet first, and Failed or Complete when all
its pods have ended. Without backoffLimitPerIndex and ttlSecondsAfterFinished.

A job that is being deleted gets no new pods, its running pods stay, and their finalizers are removed at once, so that
how they end is not counted any more. A pod that has failed can still fail it by its podFailurePolicy, which reads all
pods, and so can its deadline.
"""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.client import controller_of
from localcloud.kubernetes.controllers.controller import Controller
from localcloud.kubernetes.controllers.jobs import indexes
from localcloud.kubernetes.controllers.jobs.job_state import JobState
from localcloud.kubernetes.controllers.jobs.pod_failure_policy import verdict
from localcloud.kubernetes.controllers.jobs.pods import (
    FINALIZER,
    has_failed,
    is_active,
    is_terminating,
    missing_indexes,
    new_pod,
    phase_of,
)
from localcloud.kubernetes.events import seconds_since, timestamp
from localcloud.kubernetes.resources import JOB, POD
from localcloud.kubernetes.selectors import matches_labels
from localcloud.kubernetes.status import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.events import EventRecorder
    from localcloud.kubernetes.store import Key, Object

_FIRST_BACK_OFF, _MAX_BACK_OFF = 10.0, 600.0
_RETRY_SECONDS = 1.0


class JobController(Controller):
    """The job controller of a cluster."""

    def __init__(self, client: Client, events: EventRecorder) -> None:
        super().__init__(client)
        self._events = events

    def keys(self, key: Key, entry: Object) -> Iterable[Key]:
        """Return the key of a job, or of the job of a pod."""
        if key[0] is JOB:
            return [key]
        owner = controller_of(entry) if key[0] is POD else None
        return [(JOB, key[1], owner["name"])] if owner and owner["kind"] == "Job" else []

    def sync(self, key: Key) -> float | None:
        """Bring a job closer to its desired state."""
        job = self.client.find(*key)
        self._release_orphans(key, job)
        if job is None or job["spec"].get("managedBy") not in (None, "kubernetes.io/job-controller"):
            return None
        pods = self._claimed_pods(job)
        state = JobState(job)
        if state.is_finished:
            self._remove_finalizers([pod for pod in pods if _has_finalizer(pod)])
            return None
        if not state.status.get("startTime") and not job["spec"]["suspend"]:
            state.status["startTime"] = timestamp()
        self._record_ended_pods(job, state, pods)
        wait = self._advance(job, state, pods)
        self._count(job, state, pods)
        self._finish(job, state)
        self._store(job, state)
        return wait

    def _advance(self, job: Object, state: JobState, pods: list[Object]) -> float | None:
        """Create or delete pods; return the seconds until the next check."""
        target, wait = state.target, None
        if target is None:
            target = state.find_target(_policy_failure(job, pods))
            if target:
                state.set(target)
        active = [pod for pod in pods if is_active(pod)]
        terminating = [pod for pod in pods if is_terminating(pod)]
        if target:
            deleted = self._delete(job, active)
            active, terminating = [], [*terminating, *deleted]
        elif "deletionTimestamp" not in job["metadata"]:
            active, terminating, wait = self._manage(job, state, pods, active, terminating)
            self._set_suspended(job, state)
        state.set_counts(active, terminating)
        return min((seconds for seconds in (wait, state.rest_of_deadline()) if seconds is not None), default=None)

    def _manage(
        self, job: Object, state: JobState, pods: list[Object], active: list[Object], terminating: list[Object]
    ) -> tuple[list[Object], list[Object], float | None]:
        """Create missing pods, and delete those that are too many.

        Returns:
            The active pods, the pods that are being deleted, and the seconds until the next check.
        """
        spec = job["spec"]
        if spec["suspend"]:
            return [], [*terminating, *self._delete_pods(job, active)], None
        needed = state.wanted_pods(len(active))
        if len(active) > needed:
            surplus = sorted(active, key=lambda pod: -indexes.index_of(pod))[: len(active) - needed]
            deleted = self._delete_pods(job, surplus)
            return [pod for pod in active if pod not in surplus], [*terminating, *deleted], None
        blocked = len(terminating) if spec["podReplacementPolicy"] == "Failed" else 0
        number = needed - len(active) - blocked
        if number <= 0:
            return active, terminating, None
        back_off = _rest_of_back_off(job, state, pods)
        if back_off > 0:
            return active, terminating, back_off
        new_pods, wait = self._create(job, state, pods, number)
        return [*active, *new_pods], terminating, wait

    def _create(
        self, job: Object, state: JobState, pods: list[Object], number: int
    ) -> tuple[list[Object], float | None]:
        indexes = [-1] * number
        if state.is_indexed:
            indexes = missing_indexes(job, pods, state.succeeded_indexes, number)
        new_pods: list[Object] = []
        for index in indexes:
            try:
                new_pods.append(self.client.create(POD, job["metadata"]["namespace"], new_pod(job, index)))
            except ApiError as error:
                self._events.warning(job, "FailedCreate", f"Error creating: {error.message}")
                return new_pods, _RETRY_SECONDS
            self._events.normal(job, "SuccessfulCreate", f"Created pod: {new_pods[-1]['metadata']['name']}")
        return new_pods, None

    def _delete_pods(self, job: Object, pods: list[Object]) -> list[Object]:
        """Delete pods that the job does not need now; without their finalizers, they do not count as failed.

        Source: deleteJobPods in pkg/controller/job/job_controller.go of Kubernetes.
        """
        self._remove_finalizers([pod for pod in pods if _has_finalizer(pod)])
        return self._delete(job, pods)

    def _delete(self, job: Object, pods: list[Object]) -> list[Object]:
        """Delete pods; return those that have not ended yet."""
        remaining_pods = []
        for pod in pods:
            metadata = pod["metadata"]
            if self.client.delete(POD, metadata["namespace"], metadata["name"], uid=metadata["uid"]):
                self._events.normal(job, "SuccessfulDelete", f"Deleted pod: {metadata['name']}")
                remaining_pods.append(pod)
        return remaining_pods

    def _set_suspended(self, job: Object, state: JobState) -> None:
        if state.is_complete():
            return
        suspended = bool(job["spec"]["suspend"])
        if suspended == state.is_suspended:
            return
        reason, message = ("JobSuspended", "Job suspended") if suspended else ("JobResumed", "Job resumed")
        state.set({"type": "Suspended", "status": str(suspended), "reason": reason, "message": message})
        if not suspended:
            state.status["startTime"] = timestamp()
        self._events.normal(job, "Suspended" if suspended else "Resumed", message)

    def _record_ended_pods(self, job: Object, state: JobState, pods: list[Object]) -> None:
        """Record the pods that have ended and are not counted yet: those with a finalizer."""
        for pod in pods:
            if not _has_finalizer(pod):
                continue
            if phase_of(pod) == "Succeeded":
                state.add_succeeded(pod)
            elif has_failed(pod, job) and verdict(job, pod).counts:
                state.add_failed(pod)

    def _count(self, job: Object, state: JobState, pods: list[Object]) -> None:
        """Count the pods that have ended, in two steps, so that none is counted twice or lost.

        First, their uids or indexes are stored; then their finalizers are removed, and then they are in the counts.
        Once a job has failed, pods that have not ended count as failed; once it is being deleted, they do not count.
        """
        released, failed = [], state.has_failed
        for pod in pods:
            has_ended = phase_of(pod) == "Succeeded" or has_failed(pod, job)
            if not _has_finalizer(pod) or not (has_ended or state.target or "deletionTimestamp" in job["metadata"]):
                continue
            if failed and not has_ended and verdict(job, pod).counts:
                state.add_failed(pod)
            released.append(pod)
        if not released and not state.has_uncounted:
            return
        self._store(job, state)
        self._remove_finalizers(released)
        state.count()

    def _finish(self, job: Object, state: JobState) -> None:
        """Add the last condition once all pods have ended."""
        state.finish()
        last_condition = state.last
        if last_condition is None:
            return
        if last_condition["type"] == "Complete":
            self._events.normal(job, "Completed", "Job completed")
        else:
            self._events.warning(job, last_condition["reason"], last_condition["message"])

    def _store(self, job: Object, state: JobState) -> None:
        if state.status == state.stored:
            return
        new_status = copy.deepcopy(state.status)

        def write(current: Object) -> None:
            current["status"] = new_status

        self.client.update_status(JOB, job, write)
        state.stored = new_status

    def _claimed_pods(self, job: Object) -> list[Object]:
        """Return the pods of a job that its selector matches, and release the others, which run on without it.

        A job that is being deleted releases none. Pods without a controller are not adopted.

        Source: ClaimObject in pkg/controller/controller_ref_manager.go of Kubernetes.
        """
        pods, uid = self.client.dependents(job, POD), job["metadata"]["uid"]
        selector = job["spec"]["selector"]
        claimed = [pod for pod in pods if matches_labels(selector, pod["metadata"].get("labels") or {})]

        def release(pod: Object) -> None:
            owners = pod["metadata"]["ownerReferences"]
            pod["metadata"]["ownerReferences"] = [owner for owner in owners if owner["uid"] != uid]
            _without_finalizer(pod)

        if "deletionTimestamp" not in job["metadata"]:
            for pod in pods:
                if pod not in claimed:
                    self.client.update(POD, pod, release)
        return claimed

    def _release_orphans(self, key: Key, job: Object | None) -> None:
        """Remove the finalizers of pods whose job is gone."""
        uid = job["metadata"]["uid"] if job else ""

        def is_orphan(pod: Object) -> bool:
            owner = controller_of(pod)
            if not _has_finalizer(pod) or not owner:
                return _has_finalizer(pod)
            return bool(owner["kind"] == "Job" and owner["name"] == key[2] and owner["uid"] != uid)

        self._remove_finalizers(self.client.store.all(POD, key[1], is_orphan)[0])

    def _remove_finalizers(self, pods: list[Object]) -> None:
        for pod in pods:
            self.client.update(POD, pod, _without_finalizer)


def _has_finalizer(pod: Object) -> bool:
    finalizers: list[str] = pod["metadata"].get("finalizers") or []
    return FINALIZER in finalizers


def _without_finalizer(pod: Object) -> None:
    pod["metadata"]["finalizers"] = [name for name in pod["metadata"].get("finalizers") or [] if name != FINALIZER]


def _policy_failure(job: Object, pods: list[Object]) -> str:
    """Return the message of the first failed pod that fails the job by its policy; empty if there is none."""
    messages = (verdict(job, pod).failure for pod in pods if has_failed(pod, job))
    return next(filter(None, messages), "")


def _rest_of_back_off(job: Object, state: JobState, pods: list[Object]) -> float:
    """Return the seconds until a failed pod may be replaced: 10, 20, 40 ... after the last failure."""
    failed_pods = [pod for pod in pods if has_failed(pod, job)]
    ends = [end for pod in failed_pods for end in _ends(pod)]
    failures = max(state.failures, len(failed_pods))  # pods that a policy ignores are replaced as late as others
    if not failures or not ends:
        return 0.0
    return float(min(_FIRST_BACK_OFF * 2.0 ** (failures - 1), _MAX_BACK_OFF) - seconds_since(max(ends)))


def _ends(pod: Object) -> list[str]:
    statuses: list[dict[str, Any]] = pod["status"].get("containerStatuses") or []
    return [
        container_status["state"]["terminated"]["finishedAt"]
        for container_status in statuses
        if "terminated" in container_status["state"]
    ]
