"""Pods: the state of one pod of a training job, and of its three containers.

Source: https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/.
"""

import re
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from functools import cached_property
from typing import Any

from traingrid.backends.eks.hosts import host_index
from traingrid.backends.eks.pod_template import PREPARE, RESULTS, TRAIN
from traingrid.strict_json import JsonError, json_object

ENDED_PHASES = ("Succeeded", "Failed")
"""The phases of a pod whose containers have ended."""
FIRST_REASONS = ("", "ContainerCreating", "PodInitializing")
"""The kubelet's reasons of a container that waits for its turn (convertToAPIContainerStatuses in
pkg/kubelet/kubelet_pods.go of Kubernetes)."""
_DEADLINE = "DeadlineExceeded"
"""The reason of a failed pod that exceeded its `activeDeadlineSeconds`. The kubelet and the controllers of nodes give
every other reason to a pod that they end or refuse (pkg/kubelet of Kubernetes: eviction, nodeshutdown, preemption and
lifecycle/predicate.go), after a restart of the kubelet also to one that runs
(https://github.com/kubernetes/kubernetes/issues/125579). A pod whose program fails has none."""
_UNKNOWN_END = "ContainerStatusUnknown"
"""The kubelet's reason for the end of a container that the runtime has lost, with the exit code 137
(pkg/kubelet/kubelet_pods.go of Kubernetes, https://github.com/kubernetes/kubernetes/issues/104107)."""
_BY_SIGNAL = (128 + signal.SIGTERM, 128 + signal.SIGKILL)
OUT_OF_MEMORY = "OOMKilled"
"""The kubelet's reason for the end of a container that used more memory than its limit or its node has."""
_LOW_ON_MEMORY = "low on resource: memory"
"""A part of the kubelet's message of a node-pressure eviction (nodeLowMessageFmt in pkg/kubelet/eviction/helpers.go of
Kubernetes)."""
_EXCEEDED = re.compile(r"\bexceed(s|ed)\b.*\blimit\b")
"""The kubelet's messages about a pod that exceeds its own limits: emptyDirMessageFmt, podEphemeralStorageMessageFmt and
containerEphemeralStorageMessageFmt (pkg/kubelet/eviction/helpers.go of Kubernetes)."""


def seconds_of(text: str | None) -> float | None:
    """Return a time of Kubernetes in seconds since 1970; None for a missing one."""
    return datetime.fromisoformat(text).timestamp() if text else None


@dataclass(frozen=True)
class Results:
    """The termination message of the container `results`.

    Attributes:
        artifact: The S3 URI of the model; empty if this host has uploaded none.
        failure: The text of /opt/ml/output/failure.
        error: Why the results could not be uploaded; empty if they were.
    """

    artifact: str = ""
    failure: str = ""
    error: str = ""


