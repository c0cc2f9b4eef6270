"""Container: one container of a pod, its process and its status.

Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#container-states and
https://kubernetes.io/docs/tasks/debug/debug-application/determine-reason-pod-failure/ (termination messages); for a
container that waits for its restart convertToAPIContainerStatuses in pkg/kubelet/kubelet_pods.go,
ShouldContainerBeRestarted in pkg/kubelet/container/helpers.go and doBackOff in pkg/kubelet/kuberuntime of Kubernetes.
"""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.events import timestamp

if TYPE_CHECKING:
    from pathlib import Path

    from localcloud.kubernetes.kubelet.logs import ContainerLog
    from localcloud.processes.process_group import ProcessGroup

_MAX_MESSAGE = 4096
_MAX_LOG_MESSAGE, _MAX_LOG_LINES = 2048, 80
_FIRST_BACK_OFF, _MAX_BACK_OFF = 10.0, 300.0


@dataclass(kw_only=True)
class Container:
    """A container of a pod.

    Attributes:
        is_init: True for an init container, also for a sidecar.
        pod_policy: The restart policy of its pod.
        waiting: The reason and the message of its waiting state.
        group: Its process, once it has started.
        log: The output of its present or last start.
        last: The terminated state before a restart.
        restart_at: The time of `time.monotonic` at which it starts again.
        container_id: The id of its present or last start.
    """

    spec: dict[str, Any]
    folder: Path
    is_init: bool
    pod_policy: str = "Never"
    waiting: tuple[str, str] = ("PodInitializing", "")
    group: ProcessGroup | None = None
    log: ContainerLog | None = None
    started_at: str = ""
    restarts: int = 0
    terminated: dict[str, Any] | None = None
    last: dict[str, Any] = field(default_factory=dict)
    restart_at: float | None = None
    container_id: str = ""

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.spec["name"])

    @property
    def is_sidecar(self) -> bool:
        """True for an init container that runs as long as the pod."""
        return self.is_init and self.spec.get("restartPolicy") == "Always"

    @property
    def runs(self) -> bool:
        """True while its process runs."""
        return self.group is not None and self.terminated is None

    @property
    def has_succeeded(self) -> bool:
        """True if it has ended with exit code 0."""
        return self.terminated is not None and self.terminated["exitCode"] == 0

    @property
    def message_file(self) -> Path:
        """The file of its termination message."""
        return self.folder / "termination-log"

    def begin(self, group: ProcessGroup) -> None:
        """Record that its process has started."""
        self._count_restart()
        self.group = group
        self.terminated = None
        self.restart_at = None
        self.started_at = timestamp()
        self.container_id = f"containerd://{uuid.uuid4().hex}{uuid.uuid4().hex}"

    def fail_to_begin(self, message: str) -> None:
        """Record that its process could not be started."""
        self._count_restart()
        self.started_at = timestamp()
        self.end(128, "StartError", message)

    def end(self, exit_code: int, reason: str = "", message: str = "") -> None:
        """Record that its process has ended, or could not be started."""
        if self.log:
            self.log.end()
        now = timestamp()
        text = message or self._message(exit_code)
        self.terminated = {
            "exitCode": exit_code,
            "reason": reason or ("Completed" if exit_code == 0 else "Error"),
            **({"message": text} if text else {}),
            "startedAt": self.started_at or now,
            "finishedAt": now,
            "containerID": self.container_id,
        }

    def schedule_restart(self) -> float:
        """Start it again, at first at once, and later after a time that doubles; return the seconds."""
        seconds = min(_FIRST_BACK_OFF * 2.0 ** (self.restarts - 1), _MAX_BACK_OFF) if self.restarts else 0.0
        self.restart_at = time.monotonic() + seconds
        return seconds

    def status(self, pod: str) -> dict[str, Any]:
        """Return its status; `pod` is the full name of the pod."""
        image = self.spec["image"]
        finished = self.is_init and not self.is_sidecar
        return {
            "name": self.name,
            "image": image,
            "imageID": image if self.container_id else "",
            "ready": self.has_succeeded if finished else self.runs,
            "started": self.runs,
            "restartCount": self.restarts,
            "state": self._state(pod),
            "lastState": {"terminated": self.terminated} if self._waits_for_restart else self.last,
            **({"containerID": self.container_id} if self.container_id else {}),
        }

    def _count_restart(self) -> None:
        if self.terminated:
            self.last = {"terminated": self.terminated}
            self.restarts = self.restarts + 1

    @property
    def _waits_for_restart(self) -> bool:
        """True if its state is that it waits; a sidecar has ended in the meantime if its pod is never restarted."""
        ended_well = self.is_init and self.has_succeeded
        return self.restart_at is not None and self.pod_policy != "Never" and not ended_well

    def _state(self, pod: str) -> dict[str, Any]:
        if self.restart_at is not None and self._waits_for_restart:
            message = f"back-off {self.restart_at - time.monotonic():.0f}s restarting failed container={self.name}"
            return {"waiting": {"reason": "CrashLoopBackOff", "message": f"{message} pod={pod}"}}
        if self.terminated:
            return {"terminated": self.terminated}
        if self.group:
            return {"running": {"startedAt": self.started_at}}
        reason, message = self.waiting
        return {"waiting": {"reason": reason, "message": message} if message else {"reason": reason}}

    def _message(self, exit_code: int) -> str:
        try:
            text = self.message_file.read_bytes()[:_MAX_MESSAGE].decode(errors="replace")
        except OSError:
            text = ""
        if text or exit_code == 0 or self.spec.get("terminationMessagePolicy") != "FallbackToLogsOnError":
            return text
        lines = self.log.lines() if self.log else []
        return "".join(f"{line.text}\n" for line in lines[-_MAX_LOG_LINES:])[-_MAX_LOG_MESSAGE:]
