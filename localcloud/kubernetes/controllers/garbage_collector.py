"""Garbage collector: deletes objects whose owners are gone, or are being deleted in the foreground, and orphans others.

Source: https://kubernetes.io/docs/concepts/architecture/garbage-collection/, and for the details
pkg/controller/garbagecollector/garbagecollector.go of Kubernetes (attemptToDeleteItem, orphanDependents). An owner must
be in the namespace of its dependents.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.controllers.controller import Controller
from localcloud.kubernetes.deletion import FOREGROUND, ORPHAN

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.client import Client
    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Key, Object


class GarbageCollector(Controller):
    """The garbage collector of a cluster.

    Args:
        client: The client of the API.
    """

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._kinds = {(one.api_version, one.kind): one for one in client.api.resources}

    def keys(self, key: Key, one: Object) -> Iterable[Key]:
        """Synchronize dependents, the owners that wait for them, and the dependents of owners."""
        uid, metadata = one["metadata"]["uid"], one["metadata"]
        found = [key] if metadata.get("ownerReferences") or "deletionTimestamp" in metadata else []
        named = [(self._kind(owner), owner["name"]) for owner in metadata.get("ownerReferences") or []]
        found += [
            (resource, metadata.get("namespace", "") if resource.namespaced else "", name)
            for resource, name in named
            if resource
        ]
        return [*found, *(dependent for dependent, _ in self.client.store.dependents(uid))]

    def sync(self, key: Key) -> float | None:
        """Collect an object, or its dependents."""
        one = self.client.find(*key)
        if one is None:
            return None
        finalizers = one["metadata"].get("finalizers") or []
        if "deletionTimestamp" in one["metadata"]:
            if ORPHAN in finalizers:
                self._orphan(key[0], one)
            elif FOREGROUND in finalizers:
                return self._delete_dependents(key[0], one)
            return None
        if one["metadata"].get("ownerReferences"):
            self._collect(key[0], one)
        return None

    def _collect(self, resource: Resource, one: Object) -> None:
        """Delete a dependent without a solid owner; otherwise remove its references to other owners."""
        metadata = one["metadata"]
        owners = metadata["ownerReferences"]
        found = [(owner, self._owner(owner, metadata.get("namespace", ""))) for owner in owners]
        waiting = [owner for owner, present in found if present is not None and _waits(present)]
        solid = [owner for owner, present in found if present is not None and owner not in waiting]
        if solid:
            if len(solid) < len(owners):
                self.client.update(resource, one, lambda made: made["metadata"].update(ownerReferences=solid))
            return
        has_dependents = bool(self.client.store.dependents(metadata["uid"]))
        finalizers = metadata.get("finalizers") or []
        policy = "Foreground" if (waiting and has_dependents) or FOREGROUND in finalizers else "Background"
        policy = "Orphan" if not waiting and ORPHAN in finalizers else policy
        place = metadata.get("namespace", ""), metadata["name"]
        self.client.delete(resource, *place, propagation=policy, uid=metadata["uid"])

    def _delete_dependents(self, resource: Resource, owner: Object) -> float | None:
        """Remove the finalizer of an owner once no dependent blocks its deletion."""
        uid = owner["metadata"]["uid"]
        dependents = self.client.store.dependents(uid)
        for key, one in dependents:
            if "deletionTimestamp" not in one["metadata"]:
                self._collect(key[0], one)
        left = self.client.store.dependents(uid)
        if not any(_blocks(one, uid) for _, one in left):
            self.client.update(resource, owner, lambda made: _remove(made, FOREGROUND))
        return None

    def _orphan(self, resource: Resource, owner: Object) -> None:
        uid = owner["metadata"]["uid"]
        for key, one in self.client.store.dependents(uid):
            self.client.update(key[0], one, lambda made: _without_owner(made, uid))
        self.client.update(resource, owner, lambda made: _remove(made, ORPHAN))

    def _owner(self, reference: dict[str, Any], namespace: str) -> Object | None:
        """Return the owner of a reference; None if it is gone, or another object has its name."""
        resource = self._kind(reference)
        if resource is None:  # the definition of its kind is not installed: the real collector waits for it
            return {"metadata": {}}
        found = self.client.find(resource, namespace if resource.namespaced else "", reference["name"])
        return found if found and found["metadata"]["uid"] == reference["uid"] else None

    def _kind(self, reference: dict[str, Any]) -> Resource | None:
        return self._kinds.get((reference["apiVersion"], reference["kind"]))


def _waits(owner: Object) -> bool:
    """Return True if an owner waits for the deletion of its dependents."""
    metadata = owner["metadata"]
    return "deletionTimestamp" in metadata and FOREGROUND in (metadata.get("finalizers") or [])


def _blocks(one: Object, uid: str) -> bool:
    return any(owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in one["metadata"]["ownerReferences"])


def _remove(made: Object, finalizer: str) -> None:
    made["metadata"]["finalizers"] = [one for one in made["metadata"].get("finalizers") or [] if one != finalizer]


def _without_owner(made: Object, uid: str) -> None:
    made["metadata"]["ownerReferences"] = [one for one in made["metadata"]["ownerReferences"] if one["uid"] != uid]