@dataclass(frozen=True)
class Pod:
    """A pod.

    Attributes:
        killed_at: The time at which the kubelet began to end its training, in seconds since 1970, if only an event
            shows it.
    """

    raw: Mapping[str, Any]
    killed_at: float | None = None

    @property
    def name(self) -> str:
        """Its name."""
        return str(self.raw["metadata"]["name"])

    @property
    def uid(self) -> str:
        """Its uid."""
        return str(self.raw["metadata"]["uid"])

    @property
    def host(self) -> int:
        """The number of its host, from 0."""
        return host_index(self.raw)

    @property
    def is_deleting(self) -> bool:
        """True if it is being deleted."""
        return bool(self.raw["metadata"].get("deletionTimestamp"))

    @property
    def has_ended(self) -> bool:
        """True if all of its containers have ended."""
        return self._status.get("phase") in ENDED_PHASES

    @property
    def has_failed(self) -> bool:
        """True if it ended with an error, which does not include an error of its results."""
        return self._status.get("phase") == "Failed"

    @property
    def is_scheduled(self) -> bool:
        """True if it has a node."""
        return bool(self.raw["spec"].get("nodeName")) or self._is("PodScheduled")

    @property
    def wait(self) -> str:
        """The scheduler's reason why it has no node yet."""
        return "" if self.is_scheduled else str(self._condition("PodScheduled").get("message") or "")

    @property
    def started_at(self) -> float | None:
        """The time at which its node accepted it, in seconds since 1970; None before."""
        return seconds_of(self._status.get("startTime"))

    @property
    def node(self) -> str:
        """The name of its node; empty if it has none."""
        return str(self.raw["spec"].get("nodeName") or "")

    @property
    def deadline(self) -> float | None:
        """The time at which its node begins to end it, in seconds since 1970; None if it has not started."""
        start = self.started_at
        seconds = self.raw["spec"].get("activeDeadlineSeconds")
        return start + float(seconds) if start is not None and seconds else None

    @property
    def ends_by(self) -> float | None:
        """The time by which its node must have ended it, in seconds since 1970; None if it has not started.

        Only the kubelet ends a pod whose `activeDeadlineSeconds` are over (pkg/kubelet/active_deadline.go of
        Kubernetes), and then within its grace period.
        """
        deadline = self.deadline
        return (
            None if deadline is None else deadline + float(self.raw["spec"].get("terminationGracePeriodSeconds") or 0)
        )

    @property
    def ended_at(self) -> float | None:
        """The time at which the last of its containers ended, in seconds since 1970; None if none has."""
        ends = (seconds_of(self._terminated_state(name).get("finishedAt")) for name in (PREPARE, RESULTS, TRAIN))
        return max((end for end in ends if end is not None), default=None)

    @property
    def failed_at(self) -> float:
        """The time at which the first of its containers failed, in seconds since 1970; infinite if it is not known.

        Zero if the cluster ended it at an unknown time: the programs on other hosts fail because they have lost it.
        """
        failed_states = (
            state for state in map(self._terminated_state, (PREPARE, TRAIN, RESULTS)) if state.get("exitCode")
        )
        ends = [end for state in failed_states if (end := seconds_of(state.get("finishedAt"))) is not None]
        return min(ends, default=0.0 if self.disruption else float("inf"))

    @property
    def training(self) -> tuple[float, float] | None:
        """The start and end of the training, in seconds since 1970; None before its end."""
        end_state = self._terminated_state(TRAIN)
        start, end = seconds_of(end_state.get("startedAt")), seconds_of(end_state.get("finishedAt"))
        return (start, end) if start is not None and end is not None else None

    @property
    def is_prepared(self) -> bool:
        """True if its data is complete."""
        return self._terminated_state(PREPARE).get("exitCode") == 0

    @property
    def is_preparing(self) -> bool:
        """True if its data is being downloaded, or the training image pulled."""
        return self.is_prepared or self.runs(PREPARE)

    @property
    def is_training(self) -> bool:
        """True if the training runs or has run."""
        return self.runs(TRAIN) or bool(self._terminated_state(TRAIN))

    @property
    def has_trained(self) -> bool:
        """True if the training has ended."""
        return bool(self._terminated_state(TRAIN))

    @property
    def left_running(self) -> str:
        """The first container that runs after the training although it is not ours; empty if there is none.

        Sidecars are left out, because the kubelet ends them.
        """
        running_containers = (
            container
            for container in self._status.get("containerStatuses") or []
            if "running" in (container.get("state") or {})
        )
        return next(
            (
                str(container["name"])
                for container in running_containers
                if self.has_trained and container["name"] != TRAIN
            ),
            "",
        )

    @property
    def failed_by_others(self) -> bool:
        """True if its training succeeded, but a container that is not ours ended with an error.

        The phase Failed depends on all containers but sidecars (getPhase in pkg/kubelet/kubelet_pods.go of Kubernetes).
        """
        is_other = not (self.disruption or self.exceeded_storage or self._is_late)
        return self.has_failed and self.exit_code == 0 and is_other

    @property
    def exceeded_runtime(self) -> bool:
        """True if its work was stopped because it ran longer than `activeDeadlineSeconds`.

        The kubelet fails each pod that ends after its deadline for this reason. It compares only the start of the pod
        with its clock (pkg/kubelet/active_deadline.go of Kubernetes), after it has computed the phase
        (generateAPIPodStatus in pkg/kubelet/kubelet_pods.go), and a sidecar that uploads keeps the pod running. So the
        work may have ended, or been interrupted, before the deadline. All times are whole seconds of one node.
        """
        return self._is_late and not self._was_decided_in_time

    @property
    def uploaded_late(self) -> bool:
        """True if it only failed because its upload ended after its deadline: its training had succeeded before."""
        return self._is_late and self._was_decided_in_time and self.exit_code == 0 and not self.was_interrupted

    @property
    def _is_late(self) -> bool:
        return self._status.get("reason") == _DEADLINE

    @property
    def _was_decided_in_time(self) -> bool:
        """True if its preparation had failed, its training ended or it been interrupted before its deadline."""
        prepared = {} if self.is_prepared else self._terminated_state(PREPARE)
        ends = (seconds_of(state.get("finishedAt")) for state in (prepared, self._terminated_state(TRAIN)))
        first_end = min((time for time in (*ends, self.interrupted_at) if time is not None), default=None)
        return first_end is not None and self.deadline is not None and first_end < self.deadline

    @property
    def exceeded_storage(self) -> str:
        """The kubelet's message about a limit of local storage that it exceeded; empty if it did not.

        The kubelet evicts such a pod without the condition DisruptionTarget, and with it a pod whose node runs out of a
        resource (localStorageEviction and synchronize in pkg/kubelet/eviction/eviction_manager.go of Kubernetes). A pod
        that such a node refuses has the reason without the condition, too (Admit there), so the message decides.
        """
        is_disrupted = self._is("DisruptionTarget")
        message = str(self._status.get("message") or "").strip()
        is_own = self._status.get("reason") == "Evicted" and not is_disrupted and _EXCEEDED.search(message)
        return message if is_own else ""

    @property
    def disruption(self) -> str:
        """Why the cluster ended it; empty if it did not.

        Source: https://kubernetes.io/docs/concepts/workloads/pods/disruptions/#pod-disruption-conditions.
        """
        condition = self._condition("DisruptionTarget")
        if condition.get("status") == "True":
            return f"{condition.get('reason', '')}: {condition.get('message', '')}".strip(": ")
        lost_states = (
            state for state in map(self._terminated_state, (PREPARE, TRAIN)) if state.get("reason") == _UNKNOWN_END
        )
        source = next(lost_states, {}) if self._status.get("reason") in (None, "", _DEADLINE) else self._status
        return f"{source.get('reason') or ''}: {source.get('message') or ''}".strip(": ")

    @property
    def lacked_memory(self) -> bool:
        """True if the kubelet evicted it because its node had too little memory."""
        return _LOW_ON_MEMORY in self.disruption

    @property
    def interrupted_at(self) -> float | None:
        """The time at which the cluster or a person began to end it, in seconds since 1970; None before.

        The deletionTimestamp of a pod is the end of its grace period, unless `has_late_deletion` is true.
        """
        condition = self._condition("DisruptionTarget")
        metadata = self.raw["metadata"]
        disrupted = seconds_of(condition.get("lastTransitionTime")) if condition.get("status") == "True" else None
        deleted = seconds_of(metadata.get("deletionTimestamp"))
        if deleted is not None:
            deleted -= float(metadata.get("deletionGracePeriodSeconds") or 0)
        return min((time for time in (disrupted, deleted, self.killed_at) if time is not None), default=None)

    @property
    def has_late_deletion(self) -> bool:
        """True if it has trained, and its deletionTimestamp may be later than the request to delete it.

        Once the containers have ended, the kubelet deletes the pod again, without a grace period. While a finalizer
        keeps it, the deletionTimestamp is that of this second request (BeforeDelete in
        staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go of Kubernetes; older versions keep the first one).
        """
        return self.is_deleting and self.has_trained and not self.raw["metadata"].get("deletionGracePeriodSeconds")

    @property
    def was_interrupted(self) -> bool:
        """True if its training had not ended before the cluster or a person began to end it.

        Without a better sign, an exit code of a signal shows it: a namespace that is being deleted has no new events.
        """
        interrupted = self.interrupted_at
        ended_at = seconds_of(self._terminated_state(TRAIN).get("finishedAt"))
        if interrupted is None:
            return False
        was_killed = self.exit_code in _BY_SIGNAL and self.exit_reason != OUT_OF_MEMORY
        is_later = ended_at is None or ended_at >= interrupted  # times are whole seconds
        return is_later or (self.has_late_deletion and was_killed)

    @property
    def preparation_failure(self) -> str:
        """The message of `prepare` if it failed, in SageMaker's words; empty otherwise."""
        end_state = self._terminated_state(PREPARE)
        if not end_state.get("exitCode"):
            return ""
        lines = str(end_state.get("message") or "").strip().splitlines()
        return (
            lines[-1]
            if lines
            else f"It ended with exit code {end_state['exitCode']} ({end_state.get('reason', 'Error')})"
        )

    @property
    def exit_code(self) -> int | None:
        """The exit code of the training; None before its end."""
        code = self._terminated_state(TRAIN).get("exitCode")
        return None if code is None else int(code)

    @property
    def exit_reason(self) -> str:
        """The kubelet's reason for the end of the training: Completed, Error, OOMKilled, StartError, ..."""
        return str(self._terminated_state(TRAIN).get("reason") or "")

    @property
    def exit_message(self) -> str:
        """The message of the end of the training; usually empty."""
        return str(self._terminated_state(TRAIN).get("message") or "")

    @cached_property
    def results(self) -> Results:
        """The report of the container `results` in its termination message.

        Without a message: only an error if the container failed, empty otherwise.
        """
        end_state = self._terminated_state(RESULTS)
        message = str(end_state.get("message") or "")
        try:
            fields = json_object(message)
        except JsonError:
            if not end_state.get("exitCode"):
                return Results()
            lines = message.strip().splitlines()
            error = f"it ended with exit code {end_state['exitCode']} ({end_state.get('reason', 'Error')})"
            return Results(error=f"{error}: {lines[-1]}" if lines else error)
        artifact = str(fields.get("artifact") or "")
        failure = str(fields.get("failure") or "")
        error = str(fields.get("error") or "")
        return Results(artifact=artifact, failure=failure, error=error)

    @property
    def has_unknown_upload(self) -> bool:
        """True if the kubelet does not know how `results` ended; its upload may be complete or not."""
        return bool(self._terminated_state(RESULTS).get("reason") == _UNKNOWN_END)

    @property
    def waits_since(self) -> float:
        """The time at which its present step before the training began, in seconds since 1970."""
        steps = [self._condition(name) for name in ("PodScheduled", "Initialized")]
        times = [step.get("lastTransitionTime") for step in steps if step.get("status") == "True"]
        starts = [seconds_of(time) for time in (*times, self._terminated_state(PREPARE).get("finishedAt"))]
        return max((start for start in (*starts, self.started_at) if start is not None), default=0.0)

    @property
    def containers(self) -> list[Mapping[str, Any]]:
        """The status of each container, in the order of their starts."""
        status = self._status
        return [*(status.get("initContainerStatuses") or []), *(status.get("containerStatuses") or [])]

    def out_of_memory(self, container: str) -> str:
        """Return how a container was killed for lack of memory; empty if it was not.

        The exit code of SIGKILL alone is no evidence: others send this signal, too.
        """
        end_state = self._terminated_state(container)
        if end_state.get("reason") != OUT_OF_MEMORY:
            return ""
        return f"Out of memory on host {self.host + 1} ({OUT_OF_MEMORY}), exit code: {end_state.get('exitCode')}"

    def runs(self, container: str) -> bool:
        """Return True if a container runs."""
        return "running" in self._state(container)

    @property
    def _status(self) -> Mapping[str, Any]:
        return self.raw.get("status") or {}

    def _container(self, name: str) -> Mapping[str, Any]:
        return next((container for container in self.containers if container["name"] == name), {})

    def _state(self, container: str) -> Mapping[str, Any]:
        return self._container(container).get("state") or {}

    def _terminated_state(self, container: str) -> Mapping[str, Any]:
        """Return how a container ended; of a pod that has ended, also of a container that was to be restarted."""
        state = self._state(container).get("terminated")
        last_state = (self._container(container).get("lastState") or {}).get("terminated") if self.has_ended else None
        return state or last_state or {}

    def _is(self, condition: str) -> bool:
        return self._condition(condition).get("status") == "True"

    def _condition(self, name: str) -> Mapping[str, Any]:
        return next((condition for condition in self._status.get("conditions") or [] if condition["type"] == name), {})
