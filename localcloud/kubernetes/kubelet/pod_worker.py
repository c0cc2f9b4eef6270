"""Pod worker: the life of one pod on its node, from its first container to its end.

Sources: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/,
https://kubernetes.io/docs/concepts/workloads/pods/init-containers/ and
https://kubernetes.io/docs/concepts/workloads/pods/sidecar-containers/; for the order of the ends and the final status
pkg/kubelet/kubelet_pods.go and pkg/kubelet/kuberuntime/kuberuntime_termination_order.go of Kubernetes. No sidecar is
restarted after the containers have ended (computePodActions in pkg/kubelet/kuberuntime/kuberuntime_manager.go). Of
probes, only startup probes of sidecars that run a command exist; there are no lifecycle hooks.
"""

from __future__ import annotations

import queue
import signal
import threading
import time
import traceback
from typing import TYPE_CHECKING, Any, Literal

from localcloud.kubernetes.events import seconds_since
from localcloud.kubernetes.kubelet.container import Container
from localcloud.kubernetes.kubelet.environment import ConfigError
from localcloud.kubernetes.kubelet.image import PullError
from localcloud.kubernetes.kubelet.pod_status import PodStatus
from localcloud.kubernetes.kubelet.volumes import MountError

if TYPE_CHECKING:
    from localcloud.kubernetes.kubelet.node_agent import NodeAgent
    from localcloud.kubernetes.store import Object
    from localcloud.processes.process_group import ProcessGroup

_MIN_SIDECAR_GRACE = 2.0
"""Seconds that a sidecar has at least after SIGTERM (minimumGracePeriodInSeconds of the kubelet)."""
_RETRY_MOUNT_SECONDS = 1.0
_FIRST_PULL_BACK_OFF, _MAX_PULL_BACK_OFF = 10.0, 300.0

_EVICTION_GRACE = 1.0
"""Seconds that an evicted pod has (immediateEvictionGracePeriodSeconds of the kubelet)."""

Reason = Literal["deleted", "deadline", "evicted", "lost"]


class _StopError(Exception):
    """The pod must end before its containers have."""


