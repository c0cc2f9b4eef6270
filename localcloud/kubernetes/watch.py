"""Watch: the stream of changes after a resource version, filtered by namespace, name and selectors.

An object that begins to match a selector is sent as ADDED, and one that ceases to match as DELETED
(https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes).
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.selectors import selector
from localcloud.kubernetes.status import ApiError, bad_request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from localcloud.kubernetes.paths import Target
    from localcloud.kubernetes.store import Change, Store

_DEFAULT_SECONDS = 1800.0
"""A real server ends a watch after 30 to 60 minutes (kube-apiserver's --min-request-timeout)."""
_BOOKMARK_SECONDS = 60.0
_STEP_SECONDS = 0.5


def events(
    store: Store, target: Target, query: Mapping[str, str], stopped: Callable[[], bool]
) -> Iterator[dict[str, Any]]:
    """Return the events of a watch until its time is over; an expired version is an ERROR event, as in a real server.

    Args:
        store: The objects.
        target: The watched objects.
        query: The parameters of the request.
        stopped: Returns True once the server has ended.

    Raises:
        ApiError: A parameter cannot be read.
    """
    kind = target.resource.kind
    matches = selector(query.get("labelSelector", ""), query.get("fieldSelector", ""), kind)
    given = query.get("resourceVersion") or "0"
    if not given.isdigit():
        text = f'Invalid value: "{given}": strconv.ParseUint: parsing "{given}": invalid syntax'
        raise bad_request(f"resourceVersion: {text}")
    until = time.monotonic() + float(query.get("timeoutSeconds") or _DEFAULT_SECONDS)
    watch = _Watch(store=store, target=target, matches=matches, ended=lambda: stopped() or time.monotonic() >= until)
    bookmarks = query.get("allowWatchBookmarks") == "true"
    return watch.events(int(given), _BOOKMARK_SECONDS if bookmarks else float("inf"))


@dataclass(frozen=True, kw_only=True)
class _Watch:
    """A watch of a target.

    Attributes:
        store: The objects.
        target: The watched objects.
        matches: Returns True for the objects that the selectors select.
        ended: Returns True once the watch is over.
    """

    store: Store
    target: Target
    matches: Callable[[Mapping[str, Any]], bool]
    ended: Callable[[], bool]

    def events(self, version: int, bookmark_seconds: float) -> Iterator[dict[str, Any]]:
        """Yield the events after a version; 0 for the present objects and all later events."""
        resource = self.target.resource
        if version == 0:
            objects, version = self.store.all(resource, self.target.namespace)
            yield from (
                {"type": "ADDED", "object": one} for one in objects if self._concerns(one) and self.matches(one)
            )
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
                metadata = {"resourceVersion": str(version)}
                one = {"kind": resource.kind, "apiVersion": resource.api_version, "metadata": metadata}
                yield {"type": "BOOKMARK", "object": one}
            self.store.wait(version, _STEP_SECONDS)

    def _event(self, change: Change) -> dict[str, Any] | None:
        if change.resource is not self.target.resource or not self._concerns(change.after):
            return None
        did = change.before is not None and self.matches(change.before)
        does = change.type != "DELETED" and self.matches(change.after)
        if not did and not does:
            return None
        kind = "MODIFIED" if did and does else "ADDED" if does else "DELETED"
        return {"type": kind, "object": change.after}

    def _concerns(self, one: Mapping[str, Any]) -> bool:
        metadata = one["metadata"]
        wanted = self.target
        return wanted.namespace in ("", metadata.get("namespace", "")) and wanted.name in ("", metadata["name"])
