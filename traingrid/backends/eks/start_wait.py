"""Start wait: the container or node for which a training job waits before it trains, the cause, and the limit.

The kubelet has three reasons of a container that waits for its turn. Each other reason is one of a failure, also an
unknown one, because the kubelet, the container runtime and new versions add reasons (pkg/kubelet/kuberuntime of
Kubernetes). With the three, only events of the pod show the cause, such as FailedMount, FailedAttachVolume and
FailedCreatePodSandBox (pkg/kubelet/events/event.go, https://github.com/kubernetes/kubernetes/issues/135299). The last
event counts: a mount that has failed may have succeeded since.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.backends.eks.pod_template import PREPARE, RESULTS, TRAIN
from traingrid.backends.eks.pods import FIRST_REASONS, Pod
from traingrid.backends.eks.unscheduled import time_of
from traingrid.job.failures import IMAGE, NOT_STARTED

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.backends.eks.cluster_job import ClusterJob

PATIENCE_SECONDS = 600.0
"""The limit of a wait after a failure. The kubelet tries again every 5 minutes at most
(https://kubernetes.io/docs/concepts/containers/images/#imagepullbackoff); the image may still be replicated, a missing
Secret be created, or a volume be detached from a lost node, for which Kubernetes waits 6 minutes
(https://kubernetes.io/docs/concepts/cluster-administration/node-shutdown/#storage-force-detach-on-timeout)."""
LIMIT_SECONDS = 3600.0
"""The limit of a wait for which the cluster reports no failure. The longest one without a fault is the pull of an
image: at 10 MB/s, an hour is enough for 36 GB. A pull without progress ends with an error (ImagePullProgressTimeout in
https://github.com/containerd/containerd/blob/v1.7.15/pkg/cri/config/config.go)."""
_SHOWN_AFTER_SECONDS = 60.0
"""The time after which a wait without a failure is shown."""
_NOT_PULLED = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName", "ImageInspectError", "ErrImageNeverPull")
"""The kubelet's reasons of a container that waits for its image (pkg/kubelet/images/types.go of Kubernetes)."""
_WARNING = "Warning"
"""The type of an event about a failure
(https://kubernetes.io/docs/reference/kubernetes-api/cluster-resources/event-v1/)."""


@dataclass(frozen=True, kw_only=True)
class StartWait:
    """A wait before the training.

    Attributes:
        text: The reason, as a sentence without a full stop.
        since: The time at which the wait began, in seconds since 1970.
        has_failed: True if the cluster reports a failure.
        failure: The name of the failure class with which the training job is stopped after `limit`.
    """

    pod: Pod
    text: str
    since: float
    has_failed: bool = False
    failure: str = NOT_STARTED.name

    @property
    def limit(self) -> float:
        """The time after which the training job is stopped, in seconds."""
        return PATIENCE_SECONDS if self.has_failed else LIMIT_SECONDS

    @property
    def end(self) -> str:
        """The reason of a training job that is stopped because of this wait."""
        return f"{self.text}, for longer than the limit of {self.limit // 60:.0f} minutes."

    def is_over(self, now: float) -> bool:
        """Return True if the limit is reached at a time, in seconds since 1970."""
        return now - self.since >= self.limit

    def sentence(self, namespace: str, now: float) -> str:
        """Return the reason, the limit and the next step; empty for a short wait without a failure."""
        if not self.has_failed and now - self.since < _SHOWN_AFTER_SECONDS:
            return ""
        limit = f"The training job is stopped after {self.limit // 60:.0f} minutes"
        return f"{self.text}. {limit}. `kubectl describe pod {self.pod.name} -n {namespace}` shows more."


def start_wait(cluster_job: ClusterJob) -> StartWait | None:
    """Return the wait of a training job's pod: the first failure, or else the longest wait; None if no pod waits.

    Args:
        cluster_job: The training job, with the events about that pod, without which a wait has no cause.
    """
    if cluster_job.is_over or cluster_job.is_suspended:
        return None
    waits = [wait for pod in cluster_job.pods_left if (wait := _wait_of(pod, cluster_job))]
    return min(waits, key=lambda wait: (not wait.has_failed, wait.since), default=None)


def _wait_of(pod: Pod, cluster_job: ClusterJob) -> StartWait | None:
    """Return why a pod with a node does not train yet; None if it downloads, trains, or is deleted."""
    if not pod.is_scheduled or pod.is_deleting or pod.is_training:
        return None
    failed_container = next(
        (container for container in pod.containers if _reason(container) not in FIRST_REASONS), None
    )
    if failed_container is not None:
        return _failed(pod, failed_container)
    event = _last_event(cluster_job, pod)
    cause = f": {event['reason']}: {str(event.get('message') or '').rstrip('.')}" if event else ""
    has_failed = event.get("type") == _WARNING
    if not pod.containers:
        text = f"The node {pod.node} has not begun to start the pod {pod.name}{cause}"
        return StartWait(pod=pod, text=text, since=pod.waits_since, has_failed=has_failed)
    waiting = next((container for container in pod.containers if "waiting" in (container.get("state") or {})), None)
    if waiting is None or pod.runs(PREPARE):
        return None
    text = f"The container {waiting['name']} waits ({_reason(waiting) or 'no reason'}){_running_sidecars(pod)}{cause}"
    return StartWait(pod=pod, text=text, since=pod.waits_since, has_failed=has_failed)


def _failed(pod: Pod, container: Mapping[str, Any]) -> StartWait:
    reason = _reason(container)
    message = str(container["state"]["waiting"].get("message") or reason).rstrip(".")
    if reason in _NOT_PULLED:
        text = f"The image cannot be pulled: {container.get('image', '')}: {message}"
        return StartWait(pod=pod, text=text, since=pod.waits_since, has_failed=True, failure=IMAGE.name)
    text = f"The container {container['name']} cannot be started ({reason}): {message}"
    return StartWait(pod=pod, text=text, since=pod.waits_since, has_failed=True)


def _running_sidecars(pod: Pod) -> str:
    """Return the containers of other programs that run, because a pod starts its containers in order."""
    names = [str(container["name"]) for container in pod.containers if "running" in (container.get("state") or {})]
    foreign = [name for name in names if name not in (PREPARE, RESULTS, TRAIN)]
    return f" for {', '.join(foreign)}, which is not of traingrid" if foreign else ""


def _last_event(cluster_job: ClusterJob, pod: Pod) -> Mapping[str, Any]:
    """Return the last event about a pod since it waits; a name may also be that of an earlier pod."""
    events_of_pod = [event for event in cluster_job.events if (event.get("involvedObject") or {}).get("uid") == pod.uid]
    events_of_wait = [event for event in events_of_pod if time_of(event) >= pod.waits_since]
    return max(events_of_wait, key=lambda event: (time_of(event), event.get("type") == _WARNING), default={})


def _reason(container: Mapping[str, Any]) -> str:
    waiting = (container.get("state") or {}).get("waiting") or {}
    return str(waiting.get("reason") or "")
