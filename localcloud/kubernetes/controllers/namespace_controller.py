"""Namespace controller: gives each namespace its default service account, and empties one that is being deleted.

Sources: pkg/controller/serviceaccount/serviceaccounts_controller.go, and pkg/controller/namespace/deletion of
Kubernetes (namespaced_resources_deleter.go, status_condition_utils.go). A namespace is removed when it is empty, so an
object with a finalizer keeps it. Roles and RoleBindings are deleted at once, also those that allow a program to remove
its finalizer.
"""

from __future__ import annotations

import contextlib
from collections import Counter
from typing import TYPE_CHECKING

from localcloud.kubernetes.controllers.controller import Controller
from localcloud.kubernetes.events import timestamp
from localcloud.kubernetes.kubelet.pod_status import set_condition
from localcloud.kubernetes.resources import NAMESPACE, SERVICE_ACCOUNT
from localcloud.kubernetes.status import ApiError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Key, Object

_AGAIN_SECONDS = 0.5
_DEFAULT = "default"


class NamespaceController(Controller):
    """The controllers of the namespaces of a cluster."""

    def keys(self, key: Key, entry: Object) -> Iterable[Key]:
        """Return the key of a namespace; one that is being deleted is synchronized until it is gone."""
        del entry
        return [key] if key[0] is NAMESPACE else []

    def sync(self, key: Key) -> float | None:
        """Add the service account of a namespace, or delete its content."""
        namespace = self.client.find(*key)
        if namespace is None:
            return None
        if "deletionTimestamp" in namespace["metadata"]:
            return self._delete_content(namespace)
        if self.client.find(SERVICE_ACCOUNT, key[2], _DEFAULT) is None:
            self.client.create(SERVICE_ACCOUNT, key[2], {"metadata": {"name": _DEFAULT}})
        return None

    def _delete_content(self, namespace: Object) -> float | None:
        """Delete the content, and remove the namespace if there is none left."""
        name = namespace["metadata"]["name"]
        self.client.update_status(NAMESPACE, namespace, lambda changed: changed["status"].update(phase="Terminating"))
        for resource, entry in self._content(name):
            if "deletionTimestamp" not in entry["metadata"]:
                with contextlib.suppress(ApiError):  # removed meanwhile
                    self.client.delete(resource, name, entry["metadata"]["name"], uid=entry["metadata"]["uid"])
        remaining_content = self._content(name)
        self.client.update_status(NAMESPACE, namespace, lambda changed: _report(changed, remaining_content))
        if remaining_content:
            return _AGAIN_SECONDS
        self.client.update(NAMESPACE, namespace, lambda changed: changed["spec"].update(finalizers=[]))
        return None

    def _content(self, namespace: str) -> list[tuple[Resource, Object]]:
        """Return the objects of a namespace, each with its kind."""
        kinds = (api_resource for api_resource in self.client.api.resources if api_resource.namespaced)
        return [(kind, entry) for kind in kinds for entry in self.client.store.all(kind, namespace)[0]]


def _report(namespace: Object, left: list[tuple[Resource, Object]]) -> None:
    """Set the phase and the conditions of a namespace that is being deleted."""
    kinds = Counter(f"{resource.plural}.{resource.group}" for resource, _ in left)
    finalizers = Counter(finalizer for _, entry in left for finalizer in entry["metadata"].get("finalizers") or [])
    conditions = [
        _condition("DeletionDiscoveryFailure", "ResourcesDiscovered", "All resources successfully discovered"),
        _condition(
            "DeletionGroupVersionParsingFailure", "ParsedGroupVersions", "All legacy kube types successfully parsed"
        ),
        _condition(
            "DeletionContentFailure",
            "ContentDeleted",
            "All content successfully deleted, may be waiting on finalization",
        ),
        _condition("ContentRemaining", "SomeResourcesRemain", "Some resources are remaining: " + _texts(kinds, "has"))
        if kinds
        else _condition("ContentRemaining", "ContentRemoved", "All content successfully removed"),
        _condition(
            "FinalizersRemaining",
            "SomeFinalizersRemain",
            "Some content in the namespace has finalizers remaining: " + _texts(finalizers, "in"),
        )
        if finalizers
        else _condition("FinalizersRemaining", "ContentHasNoFinalizers", "All content-preserving finalizers finished"),
    ]
    status = namespace.setdefault("status", {})
    for condition in conditions:
        set_condition(status, condition, timestamp())
        for entry in status["conditions"]:
            entry.pop("lastProbeTime", None)


def _condition(kind: str, reason: str, message: str) -> dict[str, str]:
    holds = reason.startswith("Some")
    return {"type": f"Namespace{kind}", "status": str(holds), "reason": reason, "message": message}


def _texts(counts: Counter[str], verb: str) -> str:
    return ", ".join(f"{name} {verb} {count} resource instances" for name, count in sorted(counts.items()))
