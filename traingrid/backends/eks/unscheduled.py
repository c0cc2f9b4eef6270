"""Unscheduled: the reason why a pod has no node, whether a node can hold it at all, and the next step.

The scheduler writes its reason into the pod's condition PodScheduled
(https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-conditions) and into an event of the pod;
Karpenter and the Cluster Autoscaler write events of the pod, too. An administrator can add nodes at any time, so none
of these texts ends the line: it waits, and the reason states what would have to change.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from traingrid.backends.eks.pods import seconds_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.backends.eks.cluster_job import ClusterJob
    from traingrid.backends.eks.pods import Pod

_SCHEDULER = "default-scheduler"
_BY_AUTOSCALERS = ("FailedScheduling", "Nominated", "NotTriggerScaleUp", "TriggeredScaleUp")
"""The reasons of their events about a pod: of Karpenter (pkg/controllers/provisioning/scheduling/events.go of
https://github.com/kubernetes-sigs/karpenter), and of the Cluster Autoscaler
(https://github.com/kubernetes/autoscaler/blob/master/cluster-autoscaler/FAQ.md)."""
_PREEMPTION = re.compile(r"(?:no new claims to deallocate, )?preemption: 0/(\d+) nodes are available: (\d+) (.*)")
_UNRESOLVABLE = "Preemption is not helpful for scheduling"
"""The scheduler's text for a node on which a pod does not fit even if other pods leave, for example because its request
exceeds the node's size (`Unresolvable` in pkg/scheduler/framework/plugins/noderesources/fit.go of Kubernetes)."""
_NO_TYPE = re.compile(
    r"no instance type (?:met the scheduling requirements or )?ha[sd] enough resources"
    r"|no instance type which met .* had the required resources"
    r"|no instance type met all requirements"
)
_NOT_MEANT = re.compile(r"did not tolerate|incompatible requirements")
"""Karpenter's texts for a NodePool none of whose instance types can hold a pod, and for one that excludes it. Other
texts name a limit of the NodePool or missing capacity, which pass (`FailureReason` in its nodeclaim.go)."""
_NO_GROUP = re.compile(
    r"pod didn't trigger scale-up: (?:\d+ (?:Insufficient [^,]+|node\(s\) didn't match [^,]+)(?:, |$))+$"
)
"""The Cluster Autoscaler's text if a pod does not fit on an empty node of any node group. It counts groups that have
their maximum size, or in which no node could be added, by other texts."""
_DETAILS = re.compile(r", (?:requirements|resources)=.*", re.DOTALL)


def wait_reason(cluster_job: ClusterJob, pod: Pod) -> str:
    """Return why a pod has no node, and the next step, as sentences.

    Args:
        cluster_job: Its training job, with the events about the pod.
    """
    text, is_too_large = _scheduler(pod)
    component, message, never = _autoscaler(cluster_job)
    sentences = [f"The pod has no node: {text.rstrip('.,') or 'the scheduler has not chosen one yet'}."]
    if message:
        sentences.append(f"{component}: {message}.")
    if never:
        sentences.append("No node of the cluster can hold it, and the autoscaler can add none that can.")
        sentences.append(f"The line waits until that changes; otherwise, {_advice(text, message)}")
    elif is_too_large:
        sentences.append("No node of the cluster can hold it, even without other pods; an autoscaler may add one.")
        sentences.append(f"If none is added, {_advice(text, message)}")
    sentences.append(f"`kubectl describe pod {pod.name} -n {cluster_job.namespace}` shows more.")
    return " ".join(sentences)


def _scheduler(pod: Pod) -> tuple[str, bool]:
    """Return the scheduler's reason, and whether the pod fits on no node, even if all other pods leave."""
    preemption = _PREEMPTION.search(pod.wait)
    if preemption is None:
        return pod.wait, False
    nodes, excluded, reason = preemption.groups()
    return pod.wait[: preemption.start()].strip(), nodes == excluded and reason.startswith(_UNRESOLVABLE)


def _autoscaler(cluster_job: ClusterJob) -> tuple[str, str, bool]:
    """Return the autoscaler, its last message, and whether it can add no node; empty texts if it has written none."""
    events = [event for event in cluster_job.events if event.get("reason") in _BY_AUTOSCALERS]
    autoscaler_events = [event for event in events if _component(event) != _SCHEDULER]
    if not autoscaler_events:
        return "", "", False
    event = max(autoscaler_events, key=time_of)
    message = str(event.get("message", ""))
    parts = message.split("; ")
    by_pools = any(map(_NO_TYPE.search, parts)) and all(
        _NO_TYPE.search(part) or _NOT_MEANT.search(part) for part in parts
    )
    by_groups = "Insufficient" in message and _NO_GROUP.match(message) is not None
    return _component(event), _DETAILS.sub("", message).rstrip("."), by_pools or by_groups


def _component(event: Mapping[str, Any]) -> str:
    return str(event.get("reportingComponent") or (event.get("source") or {}).get("component") or "autoscaler")


def time_of(event: Mapping[str, Any]) -> float:
    """Return the time at which an event occurred last, in seconds since 1970."""
    series = event.get("series") or {}
    times = (series.get("lastObservedTime"), event.get("lastTimestamp"), event.get("eventTime"))
    return max(seconds_of(time) or 0.0 for time in times)


def _advice(*messages: str) -> str:
    """Return the next step, which depends on the resources that are too small."""
    resources = set(re.findall(r"Insufficient ([\w./-]+\w)", " ".join(messages)))
    if resources == {"ephemeral-storage"}:
        return "cancel the line and submit it with a smaller volume_gb, or add nodes with larger disks."
    return "cancel the line and submit it with another instance_type or volume_gb, or add nodes that can hold it."
