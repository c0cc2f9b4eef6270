"""Events: reports of a cluster's components about objects, which `kubectl describe` shows."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from localcloud.kubernetes.resources import EVENT
from localcloud.kubernetes.status import ApiError

if TYPE_CHECKING:
    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.store import Object

_MAX_MESSAGE = 1024
_AGAIN_SECONDS = 5.0
"""The time within which an event that occurs again is not counted."""


def timestamp(at: datetime | None = None) -> str:
    """Return a time, by default now, as the API has it: in UTC with whole seconds."""
    return (at or datetime.now(UTC)).strftime("%Y-%m-%dT%H:%M:%SZ")


def seconds_since(text: str) -> float:
    """Return the seconds since a time of the API."""
    return (datetime.now(UTC) - datetime.fromisoformat(text)).total_seconds()


class EventRecorder:
    """Writes the events of one component. An event that occurs again only increases its count, as client-go does.

    Args:
        component: The name of the component, for example "kubelet".
    """

    def __init__(self, client: Client, component: str) -> None:
        self._client, self._component = client, component
        self._recent_events: dict[tuple[str, ...], tuple[Object, float]] = {}
        self._lock = threading.Lock()

    def normal(self, subject: Object, reason: str, message: str, field_path: str = "") -> None:
        """Report a normal event about an object."""
        self._record(subject, "Normal", reason, message, field_path)

    def warning(self, subject: Object, reason: str, message: str, field_path: str = "") -> None:
        """Report a problem of an object."""
        self._record(subject, "Warning", reason, message, field_path)

    def _record(self, subject: Object, kind: str, reason: str, message: str, field_path: str) -> None:
        message = message[:_MAX_MESSAGE]
        metadata = subject["metadata"]
        now = timestamp()
        with self._lock:
            key = (metadata["uid"], kind, reason, message, field_path)
            earlier, at = self._recent_events.get(key, (None, 0.0))
            if earlier and time.monotonic() - at < _AGAIN_SECONDS:
                return
            if earlier and self._client.update(EVENT, earlier, lambda event: _count_again(event, now)):
                self._recent_events[key] = (earlier, time.monotonic())
                return
            place = metadata.get("namespace") or "default"
            involved = {
                "kind": subject["kind"],
                "apiVersion": subject["apiVersion"],
                "name": metadata["name"],
                "uid": metadata["uid"],
                "resourceVersion": metadata["resourceVersion"],
                **({"namespace": metadata["namespace"]} if "namespace" in metadata else {}),
                **({"fieldPath": field_path} if field_path else {}),
            }
            event = {
                "metadata": {"name": f"{metadata['name']}.{time.time_ns():x}", "namespace": place},
                "involvedObject": involved,
                "reason": reason,
                "message": message,
                "source": {"component": self._component},
                "firstTimestamp": now,
                "lastTimestamp": now,
                "count": 1,
                "type": kind,
                "eventTime": None,
                "reportingComponent": self._component,
                "reportingInstance": "",
            }
            try:
                created_event = self._client.create(EVENT, place, event)
            except ApiError:  # the namespace is gone
                return
            self._recent_events[key] = (created_event, time.monotonic())


def _count_again(event: Object, now: str) -> None:
    event["count"] += 1
    event["lastTimestamp"] = now
