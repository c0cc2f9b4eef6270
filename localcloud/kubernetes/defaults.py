"""Defaults: the values that the server adds to pods, jobs and services before it stores them.

Sources: pkg/apis/core/v1/defaults.go and pkg/apis/batch/v1/defaults.go of Kubernetes. Not added, because no client of
localcloud depends on them: the defaults of probes and of most volume types.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object

_MODE = 0o644


def with_defaults_of_kind(resource: Resource, new: Object) -> Object:
    """Add the defaults of a built-in kind to an object with correct types, and return it."""
    spec = new.get("spec")
    if resource.is_custom or not isinstance(spec, dict):
        return new
    if resource.kind == "Pod":
        _pod(spec)
        spec.setdefault("enableServiceLinks", True)
        for container in _containers(spec):
            _requests(container)
    elif resource.kind == "Job":
        _job(spec)
    elif resource.kind == "Service":
        spec.setdefault("type", "ClusterIP")
        spec.setdefault("sessionAffinity", "None")
        for port in spec.get("ports") or []:
            port.setdefault("protocol", "TCP")
            port.setdefault("targetPort", port.get("port"))
    elif resource.kind == "Deployment" and spec.get("template"):
        _pod(spec["template"].setdefault("spec", {}))
    return new


def _job(spec: dict[str, Any]) -> None:
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    values = {
        "parallelism": 1,
        "backoffLimit": 2**31 - 1 if spec.get("backoffLimitPerIndex") is not None else 6,
        "completionMode": "NonIndexed",
        "suspend": False,
        "podReplacementPolicy": "Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed",
        "manualSelector": False,
    }
    for name, value in values.items():
        if spec.get(name) is None:
            spec[name] = value
    for rule in (spec.get("podFailurePolicy") or {}).get("rules") or []:
        for pattern in rule.get("onPodConditions") or []:
            pattern.setdefault("status", "True")
    template = spec.get("template")
    if isinstance(template, dict) and isinstance(template.get("spec"), dict):
        _pod(template["spec"])


def _pod(spec: dict[str, Any]) -> None:
    values: dict[str, Any] = {
        "restartPolicy": "Always",
        "dnsPolicy": "ClusterFirst",
        "terminationGracePeriodSeconds": 30,
        "securityContext": {},
        "schedulerName": "default-scheduler",
    }
    for name, value in values.items():
        if spec.get(name) is None:
            spec[name] = value
    if spec.get("serviceAccountName"):
        spec["serviceAccount"] = spec["serviceAccountName"]
    for container in _containers(spec):
        _container(container)
    _volumes(spec)


def _volumes(spec: dict[str, Any]) -> None:
    for volume in spec.get("volumes") or []:
        if set(volume) == {"name"}:
            volume["emptyDir"] = {}
        for source in ("downwardAPI", "configMap", "secret", "projected"):
            if isinstance(volume.get(source), dict):
                volume[source].setdefault("defaultMode", _MODE)
        for item in (volume.get("downwardAPI") or {}).get("items") or []:
            if item.get("fieldRef"):
                item["fieldRef"].setdefault("apiVersion", "v1")


def _container(container: dict[str, Any]) -> None:
    image = str(container.get("image") or "")
    tag = image.rpartition("/")[2].partition(":")[2]
    always = "@" not in image and tag in ("", "latest")
    values: dict[str, Any] = {
        "imagePullPolicy": "Always" if always else "IfNotPresent",
        "terminationMessagePath": "/dev/termination-log",
        "terminationMessagePolicy": "File",
        "resources": {},
    }
    for name, value in values.items():
        if container.get(name) is None:
            container[name] = value
    for variable in container.get("env") or []:
        if (variable.get("valueFrom") or {}).get("fieldRef"):
            variable["valueFrom"]["fieldRef"].setdefault("apiVersion", "v1")


def _requests(container: dict[str, Any]) -> None:
    """Use limits as requests that are absent."""
    resources = container.get("resources") or {}
    if limits := resources.get("limits"):
        resources["requests"] = {**limits, **(resources.get("requests") or {})}


def _containers(spec: dict[str, Any]) -> list[dict[str, Any]]:
    return [*(spec.get("initContainers") or []), *(spec.get("containers") or [])]
