"""Kubelet: starts and ends the pods that are assigned to the nodes of a cluster."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from localcloud.kubernetes.controllers.controller import Controller
from localcloud.kubernetes.controllers.machine_share import root_of
from localcloud.kubernetes.events import seconds_since
from localcloud.kubernetes.kubelet import local_storage
from localcloud.kubernetes.kubelet.pod_worker import PodWorker
from localcloud.kubernetes.kubelet.stub_pod import StubPod
from localcloud.kubernetes.resources import POD, SERVICE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.kubelet.node_agent import NodeAgent
    from localcloud.kubernetes.store import Key, Object

_ENDED = ("Succeeded", "Failed")


class Kubelet(Controller):
    """Runs a worker for each pod of every node."""

    def __init__(self, agent: NodeAgent) -> None:
        super().__init__(agent.client)
        self._agent = agent
        self._workers: dict[str, PodWorker | StubPod] = {}
        self._uids: dict[Key, set[str]] = {}
        self._lost_nodes: set[str] = set()
        self._measured_at: dict[str, float] = {}

    def keys(self, key: Key, entry: Object) -> Iterable[Key]:
        """Synchronize pods; a Service changes the names of all pods."""
        if key[0] is POD and (entry["spec"].get("nodeName") or key in self._uids):
            return [key]
        return [(SERVICE, "", "")] if key[0] is SERVICE else []

    def sync(self, key: Key) -> float | None:
        """Start or end a pod."""
        if key[0] is SERVICE:
            self._agent.network.refresh()
            return None
        pod = self.client.find(*key)
        uid = pod["metadata"]["uid"] if pod else ""
        self._end_others(key, uid)
        if pod is None:
            return None
        uids = self._uids.setdefault(key, set())
        if uid not in uids:
            uids.add(uid)
            if (pod.get("status") or {}).get("phase") not in _ENDED and pod["spec"]["nodeName"] not in self._lost_nodes:
                self._workers[uid] = self._worker(pod)
                self._workers[uid].start()
        worker = self._workers.get(uid)
        if isinstance(worker, StubPod):
            rests = [pause for pause in (self._end_deleted(pod), worker.advance()) if pause is not None]
            return min(rests, default=None)
        self._agent.network.refresh()
        rests = [pause for pause in (self._end_deleted(pod), self._limit_storage(pod)) if pause is not None]
        return min(rests, default=None)

    def _worker(self, pod: Object) -> PodWorker | StubPod:
        stub = self._agent.stub_of(root_of(self.client, pod))
        return StubPod(self._agent, pod, stub) if stub else PodWorker(self._agent, pod)

    def lose_node(self, name: str) -> None:
        """Kill the pods of a node, which is lost: their last status stays as it is."""
        self._lost_nodes.add(name)
        pods, _ = self.client.store.all(POD, where=lambda pod: pod["spec"].get("nodeName") == name)
        for pod in pods:
            if worker := self._workers.get(pod["metadata"]["uid"]):
                worker.lose()

    def runs(self, uid: str) -> bool:
        """Return True if a pod has processes, or its last status is not stored yet."""
        worker = self._workers.get(uid)
        return worker is not None and worker.is_alive

    def stop(self) -> None:
        """End the thread, and all pods."""
        super().stop()
        for worker in self._workers.values():
            worker.lose()
        for worker in self._workers.values():
            worker.join()
        self._agent.network.close()

    def _end_deleted(self, pod: Object) -> float | None:
        """End a pod that is being deleted, and delete it once it has ended."""
        metadata, uid = pod["metadata"], pod["metadata"]["uid"]
        if "deletionTimestamp" not in metadata:
            return None
        worker = self._workers.get(uid)
        if worker and worker.is_alive:
            worker.delete(max(0.0, -seconds_since(metadata["deletionTimestamp"])))
            return 0.1
        if pod["spec"]["nodeName"] in self._lost_nodes or not metadata["deletionGracePeriodSeconds"]:
            return None  # a lost node's pods end by PodGC; others wait for their finalizers
        self.client.delete(POD, metadata["namespace"], metadata["name"], uid=uid, grace_seconds=0)
        return None

    def _limit_storage(self, pod: Object) -> float | None:
        """Evict a pod that exceeds a limit of local storage; return the seconds until it is measured again."""
        uid = pod["metadata"]["uid"]
        worker = self._workers.get(uid)
        if not isinstance(worker, PodWorker) or not worker.is_alive or not local_storage.is_limited(pod):
            return None
        pause = self._measured_at.get(uid, 0.0) + local_storage.PERIOD_SECONDS - time.monotonic()
        if pause > 0:
            return pause
        self._measured_at[uid] = time.monotonic()
        if message := local_storage.excess(pod, worker.folder / "volumes"):
            self._agent.events.warning(pod, "Evicted", message)
            worker.evict(message)
        return local_storage.PERIOD_SECONDS

    def _end_others(self, key: Key, uid: str) -> None:
        """Kill the processes of pods that were removed from the API, and remove their files."""
        for removed_uid in self._uids.get(key, set()) - {uid}:
            if worker := self._workers.pop(removed_uid, None):
                worker.lose()
                worker.join()
            self._agent.remove(removed_uid)
            self._measured_at.pop(removed_uid, None)
            self._uids[key].discard(removed_uid)
        if not uid:
            self._uids.pop(key, None)