class PodWorker:
    """Runs one pod in its own thread.

    Args:
        pod: The pod, which is assigned to a node.
    """

    def __init__(self, agent: NodeAgent, pod: Object) -> None:
        self._agent, self._pod = agent, pod
        self.uid, self._spec = pod["metadata"]["uid"], pod["spec"]
        self.folder = agent.folder / self.uid
        self._init = [self._container(spec, is_init=True) for spec in self._spec.get("initContainers") or []]
        self._main = [self._container(spec, is_init=False) for spec in self._spec["containers"]]
        self._status = PodStatus(agent.client, pod, self._init, self._main)
        self._news: queue.Queue[tuple[Container, ProcessGroup] | None] = queue.Queue()
        self._stop_reason: Reason | None = None
        self._kill_at, self._eviction = float("inf"), ""
        self._lock = threading.Lock()
        self._thread = threading.Thread(target=self._run, name=f"pod-{pod['metadata']['name']}", daemon=True)

    @property
    def is_alive(self) -> bool:
        """True until the pod has ended, and its last status is stored."""
        return self._thread.is_alive()

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def delete(self, grace_seconds: float) -> None:
        """End the pod because it is being deleted; a later call can only shorten the grace period."""
        with self._lock:
            self._stop_reason = self._stop_reason or "deleted"
            self._kill_at = min(self._kill_at, time.monotonic() + grace_seconds)
        self._news.put(None)

    def evict(self, message: str) -> None:
        """End the pod at once, with the reason Evicted, because it exceeds one of its limits."""
        with self._lock:
            self._stop_reason = self._stop_reason or "evicted"
            self._eviction = message
            self._kill_at = min(self._kill_at, time.monotonic() + _EVICTION_GRACE)
        self._news.put(None)

    def lose(self) -> None:
        """Kill all processes and report nothing, because the node is lost, or localcloud stops."""
        with self._lock:
            self._stop_reason, self._kill_at = "lost", 0.0
            self._status.is_lost = True
        self._kill()
        self._news.put(None)

    def join(self) -> None:
        """Wait until the pod has ended."""
        self._thread.join()

    def _container(self, spec: dict[str, Any], *, is_init: bool) -> Container:
        waiting = ("PodInitializing" if self._spec.get("initContainers") else "ContainerCreating", "")
        folder = self.folder / "containers" / str(spec["name"])
        policy = str(self._spec["restartPolicy"])
        return Container(spec=spec, folder=folder, is_init=is_init, pod_policy=policy, waiting=waiting)

    def _run(self) -> None:
        try:
            self._run_pod()
        except Exception:  # noqa: BLE001 - a defect of localcloud: the pod must end nevertheless
            traceback.print_exc()
            self._kill()
            self._status.finish("Failed", "UnexpectedAdmissionError", "localcloud could not run this pod")
        finally:
            self._kill()
            self._agent.network.leave(self.uid)

    def _run_pod(self) -> None:
        """Mount the volumes, run the containers until all have ended or the pod is stopped, and report the end."""
        self._status.begin()
        try:
            self._mount()
            self._agent.network.join(self._pod, self.folder)
            if self._initialize():
                for container in self._main:
                    self._begin(container)
                self._wait_until(lambda: all(self._has_ended(main_container) for main_container in self._main))
        except _StopError:  # deleted, evicted, lost or past its deadline
            pass
        self._terminate()
        if self._stop_reason != "lost":  # a lost node reports nothing
            self._finish()

    def _finish(self) -> None:
        """Report the end of the pod.

        The deadline also fails a pod whose containers have ended without an error, for example because its sidecars
        ended late: the kubelet compares only the start of the pod with its clock (pkg/kubelet/active_deadline.go of
        Kubernetes), after it has computed the phase (generateAPIPodStatus in pkg/kubelet/kubelet_pods.go). The status
        of an eviction replaces both (SyncTerminatingPod in pkg/kubelet/kubelet.go).
        """
        remaining = self._rest_of_deadline()
        if self._eviction:
            self._status.finish("Failed", "Evicted", self._eviction)
        elif remaining is not None and remaining <= 0:
            message = "Pod was active on the node longer than the specified deadline"
            self._status.finish("Failed", "DeadlineExceeded", message)
        else:
            self._status.finish("Succeeded" if all(container.has_succeeded for container in self._main) else "Failed")

    def _mount(self) -> None:
        while True:
            try:
                self._agent.mount(self._pod, self.folder)
            except MountError as error:
                self._agent.events.warning(self._pod, "FailedMount", error.message)
                self._pause(_RETRY_MOUNT_SECONDS)
            else:
                return

    def _initialize(self) -> bool:
        """Run the init containers in order, and start the sidecars among them; return False if one has failed."""
        for container in self._init:
            self._begin(container)
            if container.is_sidecar:
                self._await_startup(container)
                continue
            self._wait_until(lambda watched=container: self._has_ended(watched))
            if not container.has_succeeded:
                return False
        return True

    def _await_startup(self, container: Container) -> None:
        """Wait until the startup probe of a sidecar succeeds; it is repeated without a limit."""
        probe = container.spec.get("startupProbe") or {}
        if "exec" not in probe:
            return
        self._pause(float(probe.get("initialDelaySeconds") or 0))
        while not self._agent.probe(self._pod, container, self.folder, probe):
            self._pause(float(probe.get("periodSeconds") or 10))

    def _has_ended(self, container: Container) -> bool:
        return container.terminated is not None and container.restart_at is None

    def _begin(self, container: Container) -> None:
        """Pull the image and start the process; a failure to start it ends the container."""
        seconds = _FIRST_PULL_BACK_OFF
        container.waiting = ("ContainerCreating" if container in self._main else "PodInitializing", "")
        while container.group is None or container.restart_at is not None:
            try:
                group = self._agent.start_container(self._pod, container, self.folder)
            except PullError as error:
                self._report_pull(container, error)
                self._pause(min(seconds, 1.0) if error.reason == "InvalidImageName" else 0.2)
                container.waiting = ("ImagePullBackOff", f'Back-off pulling image "{container.spec["image"]}"')
                if error.reason == "ErrImagePull":
                    container.waiting = (container.waiting[0], f"{container.waiting[1]}: ErrImagePull: {error.message}")
                    path = _field_path(container)
                    self._agent.events.normal(self._pod, "BackOff", container.waiting[1].partition(": ")[0], path)
                    self._agent.events.warning(self._pod, "Failed", "Error: ImagePullBackOff", path)
                else:
                    container.waiting = (error.reason, error.message)
                self._status.publish()
                self._pause(seconds)
                seconds = min(seconds * 2, _MAX_PULL_BACK_OFF)
            except ConfigError as error:
                container.waiting = ("CreateContainerConfigError", str(error))
                self._agent.events.warning(self._pod, "Failed", f"Error: {error}", _field_path(container))
                self._status.publish()
                self._pause(1.0)
            except OSError as error:
                message = f"failed to create containerd task: failed to create shim task: {error}"
                container.fail_to_begin(message)
                self._agent.events.warning(self._pod, "Failed", f"Error: {message}", _field_path(container))
                self._restart_or_end(container)
                self._status.publish()
                return
            else:
                container.begin(group)
                threading.Thread(target=self._watch, args=(container, group), daemon=True).start()
                self._status.publish()

    def _report_pull(self, container: Container, error: PullError) -> None:
        container.waiting = (error.reason, error.message)
        path = _field_path(container)
        image = container.spec["image"]
        if error.reason == "ErrImagePull":
            self._agent.events.warning(self._pod, "Failed", f'Failed to pull image "{image}": {error.message}', path)
            self._agent.events.warning(self._pod, "Failed", "Error: ErrImagePull", path)
        else:
            self._agent.events.warning(self._pod, "InspectFailed", error.message, path)
        self._status.publish()

    def _watch(self, container: Container, group: ProcessGroup) -> None:
        group.wait()
        self._news.put((container, group))

    def _wait_until(self, reached: Any) -> None:
        """Wait until a condition on the containers holds.

        Raises:
            _StopError: The pod must end before.
        """
        while not reached():
            self._step(None)

    def _pause(self, seconds: float) -> None:
        """Wait; raise _StopError if the pod must end before."""
        deadline = time.monotonic() + seconds
        while (remaining := deadline - time.monotonic()) > 0:
            self._step(remaining)

    def _step(self, seconds: float | None) -> None:
        """Handle one event, or wait for some time."""
        self._check()
        times = [
            restarting.restart_at for restarting in (*self._init, *self._main) if restarting.restart_at is not None
        ]
        rests = [deadline - time.monotonic() for deadline in times]
        rests += [remaining for remaining in (self._rest_of_deadline(), seconds) if remaining is not None]
        try:
            news = self._news.get(timeout=max(0.0, min(rests)) if rests else None)
        except queue.Empty:
            news = None
        self._handle(news)
        self._check()
        for container in (*self._init, *self._main):
            if container.restart_at is not None and container.restart_at <= time.monotonic():
                self._begin(container)

    def _check(self) -> None:
        if self._stop_reason:
            raise _StopError
        remaining = self._rest_of_deadline()
        if remaining is not None and remaining <= 0:
            with self._lock:
                self._stop_reason = self._stop_reason or "deadline"
            raise _StopError

    def _rest_of_deadline(self) -> float | None:
        seconds = self._spec.get("activeDeadlineSeconds")
        return None if seconds is None else float(seconds) - seconds_since(self._status.started_at)

    def _handle(self, news: tuple[Container, ProcessGroup] | None) -> None:
        """Record the end of a container."""
        if news is None or news[0].group is not news[1]:
            return
        container, group = news
        container.end(group.wait() or 0)
        self._agent.end_container(self._pod, container)
        if not self._stop_reason:
            self._restart_or_end(container)
        self._status.publish()

    def _restart_or_end(self, container: Container) -> None:
        policy = "Always" if container.is_sidecar else self._spec["restartPolicy"]
        if container.is_init and not container.is_sidecar and policy == "Always":
            policy = "OnFailure"
        restarts = policy == "Always" or (policy == "OnFailure" and not container.has_succeeded)
        if restarts and container.schedule_restart():
            message = f"Back-off restarting failed container {container.name} in pod {self._pod['metadata']['name']}"
            self._agent.events.warning(self._pod, "BackOff", message, _field_path(container))

    def _terminate(self) -> None:
        """End the running containers: first all others, then the sidecars in reverse order, within the grace period."""
        with self._lock:
            grace = float(self._spec["terminationGracePeriodSeconds"])
            self._kill_at = min(self._kill_at, time.monotonic() + grace)
            has_reason = self._stop_reason is not None
        for container in (*self._init, *self._main):
            container.restart_at = None
        sidecars = [worker_container for worker_container in self._init if worker_container.is_sidecar]
        main_containers = [
            worker_container
            for worker_container in (*self._init, *self._main)
            if not worker_container.is_sidecar and worker_container.runs
        ]
        if has_reason:
            for container in main_containers:
                self._send_sigterm(container)
        self._await(main_containers, 0.0)
        for container in reversed(sidecars):
            if container.runs:
                self._send_sigterm(container)
                self._await([container], _MIN_SIDECAR_GRACE)

    def _send_sigterm(self, container: Container) -> None:
        """Stop a container. As PID 1, its program only gets a signal for which it has a handler (pid_namespaces(7))."""
        self._agent.events.normal(self._pod, "Killing", f"Stopping container {container.name}", _field_path(container))
        is_first = not self._spec.get("shareProcessNamespace")
        if container.group and (not is_first or container.group.handles(signal.SIGTERM)):
            container.group.terminate()

    def _await(self, containers: list[Container], least: float) -> None:
        """Wait until containers have ended; kill them when the grace period is over, but not before `least` seconds."""
        started = time.monotonic()
        while any(container.runs for container in containers):
            is_lost = self._stop_reason == "lost"
            remaining = max(self._kill_at, 0.0 if is_lost else started + least) - time.monotonic()
            if remaining <= 0:
                for container in containers:
                    if container.runs and container.group:
                        container.group.kill()
            try:
                news = self._news.get(timeout=max(0.0, remaining) or None)
            except queue.Empty:
                continue
            self._handle(news)

    def _kill(self) -> None:
        for container in (*self._init, *self._main):
            if container.runs and container.group:
                container.group.kill()


def _field_path(container: Container) -> str:
    return f"spec.{'initContainers' if container.is_init else 'containers'}{{{container.name}}}"
