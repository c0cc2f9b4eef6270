"""Store: the objects of a cluster, with resource versions, generations, finalizers, and a history for watches.

Sources: https://kubernetes.io/docs/reference/using-api/api-concepts/ (resource versions, watches, chunks) and
https://kubernetes.io/docs/concepts/overview/working-with-objects/finalizers/.
"""

from __future__ import annotations

import copy
import threading
import uuid
from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import takewhile
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes import status

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcloud.kubernetes.resources import Resource

Object = dict[str, Any]
_HISTORY = 1000
"""The number of changes that watches can read again. A real server keeps five minutes of them."""
_OWNED_BY_SERVER = (
    "uid",
    "resourceVersion",
    "generation",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
)
Key = tuple["Resource", str, str]
"""An object's resource, namespace and name."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """A change of an object.

    Attributes:
        version: The resource version of the cluster after it.
        type: ADDED, MODIFIED or DELETED.
        after: The object after the change; for DELETED, its last state.
        before: The object before the change; None for ADDED.
    """

    version: int
    type: str
    resource: Resource
    after: Object
    before: Object | None = None


class Store:
    """The objects of one cluster."""

    def __init__(self, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._now = now
        self._objects: dict[Key, Object] = {}
        self._dependents: dict[str, set[Key]] = {}
        self._history: deque[Change] = deque(maxlen=_HISTORY)
        self._changed = threading.Condition(threading.RLock())
        self._version = 1

    @property
    def version(self) -> int:
        """The resource version of the whole cluster."""
        with self._changed:
            return self._version

    def create(
        self,
        resource: Resource,
        namespace: str,
        new: Object,
        prepare: Callable[[Object], None] = lambda _: None,
    ) -> Object:
        """Store a new object, and return it.

        Args:
            prepare: Completes the object once it has its uid; the cluster does not change meanwhile.

        Raises:
            ApiError: The name is taken, or `prepare` refuses the object.
        """
        with self._changed:
            entry = copy.deepcopy(new)
            metadata = entry["metadata"]
            key = (resource, namespace, metadata["name"])
            if existing := self._objects.get(key):
                deleting = "deletionTimestamp" in existing["metadata"]
                raise status.already_exists(resource, metadata["name"], deleting=deleting)
            for name in _OWNED_BY_SERVER:
                metadata.pop(name, None)
            metadata |= {"uid": str(uuid.uuid4()), "creationTimestamp": _text(self._now())}
            if resource.has_generation:
                metadata["generation"] = 1
            if resource.namespaced:
                metadata["namespace"] = namespace
            if resource.has_status:
                entry.pop("status", None)
            prepare(entry)
            return self._commit("ADDED", key, entry, None)

    def get(self, resource: Resource, namespace: str, name: str) -> Object:
        """Return an object.

        Raises:
            ApiError: It does not exist.
        """
        with self._changed:
            if (stored_object := self._objects.get((resource, namespace, name))) is None:
                raise status.not_found(resource, name)
            return copy.deepcopy(stored_object)

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object, or None if it does not exist."""
        with self._changed:
            return copy.deepcopy(self._objects.get((resource, namespace, name)))

    def all(
        self, resource: Resource, namespace: str = "", where: Callable[[Object], bool] = lambda _: True
    ) -> tuple[list[Object], int]:
        """Return the objects of a resource in the order of their names, and the resource version of the cluster.

        Args:
            namespace: Only objects in this namespace; by default in all.
            where: Returns True for the objects to return; it must not change them.
        """
        with self._changed:
            keys = [key for key in self._objects if key[0] is resource and namespace in ("", key[1])]
            objects = [self._objects[key] for key in sorted(keys, key=lambda key: key[1:])]
            return [copy.deepcopy(entry) for entry in objects if where(entry)], self._version

    def present_keys(self) -> list[Key]:
        """Return the keys of all objects."""
        with self._changed:
            return list(self._objects)

    def has_uid(self, key: Key, uid: str) -> bool:
        """Return True if an object exists and has a uid."""
        with self._changed:
            return key in self._objects and self._objects[key]["metadata"]["uid"] == uid

    def dependents(self, uid: str) -> list[tuple[Key, Object]]:
        """Return the objects that have an owner with a uid."""
        with self._changed:
            return [
                (key, copy.deepcopy(self._objects[key])) for key in sorted(self._dependents.get(uid, ()), key=_place)
            ]

    def update(
        self, resource: Resource, namespace: str, name: str, change: Callable[[Object], Object], *, of_status: bool
    ) -> Object:
        """Replace an object, and return the new one; remove it if it is being deleted and has no finalizers any more.

        Args:
            change: Returns the new object for the present one. A `resourceVersion` in it must be the present one.
            of_status: Change only the status; otherwise all else.

        Raises:
            ApiError: The object does not exist, or has another resource version.
        """
        with self._changed:
            current = self.get(resource, namespace, name)
            changed_object = change(copy.deepcopy(current))
            expected = changed_object["metadata"].get("resourceVersion")
            if expected not in (None, "", current["metadata"]["resourceVersion"]):
                raise status.outdated(resource, name)
            merged = _merged(resource, current, changed_object, of_status=of_status)
            if merged == current:
                return current
            key = (resource, namespace, name)
            is_removed = "deletionTimestamp" in merged["metadata"] and not _has_finalizers(resource, merged)
            if is_removed and not merged["metadata"].get("deletionGracePeriodSeconds"):
                return self._commit("DELETED", key, merged, current)
            return self._commit("MODIFIED", key, merged, current)

    def delete(
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        finalizers: Callable[[list[str]], list[str]] = lambda current: current,
        grace_seconds: Callable[[Object], int] = lambda _: 0,
    ) -> tuple[Object, bool]:
        """Delete an object, or mark it while it has finalizers or a grace period.

        Args:
            finalizers: Returns the finalizers for the present ones, according to the propagation.
            grace_seconds: Returns the grace period of the object. A later deletion can only shorten it.

        Returns:
            The object's last state, and whether it is gone.
        """
        with self._changed:
            current = self.get(resource, namespace, name)
            marked_object = copy.deepcopy(current)
            metadata, key = marked_object["metadata"], (resource, namespace, name)
            metadata["finalizers"] = finalizers(metadata.get("finalizers") or [])
            if not metadata["finalizers"]:
                del metadata["finalizers"]
            grace = grace_seconds(current)
            if not grace and not _has_finalizers(resource, marked_object):
                return self._commit("DELETED", key, marked_object, current), True
            if "deletionTimestamp" not in metadata or grace < metadata["deletionGracePeriodSeconds"]:
                if "deletionTimestamp" not in metadata and resource.has_generation:
                    metadata["generation"] += 1
                metadata |= self._deletion(metadata, grace)
            if marked_object != current:
                marked_object = self._commit("MODIFIED", key, marked_object, current)
            return marked_object, False

    def changes(self, since: int) -> list[Change]:
        """Return the changes after a resource version.

        Raises:
            ApiError: The history does not reach back to it.
        """
        with self._changed:
            oldest = self._history[0].version if self._history else self._version + 1
            if since + 1 < oldest and since < self._version:
                raise status.expired(since, oldest - 1)
            newest_first = list(takewhile(lambda change: change.version > since, reversed(self._history)))
            return newest_first[::-1]

    def wait(self, since: int, seconds: float) -> bool:
        """Wait until the cluster has changed after a resource version; return False after the time."""
        with self._changed:
            return self._changed.wait_for(lambda: self._version > since, seconds)

    def compact(self) -> None:
        """Forget the history, as etcd's compaction does: watches from earlier versions end with 410."""
        with self._changed:
            self._history.clear()

    def _commit(self, kind: str, key: Key, new: Object, before: Object | None) -> Object:
        self._version += 1
        new["metadata"]["resourceVersion"] = str(self._version)
        for uid in _owners(before):
            self._dependents[uid].discard(key)
            if not self._dependents[uid]:
                del self._dependents[uid]
        if kind == "DELETED":
            del self._objects[key]
        else:
            self._objects[key] = new
            for uid in _owners(new):
                self._dependents.setdefault(uid, set()).add(key)
        after = copy.deepcopy(new)
        self._history.append(Change(version=self._version, type=kind, resource=key[0], after=after, before=before))
        self._changed.notify_all()
        return copy.deepcopy(new)

    def _deletion(self, metadata: Object, grace: int) -> Object:
        """Return the fields of an object that is deleted, now or within a shorter time than before.

        A shorter grace period begins with the first request, but does not end in the past (BeforeDelete in
        staging/src/k8s.io/apiserver/pkg/registry/rest/delete.go of Kubernetes).
        """
        now = self._now()
        first = now
        if before := metadata.get("deletionTimestamp"):
            first = datetime.fromisoformat(before) - timedelta(seconds=metadata["deletionGracePeriodSeconds"])
        end = first + timedelta(seconds=grace)
        if end < now:
            end, grace = now, min(grace, 1)
        return {"deletionTimestamp": _text(end), "deletionGracePeriodSeconds": grace}


