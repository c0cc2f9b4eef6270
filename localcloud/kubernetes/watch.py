"""Watch: the stream of changes after a resource version, filtered by namespace, name and selectors.

An object that begins to match a selector is sent as ADDED, and one that ceases to match as DELETED
(https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes). A client that asks for
initial events, as kubectl does while it waits, waits for the bookmark that ends them
(https://kubernetes.io/docs/reference/using-api/api-concepts/#streaming-lists; on by default in 1.34 and later).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.selectors import selector
from localcloud.kubernetes.status import ApiError, bad_request, invalid_option

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from localcloud.kubernetes.paths import Target
    from localcloud.kubernetes.store import Change, Store

_DEFAULT_SECONDS = 1800.0
"""A real server ends a watch after 30 to 60 minutes (kube-apiserver's --min-request-timeout)."""
_BOOKMARK_SECONDS = 60.0
_STEP_SECONDS = 0.5
_END_OF_INITIAL_EVENTS = {"annotations": {"k8s.io/initial-events-end": "true"}}


def events(
    store: Store, target: Target, query: Mapping[str, str], stopped: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    """Return the events of a watch until its time is over; an expired version is an ERROR event, as in a real server.

    Args:
        query: The parameters of the request.
        stopped: Returns True once the server has ended.

    Raises:
        ApiError: A parameter cannot be read.
    """
    kind = target.resource.kind
    matches = selector(query.get("labelSelector", ""), query.get("fieldSelector", ""), kind)
    version = query.get("resourceVersion") or "0"
    if not version.isdigit():
        text = f'Invalid value: "{version}": strconv.ParseUint: parsing "{version}": invalid syntax'
        raise bad_request(f"resourceVersion: {text}")
    initial = _sends_initial_events(query, int(version))
    deadline = time.monotonic() + float(query.get("timeoutSeconds") or _DEFAULT_SECONDS)
    watch = _Watch(store=store, target=target, matches=matches, ended=lambda: stopped() or time.monotonic() >= deadline)
    bookmarks = query.get("allowWatchBookmarks") == "true"
    return watch.events(int(version), initial, _BOOKMARK_SECONDS if bookmarks else float("inf"))


def _sends_initial_events(query: Mapping[str, str], version: int) -> bool:
    """Return whether a watch begins with the present objects, as it does by default without a version.

    Sources: SetListOptionsDefaults and validateWatchOptions in
    https://github.com/kubernetes/apimachinery/tree/master/pkg/apis/meta/internalversion (defaults.go and
    validation/validation.go).

    Raises:
        ApiError: The parameters contradict each other.
    """
    requested, match = query.get("sendInitialEvents", ""), query.get("resourceVersionMatch", "")
    problem = ""
    if requested and match != "NotOlderThan":
        problem = "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan"
    elif match and not requested:
        problem = "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided"
    if problem:
        raise invalid_option("resourceVersionMatch", f"Forbidden: {problem}")
    return requested in ("1", "true") if requested else version == 0


@dataclass(frozen=True, kw_only=True)
class _Watch:
    """A watch of a target.

    Attributes:
        matches: Returns True for the objects that the selectors select.
        ended: Returns True once the watch is over.
    """

    store: Store
    target: Target
    matches: Callable[[Mapping[str, Any]], bool]
    ended: Callable[[], bool]

    def events(self, version: int, initial: bool, bookmark_seconds: float) -> Iterator[dict[str, Any]]:
        """Yield the events after a version.

        Args:
            version: The version; 0 for the present one.
            initial: Begin with the present objects, and a bookmark after them.
            bookmark_seconds: The interval of bookmarks; infinite for none.
        """
        if initial or version == 0:
            objects, version = self.store.all(self.target.resource, self.target.namespace)
            initial_objects = [
                entry for entry in objects if initial and self._is_watched(entry) and self.matches(entry)
            ]
            yield from ({"type": "ADDED", "object": entry} for entry in initial_objects)
            if initial and bookmark_seconds < float("inf"):
                yield self._bookmark(version, _END_OF_INITIAL_EVENTS)
        next_bookmark = time.monotonic() + bookmark_seconds
        while not self.ended():
            try:
                changes = self.store.changes(version)
            except ApiError as error:
                yield {"type": "ERROR", "object": error.body()}
                return
            for change in changes:
                version = change.version
                if event := self._event(change):
                    yield event
            if time.monotonic() >= next_bookmark:
                next_bookmark = time.monotonic() + bookmark_seconds
                yield self._bookmark(version, {})
            self.store.wait(version, _STEP_SECONDS)

    def _bookmark(self, version: int, metadata: Mapping[str, Any]) -> dict[str, Any]:
        resource = self.target.resource
        bookmark = {"kind": resource.kind, "apiVersion": resource.api_version}
        return {"type": "BOOKMARK", "object": {**bookmark, "metadata": {"resourceVersion": str(version), **metadata}}}

    def _event(self, change: Change) -> dict[str, Any] | None:
        if change.resource is not self.target.resource or not self._is_watched(change.after):
            return None
        matched_before = change.before is not None and self.matches(change.before)
        matches_after = change.type != "DELETED" and self.matches(change.after)
        if not matched_before and not matches_after:
            return None
        if not matches_after:
            return {"type": "DELETED", "object": change.after}
        return {"type": "MODIFIED" if matched_before else "ADDED", "object": change.after}

    def _is_watched(self, entry: Mapping[str, Any]) -> bool:
        metadata = entry["metadata"]
        watched = self.target
        return watched.namespace in ("", metadata.get("namespace", "")) and watched.name in ("", metadata["name"])
