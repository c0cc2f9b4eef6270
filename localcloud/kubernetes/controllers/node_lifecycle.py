"""Node lifecycle: removes empty nodes and the pods of removed nodes.

Sources: https://karpenter.sh/docs/concepts/disruption/ (an empty node is removed after `consolidateAfter`, 30 seconds
in the node pools of EKS Auto Mode), and pkg/controller/podgc/gc_controller.go of Kubernetes (pods of nodes that do not
exist are deleted after a quarantine of 40 seconds; those that have not ended get the condition DisruptionTarget and
fail). So the pods of a job that has ended, with their logs and messages, are soon gone on a cluster with Karpenter.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from localcloud.kubernetes.controllers.controller import Controller
from localcloud.kubernetes.controllers.provisioner import NODE_POOL
from localcloud.kubernetes.events import seconds_since, timestamp
from localcloud.kubernetes.kubelet.pod_status import set_condition
from localcloud.kubernetes.resources import NODE, POD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.store import Key, Object

_ENDED = ("Succeeded", "Failed")
_CORDONED_SECONDS = 1.0
"""The time between the last pod that may be bound to an empty node, and the removal of the node."""


@dataclass(frozen=True, kw_only=True)
class NodeTimes:
    """The times of nodes.

    Attributes:
        consolidate_after: Seconds after which an empty node is removed.
        quarantine: Seconds after which the pods of a removed node are deleted.
        unscheduled: Seconds after which a pod that is being deleted without a node fails; up to 20 on a real cluster.
    """

    consolidate_after: float = 30.0
    quarantine: float = 40.0
    unscheduled: float = 2.0


DEFAULT_TIMES = NodeTimes()


class NodeLifecycle(Controller):
    """Removes nodes without running pods, and pods without a node."""

    def __init__(self, client: Client, times: NodeTimes) -> None:
        super().__init__(client)
        self._times = times
        self._empty_since: dict[str, float] = {}
        self._cordoned_at: dict[str, float] = {}
        self._orphan_since: dict[str, float] = {}

    def keys(self, key: Key, entry: Object) -> Iterable[Key]:
        """Return the key of a node, or of the node of a pod; a pod without a node has its own key."""
        if key[0] is NODE:
            return [key]
        if key[0] is not POD:
            return []
        name = entry["spec"].get("nodeName")
        return [(NODE, "", name) if name else key]

    def sync(self, key: Key) -> float | None:
        """Remove an empty node, or the pods of a removed one."""
        if key[0] is POD:
            return self._collect_unscheduled(key)
        name, now = key[2], time.monotonic()
        pods, _ = self.client.store.all(POD, where=lambda pod: pod["spec"].get("nodeName") == name)
        node = self.client.find(*key)
        if node is None:
            return self._collect(name, pods, now)
        self._orphan_since.pop(name, None)
        busy = any((pod.get("status") or {}).get("phase") not in _ENDED for pod in pods)
        if busy or NODE_POOL not in (node["metadata"].get("labels") or {}):
            self._empty_since.pop(name, None)
            if self._cordoned_at.pop(name, None):
                self.client.update(NODE, node, lambda changed: changed["spec"].pop("unschedulable", None))
            return None
        pause = self._empty_since.setdefault(name, now) + self._times.consolidate_after - now
        if pause > 0:
            return pause
        if name not in self._cordoned_at:  # as Karpenter does, because a pod may be bound to the node at this moment
            self._cordoned_at[name] = now
            self.client.update(NODE, node, lambda changed: changed["spec"].update(unschedulable=True))
        pause = self._cordoned_at[name] + _CORDONED_SECONDS - now
        if pause > 0:
            return pause
        del self._cordoned_at[name]
        self.client.delete(NODE, "", name)
        return 0.0

    def _collect_unscheduled(self, key: Key) -> float | None:
        """Fail a pod that is being deleted and has no node, because no kubelet will; its controller waits for that."""
        pod = self.client.find(*key)
        if pod is None or pod["spec"].get("nodeName") or "deletionTimestamp" not in pod["metadata"]:
            return None
        pause = self._times.unscheduled - seconds_since(pod["metadata"]["deletionTimestamp"])
        if pause > 0:
            return pause
        if pod["status"].get("phase") not in _ENDED:
            self.client.update_status(POD, pod, lambda changed: changed["status"].update(phase="Failed"))
        self.client.delete(POD, key[1], key[2], uid=pod["metadata"]["uid"], grace_seconds=0)
        return None

    def _collect(self, name: str, pods: list[Object], now: float) -> float | None:
        if not pods:
            self._orphan_since.pop(name, None)
            return None
        pause = self._orphan_since.setdefault(name, now) + self._times.quarantine - now
        if pause > 0:
            return pause
        for pod in pods:
            if pod["status"].get("phase") not in _ENDED:
                self.client.update_status(POD, pod, _fail)
            metadata = pod["metadata"]
            self.client.delete(POD, metadata["namespace"], metadata["name"], uid=metadata["uid"], grace_seconds=0)
        return None


def _fail(pod: Object) -> None:
    status = pod["status"]
    status["phase"] = "Failed"
    message = "PodGC: node no longer exists"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "DeletionByPodGC", "message": message}
    set_condition(status, condition, timestamp())
