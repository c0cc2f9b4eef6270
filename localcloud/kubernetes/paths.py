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
        resource: The resource.
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
        resources: The served resources.
    """
    parts = path.strip("/").split("/")
    if parts[0] == "api" and len(parts) > 1:
        group, version, rest = "", parts[1], parts[2:]
    elif parts[0] == "apis" and len(parts) > 2:  # group and version
        group, version, rest = parts[1], parts[2], parts[3:]
    else:
        return None
    served = {one.plural: one for one in resources if (one.group, one.version) == (group, version)}
    namespace = ""
    if len(rest) > 2 and rest[0] == "namespaces" and rest[2] in served:  # namespaces/NAME/PLURAL
        namespace, rest = rest[1], rest[2:]
    if not rest or rest[0] not in served or len(rest) > 3:  # PLURAL/NAME/SUBRESOURCE
        return None
    name, subresource = (*rest[1:], "", "")[:2]
    resource = served[rest[0]]
    if bool(namespace) != resource.namespaced and (name or namespace):
        return None
    return Target(resource=resource, namespace=namespace, name=name, subresource=subresource)
