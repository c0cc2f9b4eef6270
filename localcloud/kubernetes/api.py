"""API: answers the requests of a cluster's clients from its store.

Source: https://kubernetes.io/docs/reference/using-api/api-concepts/. Not served, because traingrid and the commands of
`kubectl` in docs/kubernetes.md do not use them: server-side apply, JSON patches, protobuf.
"""

from __future__ import annotations

import base64
import contextlib
import json
import random
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes import (
    admission,
    deletion,
    pod_requests,
    pod_security,
    rules,
    status,
    tables,
    task_governance,
)
from localcloud.kubernetes.discovery import discovery
from localcloud.kubernetes.kubelet.logs import PodLogs
from localcloud.kubernetes.merge_patch import merged
from localcloud.kubernetes.openapi import openapi
from localcloud.kubernetes.paths import Target, target_of
from localcloud.kubernetes.resources import BUILT_IN, NAMESPACE, POD
from localcloud.kubernetes.selectors import selector
from localcloud.kubernetes.strategic_merge import strategically_merged
from localcloud.kubernetes.validation import accepted

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object, Store

_MERGE_PATCH = "application/merge-patch+json"
_STRATEGIC_PATCH = "application/strategic-merge-patch+json"
_PROTOBUF = "application/vnd.kubernetes.protobuf"
_SUFFIX_CHARACTERS = "bcdfghjklmnpqrstvwxz2456789"
_MAX_GENERATED = 58
"""Generated names have five random characters more, of this alphabet (k8s.io/apiserver/pkg/storage/names)."""


