"""Kueue: a small stand-in for Kueue, which suspends jobs until their queue has capacity.

Source: https://kueue.sigs.k8s.io/docs/concepts/workload/ and https://kueue.sigs.k8s.io/docs/tasks/run/jobs/: a webhook
suspends each new job with a queue's name, and a controller starts it when it is admitted, and suspends it again when it
is preempted. Here, queues count pods, their names hold in all namespaces, and there are no objects of Kueue.
"""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from localcloud.kubernetes.controllers.controller import Controller
from localcloud.kubernetes.controllers.machine_share import hosts_of
from localcloud.kubernetes.resources import JOB, MPI_JOB_RESOURCE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.events import EventRecorder
    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Key, Object

QUEUE = "kueue.x-k8s.io/queue-name"
_RETRY_SECONDS = 0.25


class Kueue(Controller):
    """The queues of a cluster.

    Attributes:
        queues: The number of pods that the jobs of each queue may have together.
    """

    def __init__(self, client: Client, events: EventRecorder) -> None:
        super().__init__(client)
        self._events, self.queues = events, dict[str, int]()
        self._lock = threading.Lock()
        self._reservations: dict[str, tuple[str, int]] = {}
        self._not_before: dict[str, float] = {}

    def suspend_new(self, resource: Resource, new: Object) -> None:
        """Suspend a new job with a queue, as the webhook does."""
        if resource in (JOB, MPI_JOB_RESOURCE) and _queue(new):
            _suspend(new, suspended=True)

    def keys(self, key: Key, entry: Object) -> Iterable[Key]:
        """Return the keys of the jobs with a queue."""
        return [key] if key[0] in (JOB, MPI_JOB_RESOURCE) and _queue(entry) else []

    def sync(self, key: Key) -> float | None:
        """Admit a job, or suspend one that is not admitted."""
        job = self.client.find(*key)
        if job is None or _has_ended(job) or "deletionTimestamp" in job["metadata"]:
            self._release_absent()
            return None
        uid, suspended = job["metadata"]["uid"], _is_suspended(job)
        if self._admit(job):
            if suspended:
                self._events.normal(job, "Started", f"Admitted by clusterQueue {_queue(job)}")
                self.client.update(key[0], job, lambda changed: _suspend(changed, suspended=False))
            return None
        if not suspended:
            self._events.normal(job, "Stopped", "Not admitted by cluster queue")
            self.client.update(key[0], job, lambda changed: _suspend(changed, suspended=True))
        return _RETRY_SECONDS if uid not in self._reservations else None

    def preempt(self, name: str, seconds: float) -> None:
        """Suspend the running jobs of a name, which may be admitted again after some time."""
        for resource in (JOB, MPI_JOB_RESOURCE):
            for job in self.client.store.all(resource, where=lambda entry: entry["metadata"]["name"] == name)[0]:
                with self._lock:
                    self._reservations.pop(job["metadata"]["uid"], None)
                    self._not_before[job["metadata"]["uid"]] = time.monotonic() + seconds
                self._events.normal(job, "Stopped", "Preempted to accommodate a higher priority Workload")
                self.client.update(resource, job, lambda changed: _suspend(changed, suspended=True))

    def _admit(self, job: Object) -> bool:
        """Return True if a job is admitted, or can be now."""
        queue = _queue(job)
        need = hosts_of(job)
        uid = job["metadata"]["uid"]
        with self._lock:
            if uid in self._reservations:
                return True
            pods_in_use = sum(pods for name, pods in self._reservations.values() if name == queue)
            waits = time.monotonic() < self._not_before.get(uid, 0.0) or bool(job.get("status", {}).get("active"))
            if queue not in self.queues or pods_in_use + need > self.queues[queue] or waits:
                return False
            self._reservations[uid] = (queue, need)
            return True

    def _release_absent(self) -> None:
        """Release the capacity of jobs that have ended, or are gone."""
        running_uids = set()
        for resource in (JOB, MPI_JOB_RESOURCE):
            jobs, _ = self.client.store.all(resource, where=lambda entry: not _has_ended(entry))
            running_uids |= {entry["metadata"]["uid"] for entry in jobs}
        with self._lock:
            self._reservations = {
                uid: reservation for uid, reservation in self._reservations.items() if uid in running_uids
            }


def _queue(job: Object) -> str:
    return str((job["metadata"].get("labels") or {}).get(QUEUE, ""))


def _policy(job: Object) -> Object:
    spec: Object = job["spec"]
    return spec.setdefault("runPolicy", {}) if job["kind"] == "MPIJob" else spec


def _is_suspended(job: Object) -> bool:
    return bool(_policy(job).get("suspend"))


def _suspend(job: Object, *, suspended: bool) -> None:
    _policy(job)["suspend"] = suspended


def _has_ended(job: Object) -> bool:
    conditions = (job.get("status") or {}).get("conditions") or []
    return any(
        condition["type"] in ("Complete", "Succeeded", "Failed") and condition["status"] == "True"
        for condition in conditions
    )
