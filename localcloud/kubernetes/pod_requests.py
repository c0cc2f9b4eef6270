"""Pod requests: the subresources of pods, `log` and `eviction`.

Sources: https://kubernetes.io/docs/concepts/scheduling-eviction/api-eviction/, and pkg/registry/core/pod of Kubernetes
(strategy.go for the errors of `log`, storage/eviction.go). The kubelet answers 200 and its error as the text if it has
removed the container of a pod that still exists (https://github.com/kubernetes/kubernetes/issues/142258). It removes
the containers of a pod that it has evicted, and of one that is being deleted and has ended (ShouldPodContentBeRemoved
in pkg/kubelet/pod_workers.go).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localcloud.kubernetes import deletion, status
from localcloud.kubernetes.events import timestamp
from localcloud.kubernetes.kubelet.logs import selected
from localcloud.kubernetes.kubelet.pod_status import set_condition
from localcloud.kubernetes.resources import POD

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from localcloud.kubernetes.kubelet.logs import Line, PodLogs
    from localcloud.kubernetes.paths import Target
    from localcloud.kubernetes.store import Object, Store

LOG, EVICTION = "log", "eviction"
_NO_OPTIONS = deletion.Options()
_ENDED = ("Succeeded", "Failed")
_NOT_PULLED = ("ErrImagePull", "ImagePullBackOff", "InvalidImageName")


def is_log(target: Target | None) -> bool:
    """Return True for the log of a pod."""
    return target is not None and target.resource is POD and target.subresource == LOG


def log(
    store: Store, logs: PodLogs, target: Target, query: Mapping[str, str], stopped: Callable[[], bool]
) -> Iterator[bytes]:
    """Return the lines of a container's log.

    Args:
        target: The log of a pod.
        query: The parameters of the request.
        stopped: Returns True once the server has ended.

    Raises:
        ApiError: The pod or the container does not exist, or has not started.
    """
    pod = store.get(POD, target.namespace, target.name)
    container = _container(pod, query.get("container", ""))
    previous = query.get("previous") == "true"
    if not pod["spec"].get("nodeName"):
        return iter(())
    if lost_container := _lost_container(pod, container):
        return iter((f"unable to retrieve container logs for {lost_container}".encode(),))
    log_of_container = logs.find(pod["metadata"]["uid"], container, previous=previous)
    if log_of_container is None and previous:
        raise status.bad_request(f'previous terminated container "{container}" in pod "{target.name}" not found')
    if log_of_container is None:
        message = f'container "{container}" in pod "{target.name}" is waiting to start: {_waiting(pod, container)}'
        raise status.bad_request(message)
    timestamps = query.get("timestamps") == "true"
    lines_so_far = log_of_container.lines()
    lines: Iterable[Line] = selected(lines_so_far, query)
    if query.get("follow") == "true":
        skipped = len(lines_so_far) - len(selected(lines_so_far, query))
        lines = (line for number, line in enumerate(log_of_container.follow(stopped)) if number >= skipped)
    printed = (line.shown(timestamps=timestamps) for line in lines)
    return _limit_bytes(printed, int(query["limitBytes"])) if "limitBytes" in query else printed


def _limit_bytes(lines: Iterable[bytes], size: int) -> Iterator[bytes]:
    for line in lines:
        yield line[:size]
        size -= len(line)
        if size <= 0:
            return


def evict(store: Store, target: Target, body: Mapping[str, Any]) -> dict[str, Any]:
    """Answer the creation of an Eviction.

    Raises:
        ApiError: The pod does not exist, or a precondition does not hold.
    """
    evict_pod(store, target.namespace, target.name, deletion.options({}, body.get("deleteOptions") or {}))
    return {"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}


def evict_pod(store: Store, namespace: str, name: str, chosen: deletion.Options = _NO_OPTIONS) -> None:
    """Evict a pod: mark it as the target of a disruption, and delete it.

    Raises:
        ApiError: The pod does not exist, or a precondition does not hold.
    """
    pod = store.get(POD, namespace, name)
    if "deletionTimestamp" not in pod["metadata"] and pod["status"].get("phase") not in _ENDED:
        store.update(POD, namespace, name, _disrupted_pod, of_status=True)
    deletion.delete(store, POD, namespace, name, chosen)


def _disrupted_pod(pod: Object) -> Object:
    message = "Eviction API: evicting"
    condition = {"type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI", "message": message}
    set_condition(pod["status"], condition, timestamp())
    return pod


def _container(pod: Object, requested: str) -> str:
    main = [container["name"] for container in pod["spec"]["containers"]]
    init = [container["name"] for container in pod["spec"].get("initContainers") or []]
    name = pod["metadata"]["name"]
    if not requested:
        if len(main) == 1:
            return str(main[0])
        choices = f" or one of the init containers: [{' '.join(init)}]" if init else ""
        names = " ".join(main)
        raise status.bad_request(
            f"a container name must be specified for pod {name}, choose one of: [{names}]{choices}"
        )
    if requested not in (*main, *init):
        raise status.bad_request(f"container {requested} is not valid for pod {name}")
    return requested


def _lost_container(pod: Object, container: str) -> str:
    """Return the id of a container that the kubelet has removed while the pod exists; empty if it has not."""
    present_status = pod.get("status") or {}
    is_deleted = "deletionTimestamp" in pod["metadata"]
    if present_status.get("phase") in _ENDED and (is_deleted or present_status.get("reason") == "Evicted"):
        return str(_status(pod, container).get("containerID") or "")
    return ""


def _status(pod: Object, container: str) -> Mapping[str, Any]:
    pod_status = pod.get("status") or {}
    statuses = [*(pod_status.get("initContainerStatuses") or []), *(pod_status.get("containerStatuses") or [])]
    return next((container_status for container_status in statuses if container_status["name"] == container), {})


def _waiting(pod: Object, container: str) -> str:
    state = _status(pod, container).get("state") or {}
    reason = (state.get("waiting") or {}).get("reason", "ContainerCreating")
    return "trying and failing to pull image" if reason in _NOT_PULLED else str(reason)