@dataclass(frozen=True, kw_only=True)
class ApiRequest:
    """A request.

    Attributes:
        content_type: The media type of the body.
        accept: The media types of the reply that the client prefers.
    """

    method: str
    path: str
    query: Mapping[str, str] = field(default_factory=dict)
    content_type: str = "application/json"
    accept: str = ""
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

    Attributes:
        webhooks: Functions that change a new object before it is stored, as mutating admission webhooks do.
    """

    def __init__(self, store: Store, resources: tuple[Resource, ...] = BUILT_IN) -> None:
        self.store = store
        self.resources = resources
        self.logs = PodLogs()
        self.webhooks: list[Callable[[Resource, Object], None]] = []

    def target(self, path: str) -> Target | None:
        """Return the target of a path; None if it is a path of the discovery, or is not served."""
        return target_of(path, self.resources)

    def answer(self, request: ApiRequest) -> Reply:
        """Answer a request that is not a watch; errors are replies, too."""
        try:
            return self._answer(request)
        except status.ApiError as error:
            return Reply(code=error.code, body=error.body())

    def _answer(self, request: ApiRequest) -> Reply:
        """Return the reply of the verb that the method and the target select."""
        target = self.target(request.path)
        if target is None:
            return self._description(request)
        if target.resource is POD and target.subresource == pod_requests.EVICTION and request.method == "POST":
            return Reply(code=201, body=pod_requests.evict(self.store, target, _json(request.body)))
        if target.subresource and (target.subresource != "status" or not target.resource.has_status):
            raise status.no_such_path()
        handlers = {
            "GET": self._read,
            "POST": self._create,
            "PUT": self._put,
            "PATCH": self._patch,
            "DELETE": self._delete,
        }
        # Lists and deletions of lists have no name, and creations must not have one.
        without_name = request.method in ("GET", "DELETE")
        if request.method not in handlers or (not without_name and bool(target.name) is (request.method == "POST")):
            raise status.not_allowed(request.method)
        return handlers[request.method](request, target)

    def _description(self, request: ApiRequest) -> Reply:
        describers = (discovery, openapi) if request.method == "GET" else ()
        descriptions = (describe(request.path, self.resources) for describe in describers)
        description = next((entry for entry in descriptions if entry), None)
        if description is None:
            raise status.no_such_path()
        return Reply(code=200, body=description)

    def _read(self, request: ApiRequest, target: Target) -> Reply:
        if target.name:
            entry = self.store.get(target.resource, target.namespace, target.name)
            body = tables.table(target.resource, [entry], {}) if tables.is_table(request.accept) else entry
            return Reply(code=200, body=body)
        page = self._page(request, target)
        if tables.is_table(request.accept):
            return Reply(code=200, body=tables.table(target.resource, page["items"], page["metadata"]))
        return Reply(code=200, body=page)

    def _page(self, request: ApiRequest, target: Target) -> dict[str, Any]:
        """Return a list, or a chunk of it. A continuation names the last object of the previous chunk."""
        objects, version = self.store.all(target.resource, target.namespace, _selector(request, target))
        metadata: dict[str, Any] = {"resourceVersion": str(version)}
        if after := request.query.get("continue"):
            last_key = _continuation(after)
            metadata["resourceVersion"] = last_key["version"]
            objects = [entry for entry in objects if _place(entry) > last_key["place"]]
        limit = int(request.query.get("limit") or 0)
        if limit and len(objects) > limit:
            metadata["remainingItemCount"] = len(objects) - limit
            objects = objects[:limit]
            last_key = {"version": metadata["resourceVersion"], "place": _place(objects[-1])}
            metadata["continue"] = base64.urlsafe_b64encode(json.dumps(last_key).encode()).decode()
        kind = {"kind": f"{target.resource.kind}List", "apiVersion": target.resource.api_version}
        return {**kind, "metadata": metadata, "items": objects}

    def _create(self, request: ApiRequest, target: Target) -> Reply:
        if target.resource.namespaced:
            if not target.namespace:
                raise status.not_allowed(request.method)
            namespace = self.store.get(NAMESPACE, "", target.namespace)
        new, warnings = self._body(request, target)
        if target.resource.namespaced:
            admission.check_namespace(target.resource, namespace, new["metadata"]["name"])
            task_governance.check(namespace, target.resource, new)
        if target.resource is POD:
            pod_security.check(namespace, new)
        for webhook in self.webhooks:
            webhook(target.resource, new)

        def complete(entry: Object) -> None:
            admission.complete(self.store, target.resource, entry)

        stored_entry = self.store.create(target.resource, target.namespace, new, complete)
        return Reply(code=201, body=stored_entry, warnings=warnings)

    def _put(self, request: ApiRequest, target: Target) -> Reply:
        new, warnings = self._body(request, target)
        return Reply(code=200, body=self._update_object(target, new), warnings=warnings)

    def _patch(self, request: ApiRequest, target: Target) -> Reply:
        media = request.content_type.partition(";")[0]
        custom = target.resource.is_custom
        merge = {_MERGE_PATCH: merged}
        if not custom:
            merge[_STRATEGIC_PATCH] = strategically_merged
        if media not in merge:
            raise _unknown_media(_MERGE_PATCH)
        patch = _json(request.body)
        warnings = list[str]()

        def changed(current: Object) -> Object:
            new, further = accepted(target.resource, merge[media](current, patch), _strictness(request))
            warnings.extend(further)
            if "resourceVersion" not in (patch.get("metadata") or {}):
                new["metadata"].pop("resourceVersion", None)
            return _checked_change(target, current, new)

        of_status = target.subresource == "status"
        body = self.store.update(target.resource, target.namespace, target.name, changed, of_status=of_status)
        return Reply(code=200, body=body, warnings=warnings)

    def _update_object(self, target: Target, new: Object) -> Object:
        if new["metadata"]["name"] != target.name:
            subject = f"the name of the object ({new['metadata']['name']})"
            raise status.bad_request(f"{subject} does not match the name on the URL ({target.name})")
        of_status = target.subresource == "status"
        return self.store.update(
            target.resource,
            target.namespace,
            target.name,
            lambda current: _checked_change(target, current, new),
            of_status=of_status,
        )

    def _delete(self, request: ApiRequest, target: Target) -> Reply:
        options = deletion.options(request.query, _json(request.body) if request.body else {})
        if not target.name:
            return self._delete_collection(request, target, options)
        entry, is_gone = deletion.delete(self.store, target.resource, target.namespace, target.name, options)
        warnings = deletion.warnings(target.resource, options)
        if is_gone and target.resource is not POD:
            body = status.success(target.resource, target.name, entry["metadata"]["uid"])
            return Reply(code=200, body=body, warnings=warnings)
        return Reply(code=200, body=entry, warnings=warnings)

    def _delete_collection(self, request: ApiRequest, target: Target, options: deletion.Options) -> Reply:
        if target.resource.namespaced and not target.namespace:
            raise status.not_allowed(request.method)
        objects, version = self.store.all(target.resource, target.namespace, _selector(request, target))
        entries = []
        for entry in objects:
            metadata = entry["metadata"]
            with contextlib.suppress(status.ApiError):  # removed meanwhile
                place = target.resource, metadata.get("namespace", ""), metadata["name"]
                entries.append(deletion.delete(self.store, *place, options)[0])
        kind = {"kind": f"{target.resource.kind}List", "apiVersion": target.resource.api_version}
        return Reply(code=200, body={**kind, "metadata": {"resourceVersion": str(version)}, "items": entries})

    def _body(self, request: ApiRequest, target: Target) -> tuple[Object, list[str]]:
        if request.content_type.startswith(_PROTOBUF):
            raise _unknown_media("application/json")
        body = _with_type(_json(request.body), target.resource)
        type_of_body = body["apiVersion"], body["kind"]
        if type_of_body != (target.resource.api_version, target.resource.kind):
            text = f"no kind {type_of_body[1]!r} is registered for version {type_of_body[0]!r} at this path"
            raise status.bad_request(text)
        metadata = body.setdefault("metadata", {})
        if not isinstance(metadata, dict):
            raise status.not_decodable(target.resource, "metadata must be an object")
        if request.method == "POST" and not metadata.get("name") and (prefix := metadata.get("generateName")):
            suffix = "".join(random.choices(_SUFFIX_CHARACTERS, k=5))  # noqa: S311 - not a secret
            metadata["name"] = f"{str(prefix)[:_MAX_GENERATED]}{suffix}"
        if target.namespace and metadata.get("namespace", target.namespace) != target.namespace:
            raise status.bad_request(
                "the namespace of the provided object does not match the namespace sent on the request"
            )
        return accepted(target.resource, body, _strictness(request))


def _with_type(body: dict[str, Any], resource: Resource) -> dict[str, Any]:
    """Return a body with the kind and version of its path where it has none, as typed clients leave them out.

    Source: the serializer decodes with the kind of the request's path as default (gvkWithDefaults in
    https://github.com/kubernetes/apimachinery/blob/master/pkg/runtime/serializer/json/json.go).
    """
    return {
        **body,
        "kind": body.get("kind") or resource.kind,
        "apiVersion": body.get("apiVersion") or resource.api_version,
    }


def _unknown_media(accepted_type: str) -> status.ApiError:
    text = f"the body of the request was in an unknown format - accepted media types include: {accepted_type}"
    return status.ApiError(code=415, reason="UnsupportedMediaType", message=text)


def _selector(request: ApiRequest, target: Target) -> Callable[[Mapping[str, Any]], bool]:
    labels, fields = request.query.get("labelSelector", ""), request.query.get("fieldSelector", "")
    return selector(labels, fields, target.resource.kind)


def _checked_change(target: Target, current: Object, new: Object) -> Object:
    """Return a change of an object that the server allows.

    Raises:
        ApiError: The change is not allowed.
    """
    if not target.subresource and (causes := dict(rules.problems_of_update(target.resource, current, new))):
        raise status.invalid(target.resource, target.name, causes)
    return new


def _strictness(request: ApiRequest) -> str:
    return request.query.get("fieldValidation") or "Warn"


def _json(body: bytes) -> dict[str, Any]:
    try:
        value = json.loads(body)
    except ValueError as error:
        raise status.bad_request(f"the object provided is unrecognized: {error}") from error
    if not isinstance(value, dict):
        raise status.bad_request("the object provided is unrecognized: it is not an object")
    return value


def _place(entry: Mapping[str, Any]) -> list[str]:
    return [entry["metadata"].get("namespace", ""), entry["metadata"]["name"]]


def _continuation(token: str) -> dict[str, Any]:
    try:
        return dict(json.loads(base64.urlsafe_b64decode(token)))
    except ValueError as error:
        raise status.bad_request("continue key is not valid") from error