def _text(time: datetime) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ")


def _place(key: Key) -> tuple[str, str, str]:
    return key[0].full_name, key[1], key[2]


def _has_finalizers(resource: Resource, entry: Object) -> bool:
    """Return True if an object must be kept; a namespace also has finalizers in its specification."""
    inner = (entry.get("spec") or {}).get("finalizers") if resource.kind == "Namespace" else None
    return bool(entry["metadata"].get("finalizers") or inner)


def _owners(entry: Object | None) -> set[str]:
    """Return the uids of an object's owners."""
    return {owner["uid"] for owner in (entry or {"metadata": {}})["metadata"].get("ownerReferences") or ()}


def _merged(resource: Resource, current: Object, changed: Object, *, of_status: bool) -> Object:
    """Return the object that an update stores: the server keeps some fields."""
    if of_status:
        return {**current, "status": changed.get("status", {})}
    merged = copy.deepcopy(changed)
    merged["metadata"] = {name: value for name, value in merged["metadata"].items() if name not in _OWNED_BY_SERVER}
    merged["metadata"] |= {name: current["metadata"][name] for name in _OWNED_BY_SERVER if name in current["metadata"]}
    if not merged["metadata"].get("finalizers"):
        merged["metadata"].pop("finalizers", None)
    if resource.has_status:
        merged.pop("status", None)
        if "status" in current:
            merged["status"] = current["status"]
    if resource.has_generation and _content(merged) != _content(current):
        merged["metadata"]["generation"] += 1
    return merged


def _content(entry: Object) -> list[tuple[str, Any]]:
    """Return all of an object that its generation counts."""
    return sorted((name, value) for name, value in entry.items() if name not in ("metadata", "status"))
