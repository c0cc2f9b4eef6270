"""Stub pod: a pod of the fault plan, which ends after some time without a process, without data and without a model."""

from __future__ import annotations

import json
import re
import threading
import time
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.kubelet.container import Container
from localcloud.kubernetes.kubelet.pod_status import PodStatus

if TYPE_CHECKING:
    from localcloud.faults.plan import Stub
    from localcloud.kubernetes.kubelet.node_agent import NodeAgent
    from localcloud.kubernetes.store import Object

_TERMINATED = 143
"""The exit code of a program that ends because of SIGTERM."""
_EXIT_CODE = re.compile(r",? *exit code: (\d+)$")
_OF_TRAINING, _OF_RESULTS = "AlgorithmError", ("InternalServerError", "ClientError")
"""The first words of the reasons of a training that fails, and of a sidecar; other words are reasons of a pod."""
_PROCESS: Any = object()


class StubPod:
    """A pod without processes; the kubelet calls `advance` until it has ended.

    Args:
        pod: The pod, which is assigned to a node.
        stub: Its time and its end.
    """

    def __init__(self, agent: NodeAgent, pod: Object, stub: Stub) -> None:
        self.uid, self._stub = pod["metadata"]["uid"], stub
        folder = agent.folder / self.uid
        init = pod["spec"].get("initContainers") or []
        main = pod["spec"]["containers"]
        self._init = [Container(spec=spec, folder=folder, is_init=True) for spec in init]
        self._main = [Container(spec=spec, folder=folder, is_init=False) for spec in main]
        self._status = PodStatus(agent.client, pod, self._init, self._main)
        self._end_at = float("inf")
        self._is_stopped = False
        self._lock = threading.Lock()
        self.is_alive = True

    def start(self) -> None:
        """Begin all containers at once; the init containers that are not sidecars have ended."""
        self._end_at = time.monotonic() + self._stub.seconds
        for container in (*self._init, *self._main):
            container.begin(_PROCESS)
            if container.is_init and not container.is_sidecar:
                container.end(0)
        self._status.begin()

    def advance(self) -> float | None:
        """End the pod if its time is over; return the seconds that are left, or None if it has ended."""
        with self._lock:
            if not self.is_alive:
                return None
            remaining_seconds = self._end_at - time.monotonic()
            if remaining_seconds > 0:
                return remaining_seconds
            self._finish()
            return None

    def delete(self, grace_seconds: float) -> None:
        """End the pod because it is being deleted; a later call can only shorten the grace period."""
        with self._lock:
            if not self._is_stopped:
                self._is_stopped = True
                self._end_at = time.monotonic() + self._stub.stop_seconds
            self._end_at = min(self._end_at, time.monotonic() + grace_seconds)

    def lose(self) -> None:
        """End the pod and report nothing, because its node is lost, or localcloud stops."""
        with self._lock:
            self._status.is_lost, self.is_alive = True, False

    def join(self) -> None:
        """Return at once; see `PodWorker`."""

    def _finish(self) -> None:
        reason = self._stub.reason if self._stub.outcome == "Failed" and not self._is_stopped else ""
        kind, _, text = reason.partition(": ")
        error = reason if kind in _OF_RESULTS else ""
        failure = _EXIT_CODE.sub("", text) if kind == _OF_TRAINING else ""
        code = _exit_code(text) if reason and not error else 0
        if self._is_stopped:
            code = _TERMINATED
        for container in self._main:
            container.end(code)
        for container in self._init:
            if container.runs:
                results = {"artifact": "", "failure": failure, "error": error}
                container.end(1 if error else 0, message=json.dumps(results))
        lost_state = (kind, text) if reason and kind not in (_OF_TRAINING, *_OF_RESULTS) else ()
        self._status.finish("Failed" if code else "Succeeded", *lost_state)
        self.is_alive = False


def _exit_code(reason: str) -> int:
    match = _EXIT_CODE.search(reason)
    return int(match[1]) if match else 1
