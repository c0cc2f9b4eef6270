"""Discovery: the lists of groups, versions and resources of a server, which kubectl reads first.

Source: https://kubernetes.io/docs/concepts/overview/kubernetes-api/#discovery-api.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.resources import Resource

VERSION = {"major": "1", "minor": "36", "gitVersion": "v1.36.2", "platform": "linux/amd64"}
"""The version whose answers were recorded."""
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
    parts, known = path.strip("/").split("/"), list(resources)
    if parts == ["version"]:
        return dict(VERSION)
    if parts == ["api"]:
        return {"kind": "APIVersions", "versions": ["v1"]}
    if parts == ["apis"]:
        named = dict.fromkeys(one.group for one in known if one.group)
        return {"kind": "APIGroupList", "apiVersion": "v1", "groups": [_group(name, known) for name in named]}
    if parts == ["api", "v1"]:
        return _list("v1", known)
    if parts[0] == "apis" and len(parts) == 3:  # group and version
        found = _list(f"{parts[1]}/{parts[2]}", known)
        return found if found["resources"] else None
    return None


def _group(name: str, resources: Iterable[Resource]) -> dict[str, Any]:
    served = dict.fromkeys(one.version for one in resources if one.group == name)
    versions = [{"groupVersion": f"{name}/{version}", "version": version} for version in served]
    return {"name": name, "versions": versions, "preferredVersion": versions[0]}


def _list(api_version: str, resources: Iterable[Resource]) -> dict[str, Any]:
    entries = []
    for one in resources:
        if one.api_version != api_version:
            continue
        entry = {"name": one.plural, "singularName": one.kind.lower(), "namespaced": one.namespaced, "kind": one.kind}
        entries.append({**entry, "verbs": list(_VERBS), "shortNames": list(one.short_names)})
        if one.has_status:
            entries.append(
                {**entry, "name": f"{one.plural}/status", "singularName": "", "verbs": ["get", "patch", "update"]}
            )
        if one.kind == "Pod" and not one.group:
            entries += [_LOG, _EVICTION]
    return {"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": api_version, "resources": entries}
