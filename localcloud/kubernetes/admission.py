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
        why = f"unable to create new content in namespace {place} because it is being terminated"
        raise forbidden(resource, name, why)


def complete(store: Store, resource: Resource, made: Object) -> None:
    """Complete a new object that has its uid.

    Raises:
        ApiError: Admission refuses it.
    """
    if resource is POD:
        _with_service_account(store, made)
        made["status"] = {"phase": "Pending", "qosClass": _quality(made["spec"])}
    elif resource.kind == "Job" and not resource.is_custom:
        _with_selector(made)
        made["status"] = {}
    elif resource.kind == "Namespace":
        made["spec"] = {"finalizers": ["kubernetes"]}
        made["metadata"].setdefault("labels", {})["kubernetes.io/metadata.name"] = made["metadata"]["name"]
        made["status"] = {"phase": "Active"}
    if resource.namespaced:
        _check_quotas(store, resource, made)


def _with_service_account(store: Store, pod: Object) -> None:
    spec, namespace = pod["spec"], pod["metadata"]["namespace"]
    name = spec.get("serviceAccountName") or "default"
    spec |= {"serviceAccountName": name, "serviceAccount": name}
    if store.find(SERVICE_ACCOUNT, namespace, name) is None:
        found = f'serviceaccount "{name}" not found'
        why = f"error looking up service account {namespace}/{name}: {found}"
        raise forbidden(POD, pod["metadata"]["name"], why)


def _with_selector(job: Object) -> None:
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
    given = [(one.get("resources") or {}) for one in containers]
    if not any(one.get(part) for one in given for part in ("requests", "limits")):
        return "BestEffort"
    wanted = [one.get("limits") or {} for one in given]
    whole = all({"cpu", "memory"} <= set(limits) for limits in wanted)
    same = all((one.get("requests") or limits) == limits for one, limits in zip(given, wanted, strict=True))
    return "Guaranteed" if whole and same else "Burstable"


def _check_quotas(store: Store, resource: Resource, made: Object) -> None:
    namespace = made["metadata"]["namespace"]
    asked = _usage(resource, made)
    for quota in store.all(RESOURCE_QUOTA, namespace)[0] if asked else ():
        hard = {name: amount(value) * 1000 for name, value in ((quota.get("spec") or {}).get("hard") or {}).items()}
        wanted = {name: asked[name] for name in hard if asked[name]}
        used = Counter[str]()
        for one in store.all(resource, namespace)[0] if wanted else ():
            used += _usage(resource, one)
        exceeded = [name for name in sorted(wanted) if used[name] + wanted[name] > hard[name]]
        if exceeded:
            texts = [",".join(f"{name}={_shown(found[name])}" for name in exceeded) for found in (wanted, used, hard)]
            what = "requested: {}, used: {}, limited: {}".format(*texts)
            raise forbidden(resource, made["metadata"]["name"], f"exceeded quota: {quota['metadata']['name']}, {what}")


def _usage(resource: Resource, one: Object) -> Counter[str]:
    """Return the use of quotas by an object, in thousandths; ended pods use only their count."""
    counted = Counter({f"count/{resource.full_name}": 1000})
    if resource.plural in _COUNTED:
        counted[resource.plural] = 1000
    if resource is not POD:
        return counted
    if (one.get("status") or {}).get("phase") in ("Succeeded", "Failed"):
        return Counter({"count/pods": 1000})
    asked = requests(one["spec"])
    for name, value in asked.items():
        if name != "pods":
            counted[f"requests.{name}"] = value
        if name in ("cpu", "memory"):
            counted[name] = value
    return counted


def _shown(thousandths: Any) -> str:
    whole, rest = divmod(int(thousandths), 1000)
    return f"{int(thousandths)}m" if rest else str(whole)
