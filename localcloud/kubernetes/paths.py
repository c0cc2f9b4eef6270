"""Paths: which resource, namespace, object and subresource the path of a request names."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.resources import Resource


@dataclass(frozen=True, kw_only=True)
class Target:
    """The target of a request.

    Attributes:
        namespace: The namespace; empty for all.
        name: The object's name; empty for all objects.
        subresource: The subresource, for example "status"; empty for the object.
    """

    resource: Resource
    namespace: str = ""
    name: str = ""
    subresource: str = ""


def target_of(path: str, resources: Iterable[Resource]) -> Target | None:
    """Return the target of a path, or None if the server does not serve it.

    Args:
        path: The path, for example /apis/batch/v1/namespaces/default/jobs/one/status.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 1:
        group, version, segments = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 2:  # group and version
        group, version, segments = parts[1], parts[2], parts[3:]
    else:
        return None
    resource_by_path = {
        served_resource.plural: served_resource
        for served_resource in resources
        if (served_resource.group, served_resource.version) == (group, version)
    }
    namespace = ""
    if len(segments) > 2 and segments[0] == "namespaces" and segments[2] in resource_by_path:  # namespaces/NAME/PLURAL
        namespace, segments = segments[1], segments[2:]
    if not segments or segments[0] not in resource_by_path or len(segments) > 3:  # PLURAL/NAME/SUBRESOURCE
        return None
    name, subresource = (*segments[1:], "", "")[:2]
    resource = resource_by_path[segments[0]]
    if bool(namespace) != resource.namespaced and (name or namespace):
        return None
    return Target(resource=resource, namespace=namespace, name=name, subresource=subresource)
