"""Tables: the columns that `kubectl get` prints, which the server computes.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/#receiving-resources-as-tables; the columns are
those of pkg/printers/internalversion/printers.go of Kubernetes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.events import seconds_since

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object

_MINUTE, _HOUR, _DAY = 60, 3600, 86400


def is_table(accept: str) -> bool:
    """Return True if a client prefers a table."""
    return "as=Table" in accept.partition(",")[0]


def table(resource: Resource, objects: list[Object], metadata: dict[str, Any]) -> dict[str, Any]:
    """Return the table of objects."""
    names, cells = _COLUMNS.get(resource.kind, ((), lambda _: []))
    columns = [
        {"name": name, "type": "string", "format": "name" if name == "Name" else "", "description": "", "priority": 0}
        for name in ("Name", *names, "Age")
    ]
    kind = {"kind": "PartialObjectMetadata", "apiVersion": "meta.k8s.io/v1"}
    rows = [
        {
            "cells": [entry["metadata"]["name"], *cells(entry), _age(entry["metadata"].get("creationTimestamp"))],
            "object": {**kind, "metadata": entry["metadata"]},
        }
        for entry in objects
    ]
    header = {"kind": "Table", "apiVersion": "meta.k8s.io/v1", "metadata": metadata}
    return {**header, "columnDefinitions": columns, "rows": rows}


def as_tables(resource: Resource, events: Iterator[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events of a watch with tables; only the first one describes the columns.

    Source: asTable in k8s.io/apiserver/pkg/endpoints/handlers/response.go.
    """
    is_first = True
    for event in events:
        if event["type"] == "ERROR":
            yield event
            continue
        entry = event["object"]
        if event["type"] == "BOOKMARK":  # it has no content
            entry = {
                **entry,
                "metadata": {"name": "", **entry["metadata"]},
                "spec": {"containers": []},
                "involvedObject": {},
            }
        version = {"resourceVersion": entry["metadata"]["resourceVersion"]}
        table_object = table(resource, [entry], version)
        yield {**event, "object": table_object if is_first else {**table_object, "columnDefinitions": None}}
        is_first = False


def _age(since: str | None) -> str:
    if not since:
        return "<unknown>"
    seconds = int(max(0.0, seconds_since(since)))
    for unit, length in (("d", _DAY), ("h", _HOUR), ("m", _MINUTE)):
        if seconds >= 2 * length:
            return f"{seconds // length}{unit}"
    return f"{seconds}s"


def _pod(pod: Object) -> list[str]:
    status = pod.get("status") or {}
    init = status.get("initContainerStatuses") or []
    main = status.get("containerStatuses") or []
    sidecars = {
        item["name"] for item in pod["spec"].get("initContainers") or [] if item.get("restartPolicy") == "Always"
    }
    counted_containers = [*main, *(item for item in init if item["name"] in sidecars)]
    total = len(pod["spec"]["containers"]) + len(sidecars)
    ready = sum(item["ready"] for item in counted_containers if "running" in item["state"])
    restarts = sum(item["restartCount"] for item in counted_containers)
    return [f"{ready}/{total}", _reason(pod, init, main), str(restarts)]


def _reason(pod: Object, init: list[Object], main: list[Object]) -> str:
    """Return the status of a pod: a reason of its containers, or its phase."""
    status, reason = pod.get("status") or {}, ""
    reason = status.get("reason") or status.get("phase", "Unknown")
    ready_containers = sum(item["ready"] for item in init)
    for item in init:
        termination = item["state"].get("terminated") or {}
        if termination.get("exitCode"):
            reason = f"Init:{termination['reason']}"
    if ready_containers < len(init) and status.get("phase") == "Pending" and status.get("startTime"):
        reason = f"Init:{ready_containers}/{len(init)}"
    if not reason.startswith("Init:"):
        for item in main:
            state = item["state"].get("waiting") or item["state"].get("terminated") or {}
            reason = state.get("reason") or reason
    return "Terminating" if "deletionTimestamp" in pod["metadata"] else str(reason)


def _job(job: Object) -> list[str]:
    status, spec = job.get("status") or {}, job["spec"]
    true = [item["type"] for item in status.get("conditions") or [] if item["status"] == "True"]
    state = next((name for name in ("Complete", "Failed", "Suspended", "FailureTarget") if name in true), "Running")
    state = "Terminating" if "deletionTimestamp" in job["metadata"] and state == "Running" else state
    started, ended = status.get("startTime"), status.get("completionTime")
    duration = ""
    if started:
        seconds = seconds_since(started)
        if ended:
            seconds -= seconds_since(ended)
        duration = f"{int(seconds)}s"
    return [state, f"{status.get('succeeded', 0)}/{spec.get('completions', 1)}", duration]


def _node(node: Object) -> list[str]:
    conditions = {item["type"]: item["status"] for item in (node.get("status") or {}).get("conditions") or []}
    state = "Ready" if conditions.get("Ready") == "True" else "NotReady"
    if node["spec"].get("unschedulable"):
        state += ",SchedulingDisabled"
    return [state, "<none>", str(((node.get("status") or {}).get("nodeInfo") or {}).get("kubeletVersion", ""))]


def _event(event: Object) -> list[str]:
    involved = event["involvedObject"]
    place = f"{involved.get('kind', '').lower()}/{involved.get('name', '')}"
    return [
        _age(event.get("lastTimestamp")),
        event.get("type", ""),
        event.get("reason", ""),
        place,
        event.get("message", ""),
    ]


_COLUMNS: dict[str, tuple[tuple[str, ...], Callable[[Object], list[str]]]] = {
    "Pod": (("Ready", "Status", "Restarts"), _pod),
    "Job": (("Status", "Completions", "Duration"), _job),
    "Node": (("Status", "Roles", "Version"), _node),
    "Event": (("Last Seen", "Type", "Reason", "Object", "Message"), _event),
    "Namespace": (("Status",), lambda one: [(one.get("status") or {}).get("phase", "")]),
    "PersistentVolumeClaim": (
        ("Status", "Volume"),
        lambda one: [(one.get("status") or {}).get("phase", ""), one["spec"].get("volumeName", "")],
    ),
}
