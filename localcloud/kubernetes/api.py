"""API: answers the requests of a cluster's clients from its store.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/. Not served, because traingrid and the commands of
`kubectl` in docs/kubernetes.md do not use them: server-side apply, tables, protobuf, and strategic merge patches of
objects whose lists they merge. `kubectl apply` sends such patches, for example of roles, whose lists they replace.
"""

from __future__ import annotations

import base64
import json
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes import status
from localcloud.kubernetes.discovery import discovery
from localcloud.kubernetes.merge_patch import merged
from localcloud.kubernetes.openapi import openapi
from localcloud.kubernetes.paths import Target, target_of
from localcloud.kubernetes.resources import BUILT_IN, NAMESPACE
from localcloud.kubernetes.selectors import selector
from localcloud.kubernetes.validation import accepted

if TYPE_CHECKING:
    from collections.abc import Mapping

    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object, Store

_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_FOREGROUND = "foregroundDeletion"


@dataclass(frozen=True, kw_only=True)
class Request:
    """A request.

    Attributes:
        method: The HTTP method.
        path: The path.
        query: The parameters.
        content_type: The media type of the body.
        body: The body.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    body: bytes = b""


@dataclass(frozen=True, kw_only=True)
class Reply:
    """A reply.

    Attributes:
        code: The HTTP status.
        body: The JSON value.
        warnings: Texts for the header Warning.
    """

    code: int
    body: Any
    warnings: list[str] = field(default_factory=list)


class Api:
    """The API of one cluster.

    Args:
        store: Its objects.
        resources: The served resources.
    """

    def __init__(self, store: Store, resources: tuple[Resource, ...] = BUILT_IN) -> None:
        self.store = store
        self.resources = resources

    def target(self, path: str) -> Target | None:
        """Return the target of a path; None if it is a path of the discovery, or is not served."""
        return target_of(path, self.resources)

    def answer(self, request: Request) -> Reply:
        """Answer a request that is not a watch; errors are replies, too."""
        try:
            return self._answer(request)
        except status.ApiError as error:
            return Reply(code=error.code, body=error.body())

    def _answer(self, request: Request) -> Reply:
        target = self.target(request.path)
        if target is None:
            return self._description(request)
        if target.subresource and (target.subresource != "status" or not target.resource.has_status):
            raise status.no_such_path()
        answers = {
            "GET": self._read,
            "POST": self._create,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        # There is no deletion of a whole list here; only a list and a creation have no name.
        if request.method not in answers or (
            request.method != "GET" and bool(target.name) is (request.method == "POST")
        ):
            raise status.not_allowed(request.method)
        return answers[request.method](request, target)

    def _description(self, request: Request) -> Reply:
        known = (discovery, openapi) if request.method == "GET" else ()
        found = next(filter(None, (describe(request.path, self.resources) for describe in known)), None)
        if found is None:
            raise status.no_such_path()
        return Reply(code=200, body=found)

    def _read(self, request: Request, target: Target) -> Reply:
        if target.name:
            return Reply(code=200, body=self.store.get(target.resource, target.namespace, target.name))
        return Reply(code=200, body=self._page(request, target))

    def _page(self, request: Request, target: Target) -> dict[str, Any]:
        """Return a list, or a chunk of it. A continuation names the last object of the previous chunk."""
        matches = selector(request.query.get("labelSelector", ""), request.query.get("fieldSelector", ""))
        objects, version = self.store.all(target.resource, target.namespace)
        found = [one for one in objects if matches(one)]
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if after := request.query.get("continue"):
            last = _continuation(after)
            metadata["resourceVersion"] = last["version"]
            found = [one for one in found if _place(one) > last["place"]]
        limit = int(request.query.get("limit") or 0)
        if limit and len(found) > limit:
            metadata["remainingItemCount"] = len(found) - limit
            found = found[:limit]
            last = {"version": metadata["resourceVersion"], "place": _place(found[-1])}
            metadata["continue"] = base64.urlsafe_b64encode(json.dumps(last).encode()).decode()
        kind = {"kind": f"{target.resource.kind}List", "apiVersion": target.resource.api_version}
        return {**kind, "metadata": metadata, "items": found}

    def _create(self, request: Request, target: Target) -> Reply:
        if target.resource.namespaced:
            if not target.namespace:
                raise status.not_allowed(request.method)
            self.store.get(NAMESPACE, "", target.namespace)
        made, warnings = self._body(request, target)
        created = self.store.create(target.resource, target.namespace, made)
        return Reply(code=201, body=created, warnings=warnings)

    def _put(self, request: Request, target: Target) -> Reply:
        made, warnings = self._body(request, target)
        return Reply(code=200, body=self._updated(target, made), warnings=warnings)

    def _patch(self, request: Request, target: Target) -> Reply:
        patch, warnings = _patch_of(request, target.resource), list[str]()

        def changed(present: Object) -> Object:
            made, found = accepted(target.resource, merged(present, patch), _strictness(request))
            warnings.extend(found)
            if "resourceVersion" not in (patch.get("metadata") or {}):
                made["metadata"].pop("resourceVersion", None)
            return made

        of_status = target.subresource == "status"
        body = self.store.update(target.resource, target.namespace, target.name, changed, of_status=of_status)
        return Reply(code=200, body=body, warnings=warnings)

    def _updated(self, target: Target, made: Object) -> Object:
        if made["metadata"]["name"] != target.name:
            named = f"the name of the object ({made['metadata']['name']})"
            raise status.bad_request(f"{named} does not match the name on the URL ({target.name})")
        of_status = target.subresource == "status"
        return self.store.update(target.resource, target.namespace, target.name, lambda _: made, of_status=of_status)

    def _delete(self, request: Request, target: Target) -> Reply:
        options = _json(request.body) if request.body else {}
        present = self.store.get(target.resource, target.namespace, target.name)
        for name, wanted in (options.get("preconditions") or {}).items():
            found = present["metadata"].get(name, "")
            if found != wanted:
                shown = {"uid": "UID", "resourceVersion": "ResourceVersion"}.get(name, name)
                raise status.precondition_failed(target.resource, target.name, shown, wanted, found)
        propagation = options.get("propagationPolicy") or request.query.get("propagationPolicy", "")
        added = (_FOREGROUND,) if propagation == "Foreground" else ()
        left, gone = self.store.delete(target.resource, target.namespace, target.name, added)
        if gone:
            return Reply(code=200, body=status.success(target.resource, target.name, left["metadata"]["uid"]))
        return Reply(code=200, body=left)

    def _body(self, request: Request, target: Target) -> tuple[Object, list[str]]:
        if request.content_type.startswith(_PROTOBUF):
            raise _unknown_media("application/json")
        given = _json(request.body)
        named = given.get("apiVersion", ""), given.get("kind", "")
        if named != (target.resource.api_version, target.resource.kind):
            text = f"no kind {named[1]!r} is registered for version {named[0]!r} at this path"
            raise status.bad_request(text)
        metadata = given.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise status.not_decodable(target.resource, "metadata must be an object")
        if target.namespace and metadata.get("namespace", target.namespace) != target.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        return accepted(target.resource, given, _strictness(request))


def _patch_of(request: Request, resource: Resource) -> dict[str, Any]:
    media = request.content_type.partition(";")[0]
    patch = _json(request.body) if media in (_MERGE_PATCH, _STRATEGIC_PATCH) else None
    if patch is None or (media == _STRATEGIC_PATCH and not _replaces_lists(resource, patch)):
        raise _unknown_media(_MERGE_PATCH)
    return patch


def _unknown_media(accepted_type: str) -> status.ApiError:
    text = f"the body of the request was in an unknown format - accepted media types include: {accepted_type}"
    return status.ApiError(code=415, reason="UnsupportedMediaType", message=text)


def _replaces_lists(resource: Resource, patch: Mapping[str, Any]) -> bool:
    """Return True if a strategic merge patch is the same as a merge patch.

    It merges the lists `finalizers` and `ownerReferences`, and keys with a dollar sign are instructions
    (https://github.com/kubernetes/community/blob/master/contributors/devel/sig-api-machinery/strategic-merge-patch.md).
    """
    merged_lists = {"finalizers", "ownerReferences"} & set(patch.get("metadata") or {})
    return resource.has_plain_lists and not merged_lists and '"$' not in json.dumps(patch)


def _strictness(request: Request) -> str:
    return request.query.get("fieldValidation") or "Warn"


def _json(body: bytes) -> dict[str, Any]:
    try:
        found = json.loads(body)
    except ValueError as error:
        raise status.bad_request(f"the object provided is unrecognized: {error}") from error
    if not isinstance(found, dict):
        raise status.bad_request("the object provided is unrecognized: it is not an object")
    return found


def _place(one: Mapping[str, Any]) -> list[str]:
    return [one["metadata"].get("namespace", ""), one["metadata"]["name"]]


def _continuation(token: str) -> dict[str, Any]:
    try:
        return dict(json.loads(base64.urlsafe_b64decode(token)))
    except ValueError as error:
        raise status.bad_request("continue key is not valid") from error
