"""Deletion: the effect of a DELETE on an object, according to its options.

Sources: https://kubernetes.io/docs/concepts/architecture/garbage-collection/ and
https://kubernetes.io/docs/concepts/workloads/pods/pod-lifecycle/#pod-termination; for the default propagation of jobs
and the order of finalizers pkg/registry/batch/job/strategy.go of Kubernetes and
pkg/registry/generic/registry/store.go of k8s.io/apiserver.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes import status
from localcloud.kubernetes.resources import POD

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object, Store

FOREGROUND = "foregroundDeletion"
ORPHAN = "orphan"
_POLICIES = ("Orphan", "Background", "Foreground")
_PRESERVED = (
    "child pods are preserved by default when jobs are deleted; set propagationPolicy=Background to remove them or set "
    "propagationPolicy=Orphan to suppress this warning"
)


@dataclass(frozen=True, kw_only=True)
class Options:
    """The options of a deletion.

    Attributes:
        propagation: The policy; empty for the default of the resource.
        grace_seconds: The grace period; None for the object's own.
        preconditions: The uid or the resource version that the object must have.
    """

    propagation: str = ""
    grace_seconds: int | None = None
    preconditions: Mapping[str, str] = field(default_factory=dict)


def options(query: Mapping[str, str], body: Mapping[str, Any]) -> Options:
    """Return the options of a request.

    Raises:
        ApiError: They are invalid.
    """
    propagation = body.get("propagationPolicy") or query.get("propagationPolicy", "")
    if propagation and propagation not in _POLICIES:
        policies = ", ".join(f'"{policy}"' for policy in sorted((*_POLICIES, "nil")))
        problem = f'propagationPolicy: Unsupported value: "{propagation}": supported values: {policies}'
        message = f"DeleteOptions.meta.k8s.io is invalid: {problem}"
        raise status.ApiError(code=422, reason="Invalid", message=message)
    grace = body.get("gracePeriodSeconds", query.get("gracePeriodSeconds"))
    return Options(
        propagation=propagation,
        grace_seconds=None if grace is None else max(0, int(grace)),
        preconditions=body.get("preconditions") or {},
    )


def warnings(resource: Resource, chosen: Options) -> list[str]:
    """Return the warnings of a deletion."""
    return [_PRESERVED] if _orphans_by_default(resource) and not chosen.propagation else []


def delete(store: Store, resource: Resource, namespace: str, name: str, chosen: Options) -> tuple[Object, bool]:
    """Delete an object; return its last state and True if it is gone.

    Raises:
        ApiError: It does not exist, or a precondition does not hold.
    """

    def finalizers(present: list[str]) -> list[str]:
        remaining = [finalizer for finalizer in present if finalizer not in (FOREGROUND, ORPHAN)]
        if chosen.propagation == "Orphan":
            return [*remaining, ORPHAN]
        if chosen.propagation == "Foreground":
            return [*remaining, FOREGROUND]
        if chosen.propagation == "Background":
            return remaining
        if ORPHAN in present or FOREGROUND in present:
            return present
        return [*remaining, ORPHAN] if _orphans_by_default(resource) else remaining

    def grace_seconds(present: Object) -> int:
        _check(resource, name, present, chosen)
        return _grace_of_pod(present, chosen.grace_seconds) if resource is POD else 0

    return store.delete(resource, namespace, name, finalizers=finalizers, grace_seconds=grace_seconds)


def _check(resource: Resource, name: str, current: Object, chosen: Options) -> None:
    for field_name, required in chosen.preconditions.items():
        actual = current["metadata"].get(field_name, "")
        if actual != required:
            label = {"uid": "UID", "resourceVersion": "ResourceVersion"}.get(field_name, field_name)
            raise status.precondition_failed(resource, name, label, required, actual)


def _grace_of_pod(pod: Object, requested: int | None) -> int:
    """Return a pod's grace period: none without a node, or if it has ended (pkg/registry/core/pod/strategy.go)."""
    if not pod["spec"].get("nodeName") or (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return 0
    return int(pod["spec"]["terminationGracePeriodSeconds"]) if requested is None else requested


def _orphans_by_default(resource: Resource) -> bool:
    return (resource.group, resource.kind) == ("batch", "Job")
