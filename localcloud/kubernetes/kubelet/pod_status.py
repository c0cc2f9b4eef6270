"""Pod status: the status of a pod that its node reports.

Sources: pkg/kubelet/kubelet_pods.go (getPhase, generateAPIPodStatus) and pkg/kubelet/status/generate.go of Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.events import timestamp
from localcloud.kubernetes.resources import POD

if TYPE_CHECKING:
    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.kubelet.container import Container
    from localcloud.kubernetes.store import Object

ADDRESS = "127.0.0.1"
_REASON_OF_PHASE = {"Succeeded": "PodCompleted", "Failed": "PodFailed"}
"""The reason of the conditions Ready and ContainersReady of a pod that has ended."""


class PodStatus:
    """The status of one pod.

    Attributes:
        started_at: The time at which the node has accepted the pod.
        is_lost: True once the node is lost; nothing is stored any more.
    """

    def __init__(self, client: Client, pod: Object, init: list[Container], main: list[Container]) -> None:
        self._client, self._pod, self._init, self._main = client, pod, init, main
        self._phase, self._reason, self._message = "", "", ""
        self.started_at, self.is_lost = timestamp(), False

    def begin(self) -> None:
        """Report that the node has accepted the pod."""
        self.publish()

    def finish(self, phase: str, reason: str = "", message: str = "") -> None:
        """Report the end of the pod."""
        self._phase, self._reason, self._message = phase, reason, message
        self.publish()

    def publish(self) -> None:
        """Store the status."""
        if not self.is_lost:
            self._client.update_status(POD, self._pod, self._write)

    def _write(self, pod: Object) -> None:
        status = pod.setdefault("status", {})
        metadata, now = pod["metadata"], timestamp()
        full_name = f"{metadata['name']}_{metadata['namespace']}({metadata['uid']})"
        status |= {
            "phase": self._phase or self._current_phase(),
            "startTime": self.started_at,
            "hostIP": ADDRESS,
            "hostIPs": [{"ip": ADDRESS}],
            "podIP": ADDRESS,
            "podIPs": [{"ip": ADDRESS}],
            "containerStatuses": [container.status(full_name) for container in self._main],
        }
        if self._init:
            status["initContainerStatuses"] = [container.status(full_name) for container in self._init]
        for name, value in (("reason", self._reason), ("message", self._message)):
            if value:
                status[name] = value
        for condition in self._conditions():
            set_condition(status, condition, now)

    def _current_phase(self) -> str:
        started = all(container.group or container.terminated for container in self._main)
        return "Running" if started else "Pending"

    def _conditions(self) -> list[dict[str, Any]]:
        uninitialized = [container for container in self._init if not _is_initialized(container)]
        initialized = not uninitialized or any(container.group for container in self._main)
        ready = not self._phase and all(container.runs for container in self._main) and initialized
        has_begun = any(container.group or container.terminated for container in (*self._init, *self._main))
        conditions = [
            _condition("PodReadyToStartContainers", holds=has_begun and not self._phase),
            _condition("Initialized", holds=initialized, reason="ContainersNotInitialized"),
        ]
        if self._phase == "Succeeded":
            conditions[1] = _condition("Initialized", holds=True, reason="PodCompleted")
        if not initialized:
            names = " ".join(container.name for container in uninitialized)
            conditions[1]["message"] = f"containers with incomplete status: [{names}]"
        reason = _REASON_OF_PHASE.get(self._phase, "ContainersNotReady")
        for kind in ("Ready", "ContainersReady"):
            conditions.append(_condition(kind, holds=ready, reason=reason))
            if not ready and not self._phase:
                names = " ".join(container.name for container in self._main if not container.runs)
                conditions[-1]["message"] = f"containers with unready status: [{names}]"
        return conditions


def _is_initialized(container: Container) -> bool:
    """Return True if the pod need not wait for an init container: a sidecar runs, any other one has succeeded."""
    return container.runs if container.is_sidecar else container.has_succeeded


def set_condition(status: dict[str, Any], condition: dict[str, Any], now: str) -> None:
    """Add a condition to a status, or replace the condition of its type; an unchanged condition keeps its time."""
    conditions = status.setdefault("conditions", [])
    current = next((entry for entry in conditions if entry["type"] == condition["type"]), None)
    has_changed = current is None or current["status"] != condition["status"]
    transition_time = now if has_changed or current is None else current.get("lastTransitionTime", now)
    new = {**condition, "lastProbeTime": None, "lastTransitionTime": transition_time}
    if current is None:
        conditions.append(new)
    else:
        conditions[conditions.index(current)] = new


def _condition(kind: str, *, holds: bool, reason: str = "") -> dict[str, Any]:
    has_reason = reason and (not holds or reason == "PodCompleted")
    condition = {"type": kind, "status": "True" if holds else "False"}
    if has_reason:
        condition["reason"] = reason
    return condition
