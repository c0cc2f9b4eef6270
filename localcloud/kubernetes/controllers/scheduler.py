"""Scheduler: assigns pods to nodes.

The texts are those of kube-scheduler (pkg/scheduler/framework/types.go, FitError, and pkg/scheduler/schedule_one.go).
A pod is marked as unschedulable while a node is being added for it, as on a real cluster with Karpenter.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from localcloud.kubernetes.controllers.controller import Controller
from localcloud.kubernetes.controllers.node_fit import may_fit_alone, misfits
from localcloud.kubernetes.events import timestamp
from localcloud.kubernetes.kubelet.pod_status import set_condition
from localcloud.kubernetes.resources import NODE, POD

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.controllers.machine_share import MachineShares
    from localcloud.kubernetes.controllers.provisioner import Provisioner
    from localcloud.kubernetes.events import EventRecorder
    from localcloud.kubernetes.store import Key, Object

_NOT_HELPFUL, _NO_VICTIMS = "Preemption is not helpful for scheduling", "No preemption victims found for incoming pod"
_RETRY_SECONDS = 0.25
_RELEASE_SECONDS = 0.5


class PodScheduler(Controller):
    """The scheduler of a cluster.

    Args:
        shares: The capacity of this machine.
        provisioner: Adds nodes; None for a cluster with fixed nodes.
    """

    def __init__(
        self, client: Client, events: EventRecorder, shares: MachineShares, provisioner: Provisioner | None
    ) -> None:
        super().__init__(client)
        self._events, self._shares, self._provisioner = events, shares, provisioner

    def keys(self, key: Key, entry: Object) -> Iterable[Key]:
        """Return the keys of the pods without a node, also after a pod has ended, which may free capacity."""
        if key[0] is not POD:
            return []
        return [(POD, "", "")] if entry["spec"].get("nodeName") else [key, (POD, "", "")]

    def sync(self, key: Key) -> float | None:
        """Assign a pod to a node, if it fits on one."""
        if not key[2]:
            return _RELEASE_SECONDS if self._shares.release() else None
        pod = self.client.find(*key)
        if pod is None or pod["spec"].get("nodeName") or "deletionTimestamp" in pod["metadata"]:
            return None
        if pod["spec"].get("schedulingGates"):
            message = "Scheduling is blocked due to non-empty scheduling gates"
            self._condition(pod, holds=False, reason="SchedulingGated", message=message)
            return None
        nodes, _ = self.client.store.all(NODE)
        pods, _ = self.client.store.all(POD, where=_uses_node)
        reasons_by_node = {node["metadata"]["name"]: misfits(pod, node, pods, nodes) for node in nodes}
        name = next((name for name, reasons in reasons_by_node.items() if not reasons), "")
        if name and self._shares.has(pod):
            self._bind(pod, name)
            return None
        if not name:
            self._refuse(pod, list(reasons_by_node.values()), sum(may_fit_alone(pod, node) for node in nodes))
        node = self._provisioner.candidate(pod, pods, nodes) if self._provisioner and not name else None
        if self._provisioner and node and self._shares.has(pod):
            self._provisioner.add(pod, node)
            return 0.0
        return _RETRY_SECONDS

    def _bind(self, pod: Object, node: str) -> None:
        if self.client.update(POD, pod, lambda changed: changed["spec"].update(nodeName=node)):
            self._condition(pod, holds=True)
            metadata = pod["metadata"]
            text = f"Successfully assigned {metadata['namespace']}/{metadata['name']} to {node}"
            self._events.normal(pod, "Scheduled", text)

    def _refuse(self, pod: Object, reasons: list[list[str]], full: int) -> None:
        """Mark a pod as unschedulable; `full` nodes could hold it without their other pods."""
        message = "no nodes available to schedule pods"
        if reasons:
            total = f"0/{len(reasons)} nodes are available"
            reason_counts = _counted_reasons(Counter(reason for of_node in reasons for reason in of_node))
            preemption = _counted_reasons(Counter({_NOT_HELPFUL: len(reasons) - full, _NO_VICTIMS: full}))
            message = f"{total}: {reason_counts}. no new claims to deallocate, preemption: {total}: {preemption}."
        conditions = (pod.get("status") or {}).get("conditions") or []
        if any(condition["type"] == "PodScheduled" and condition.get("message") == message for condition in conditions):
            return
        self._condition(pod, holds=False, reason="Unschedulable", message=message)
        self._events.warning(pod, "FailedScheduling", message)

    def _condition(self, pod: Object, *, holds: bool, reason: str = "", message: str = "") -> None:
        texts = {"reason": reason, "message": message} if reason else {}
        condition = {"type": "PodScheduled", "status": "True" if holds else "False", **texts}
        self.client.update_status(POD, pod, lambda changed: set_condition(changed["status"], condition, timestamp()))


def _counted_reasons(counts: Counter[str]) -> str:
    return ", ".join(sorted(f"{count} {reason}" for reason, count in counts.items() if count))


def _uses_node(pod: Object) -> bool:
    """Return True for a pod that uses resources of its node."""
    return bool(pod["spec"].get("nodeName")) and pod["status"].get("phase") not in ("Succeeded", "Failed")
