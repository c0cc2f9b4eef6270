"""Namespace controller: deletes the objects of a namespace that is being deleted, and then the namespace.

Source: https://kubernetes.io/docs/tasks/administer-cluster/namespaces/#deleting-a-namespace. A namespace remains, in
the phase Terminating, as long as finalizers keep one of its objects. Kubernetes has its own finalizer in the
specification of the namespace; here it is one of the metadata, and only while the namespace is being deleted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from localcloud.kubernetes.controllers.controller import Controller
from localcloud.kubernetes.deletion import OF_NAMESPACES
from localcloud.kubernetes.resources import NAMESPACE

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.store import Key, Object

_RETRY_SECONDS = 0.5


class NamespaceController(Controller):
    """The namespace controller of a cluster."""

    def keys(self, key: Key, one: Object) -> Iterable[Key]:
        """Synchronize namespaces that are being deleted."""
        return [key] if key[0] is NAMESPACE and "deletionTimestamp" in one["metadata"] else []

    def sync(self, key: Key) -> float | None:
        """Delete the objects of a namespace; remove the namespace once it has none."""
        namespace = self.client.find(*key)
        if namespace is None or "deletionTimestamp" not in namespace["metadata"]:
            return None
        self.client.update_status(NAMESPACE, namespace, lambda one: one.update(status={"phase": "Terminating"}))
        left = [other for other in self.client.store.present_keys() if other[1] == key[2]]
        for other in left:
            found = self.client.find(*other)
            if found and "deletionTimestamp" not in found["metadata"]:
                self.client.delete(*other)
        if not left:
            self.client.update(NAMESPACE, namespace, _release)
        return _RETRY_SECONDS


def _release(namespace: Object) -> None:
    finalizers = namespace["metadata"].get("finalizers") or []
    namespace["metadata"]["finalizers"] = [one for one in finalizers if one != OF_NAMESPACES]
