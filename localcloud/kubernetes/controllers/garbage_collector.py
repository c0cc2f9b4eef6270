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
    """The garbage collector of a cluster."""

    def __init__(self, client: Client) -> None:
        super().__init__(client)
        self._kinds = {(resource.api_version, resource.kind): resource for resource in client.api.resources}

    def keys(self, key: Key, entry: Object) -> Iterable[Key]:
        """Return the keys of dependents, of the owners that wait for them, and of the dependents of owners."""
        uid, metadata = entry["metadata"]["uid"], entry["metadata"]
        keys = [key] if metadata.get("ownerReferences") or "deletionTimestamp" in metadata else []
        owners = [(self._kind(owner), owner["name"]) for owner in metadata.get("ownerReferences") or []]
        for resource, name in owners:
            if resource:
                keys.append((resource, metadata.get("namespace", "") if resource.namespaced else "", name))
        return [*keys, *(dependent for dependent, _ in self.client.store.dependents(uid))]

    def sync(self, key: Key) -> float | None:
        """Collect an object, or its dependents."""
        entry = self.client.find(*key)
        if entry is None:
            return None
        finalizers = entry["metadata"].get("finalizers") or []
        if "deletionTimestamp" in entry["metadata"]:
            if ORPHAN in finalizers:
                self._orphan(key[0], entry)
            elif FOREGROUND in finalizers:
                return self._delete_dependents(key[0], entry)
            return None
        if entry["metadata"].get("ownerReferences"):
            self._collect(key[0], entry)
        return None

    def _collect(self, resource: Resource, entry: Object) -> None:
        """Delete a dependent without a solid owner; otherwise remove its references to other owners."""
        metadata = entry["metadata"]
        owners = metadata["ownerReferences"]
        references = [(owner, self._owner(owner, metadata.get("namespace", ""))) for owner in owners]
        waiting = [
            owner
            for owner, owner_object in references
            if owner_object is not None and _waits_for_dependents(owner_object)
        ]
        solid = [owner for owner, owner_object in references if owner_object is not None and owner not in waiting]
        if solid:
            if len(solid) < len(owners):
                self.client.update(resource, entry, lambda changed: changed["metadata"].update(ownerReferences=solid))
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
        for key, dependent in dependents:
            if "deletionTimestamp" not in dependent["metadata"]:
                self._collect(key[0], dependent)
        remaining_dependents = self.client.store.dependents(uid)
        if not any(_blocks(dependent, uid) for _, dependent in remaining_dependents):
            self.client.update(resource, owner, lambda changed: _remove(changed, FOREGROUND))
        return None

    def _orphan(self, resource: Resource, owner: Object) -> None:
        uid = owner["metadata"]["uid"]
        for key, dependent in self.client.store.dependents(uid):
            self.client.update(key[0], dependent, lambda changed: _without_owner(changed, uid))
        self.client.update(resource, owner, lambda changed: _remove(changed, ORPHAN))

    def _owner(self, reference: dict[str, Any], namespace: str) -> Object | None:
        """Return the owner of a reference; None if it is gone, or another object has its name."""
        resource = self._kind(reference)
        if resource is None:  # the definition of its kind is not installed: the real collector waits for it
            return {"metadata": {}}
        owner = self.client.find(resource, namespace if resource.namespaced else "", reference["name"])
        return owner if owner and owner["metadata"]["uid"] == reference["uid"] else None

    def _kind(self, reference: dict[str, Any]) -> Resource | None:
        return self._kinds.get((reference["apiVersion"], reference["kind"]))


def _waits_for_dependents(owner: Object) -> bool:
    """Return True if an owner waits for the deletion of its dependents."""
    metadata = owner["metadata"]
    return "deletionTimestamp" in metadata and FOREGROUND in (metadata.get("finalizers") or [])


def _blocks(dependent: Object, uid: str) -> bool:
    return any(
        owner["uid"] == uid and owner.get("blockOwnerDeletion") for owner in dependent["metadata"]["ownerReferences"]
    )


def _remove(changed: Object, finalizer: str) -> None:
    changed["metadata"]["finalizers"] = [
        present_finalizer
        for present_finalizer in changed["metadata"].get("finalizers") or []
        if present_finalizer != finalizer
    ]


def _without_owner(changed: Object, uid: str) -> None:
    changed["metadata"]["ownerReferences"] = [
        owner for owner in changed["metadata"]["ownerReferences"] if owner["uid"] != uid
    ]
