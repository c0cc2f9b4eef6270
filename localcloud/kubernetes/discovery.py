"""Discovery: the lists of groups, versions and resources of a server, which kubectl reads first.

Source: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.resources import Resource

VERSION = {
    "major": "1",
    "minor": "36",
    "gitVersion": "v1.36.2",
    "platform": "linux/amd64",
    "compiler": "gc",
    "goVersion": "",
    "gitCommit": "",
    "gitTreeState": "",
    "buildDate": "1970-01-01T00:00:00Z",
}
"""The version whose answers were recorded. Typed clients require all of its fields; those of a build are of a build
without a stamp (https://github.com/kubernetes/component-base/blob/master/version/base.go)."""
_LOG = {"name": "pods/log", "singularName": "", "namespaced": True, "kind": "Pod", "verbs": ["get"]}
_EVICTION = {
    "name": "pods/eviction",
    "singularName": "",
    "namespaced": True,
    "group": "policy",
    "version": "v1",
    "kind": "Eviction",
    "verbs": ["create"],
}
_VERBS = ("create", "delete", "deletecollection", "get", "list", "patch", "update", "watch")


def discovery(path: str, resources: Iterable[Resource]) -> dict[str, Any] | None:
    """Return the reply to a path of the discovery, or None for other paths."""
    parts = path.strip("/").split("/")
    resource_kinds = list(resources)
    if parts == ["version"]:
        return dict(VERSION)
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if parts == ["apis"]:
        groups = dict.fromkeys(resource.group for resource in resource_kinds if resource.group)
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name, resource_kinds) for name in groups]}
    if parts == ["api", "v1"]:
        return _list("v1", resource_kinds)
    if parts[0] == "apis" and len(parts) == 3:  # group and version
        resource_list = _list(f"{parts[1]}/{parts[2]}", resource_kinds)
        return resource_list if resource_list["resources"] else None
    return None


def _group(name: str, resources: Iterable[Resource]) -> dict[str, Any]:
    served = dict.fromkeys(resource.version for resource in resources if resource.group == name)
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in served]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _list(api_version: str, resources: Iterable[Resource]) -> dict[str, Any]:
    entries = []
    for resource in resources:
        if resource.api_version != api_version:
            continue
        entry = {
            "name": resource.plural,
            "singularName": resource.kind.lower(),
            "namespaced": resource.namespaced,
            "kind": resource.kind,
        }
        entries.append({**entry, "verbs": list(_VERBS), "shortNames": list(resource.short_names)})
        if resource.has_status:
            entries.append(
                {**entry, "name": f"{resource.plural}/status", "singularName": "", "verbs": ["get", "patch", "update"]}
            )
        if resource.kind == "Pod" and not resource.group:
            entries += [_LOG, _EVICTION]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries}
