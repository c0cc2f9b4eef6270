"""Admission: the server's last checks and changes of a new object, which depend on other objects.

Sources: https://kubernetes.io/docs/reference/access-authn-authz/admission-controllers/ (ServiceAccount, ResourceQuota,
NamespaceLifecycle), and pkg/registry/batch/job/strategy.go of Kubernetes for the generated selector of jobs.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.quantities import amount, requests
from localcloud.kubernetes.resources import POD, RESOURCE_QUOTA, SERVICE_ACCOUNT
from localcloud.kubernetes.status import forbidden

if TYPE_CHECKING:
    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object, Store

_COUNTED = ("pods", "configmaps", "secrets", "services")


def check_namespace(resource: Resource, namespace: Object, name: str) -> None:
    """Refuse an object in a namespace that is being deleted.

    Raises:
        ApiError: The namespace terminates.
    """
    if "deletionTimestamp" in namespace["metadata"]:
        place = namespace["metadata"]["name"]
        reason = f"unable to create new content in namespace {place} because it is being terminated"
        raise forbidden(resource, name, reason)


def complete(store: Store, resource: Resource, new: Object) -> None:
    """Complete a new object that has its uid.

    Raises:
        ApiError: Admission refuses it.
    """
    if resource is POD:
        _add_service_account(store, new)
        new["status"] = {"phase": "Pending", "qosClass": _quality(new["spec"])}
    elif resource.kind == "Job" and not resource.is_custom:
        _add_selector(new)
        new["status"] = {}
    elif resource.kind == "Namespace":
        new["spec"] = {"finalizers": ["kubernetes"]}
        new["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = new["metadata"]["name"]
        new["status"] = {"phase": "Active"}
    if resource.namespaced:
        _check_quotas(store, resource, new)


def _add_service_account(store: Store, pod: Object) -> None:
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    name = spec.get("serviceAccountName") or "default"
    spec |= {"serviceAccountName": name, "serviceAccount": name}
    if store.find(SERVICE_ACCOUNT, namespace, name) is None:
        missing = f'serviceaccount "{name}" not found'
        reason = f"error looking up service account {namespace}/{name}: {missing}"
        raise forbidden(POD, pod["metadata"]["name"], reason)


def _add_selector(job: Object) -> None:
    """Add the labels of a job to its template, and select them."""
    spec, metadata = job["spec"], job["metadata"]
    labels = spec["template"].setdefault("metadata", {}).setdefault("labels", {})
    if spec.get("manualSelector"):
        return
    for prefix in ("", "batch.kubernetes.io/"):
        labels |= {f"{prefix}controller-uid": metadata["uid"], f"{prefix}job-name": metadata["name"]}
    spec["selector"] = {"matchLabels": {"batch.kubernetes.io/controller-uid": metadata["uid"]}}


def _quality(spec: dict[str, Any]) -> str:
    containers = [*(spec.get("initContainers") or []), *spec["containers"]]
    resources = [(container.get("resources") or {}) for container in containers]
    if not any(requirement.get(part) for requirement in resources for part in ("requests", "limits")):
        return "BestEffort"
    limits_of_all = [requirement.get("limits") or {} for requirement in resources]
    are_complete = all({"cpu", "memory"} <= set(limits) for limits in limits_of_all)
    same = all(
        (requirement.get("requests") or limits) == limits
        for requirement, limits in zip(resources, limits_of_all, strict=True)
    )
    return "Guaranteed" if are_complete and same else "Burstable"


def _check_quotas(store: Store, resource: Resource, new: Object) -> None:
    namespace = new["metadata"]["namespace"]
    usage = _usage(resource, new)
    if usage:
        for quota in store.all(RESOURCE_QUOTA, namespace)[0]:
            hard = {name: amount(value) * 1000 for name, value in ((quota.get("spec") or {}).get("hard") or {}).items()}
            limited = {name: usage[name] for name in hard if usage[name]}
            used_amounts = Counter[str]()
            if limited:
                for existing in store.all(resource, namespace)[0]:
                    used_amounts += _usage(resource, existing)
            exceeded = [name for name in sorted(limited) if used_amounts[name] + limited[name] > hard[name]]
            if exceeded:
                texts = [
                    ",".join(f"{name}={_quantity_text(counter[name])}" for name in exceeded)
                    for counter in (limited, used_amounts, hard)
                ]
                amounts = "requested: {}, used: {}, limited: {}".format(*texts)
                raise forbidden(
                    resource, new["metadata"]["name"], f"exceeded quota: {quota['metadata']['name']}, {amounts}"
                )


def _usage(resource: Resource, entry: Object) -> Counter[str]:
    """Return the use of quotas by an object, in thousandths; ended pods use only their count."""
    usage = Counter({f"count/{resource.full_name}": 1000})
    if resource.plural in _COUNTED:
        usage[resource.plural] = 1000
    if resource is not POD:
        return usage
    if (entry.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return Counter({"count/pods": 1000})
    requested = requests(entry["spec"])
    for name, value in requested.items():
        if name != "pods":
            usage[f"requests.{name}"] = value
        if name in ("cpu", "memory"):
            usage[name] = value
    return usage


def _quantity_text(thousandths: Any) -> str:
    number, fraction = divmod(int(thousandths), 1000)
    return f"{int(thousandths)}m" if fraction else str(number)
