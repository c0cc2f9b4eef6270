"""OpenAPI: the part of the server's description in which kubectl looks up that a resource has `fieldValidation`.

Without it, kubectl validates objects itself, with schemas that only a whole description has
(https://kubernetes.io/docs/concepts/overview/kubernetes-api/#openapi-v3).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterable

    from localcloud.kubernetes.resources import Resource

_ROOT = "/openapi/v3"


def openapi(path: str, resources: Iterable[Resource]) -> dict[str, Any] | None:
    """Return the reply to a path of the description, or None for other paths."""
    resource_kinds = list(resources)
    places = {_place(resource): resource.api_version for resource in resource_kinds}
    if path == _ROOT:
        return {"paths": {place: {"serverRelativeURL": f"{_ROOT}/{place}"} for place in places}}
    version = places.get(path.removeprefix(f"{_ROOT}/"))
    if version is None:
        return None
    paths = {
        _object_path(resource): {"patch": _patch(resource)}
        for resource in resource_kinds
        if resource.api_version == version
    }
    return {"openapi": "3.0.0", "info": {"title": "Kubernetes", "version": "v1.36.2"}, "paths": paths}


def _place(resource: Resource) -> str:
    return f"apis/{resource.api_version}" if resource.group else f"api/{resource.version}"


def _object_path(resource: Resource) -> str:
    scope = "/namespaces/{namespace}" if resource.namespaced else ""
    return f"/{_place(resource)}{scope}/{resource.plural}/{{name}}"


def _patch(resource: Resource) -> dict[str, Any]:
    parameter = {"name": "fieldValidation", "in": "query", "schema": {"type": "string", "uniqueItems": True}}
    kind = {"group": resource.group, "version": resource.version, "kind": resource.kind}
    return {"parameters": [parameter], "responses": {}, "x-kubernetes-group-version-kind": kind}
