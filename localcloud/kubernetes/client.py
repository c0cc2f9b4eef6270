"""Client: requests of a cluster's own components to its API, in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.api import ApiRequest
from localcloud.kubernetes.status import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcloud.kubernetes.api import Api
    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object


class Client:
    """Reads and changes objects; writes are checked as other clients' writes are."""

    def __init__(self, api: Api) -> None:
        self.api, self.store = api, api.store

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object, or None if it does not exist."""
        return self.store.find(resource, namespace, name)

    def dependents(self, owner: Object, resource: Resource) -> list[Object]:
        """Return the objects of a resource that an object controls."""
        uid = owner["metadata"]["uid"]
        dependents = [entry for key, entry in self.store.dependents(uid) if key[0] is resource]
        return [entry for entry in dependents if (controller_of(entry) or {}).get("uid") == uid]

    def create(self, resource: Resource, namespace: str, new: Object) -> Object:
        """Create an object, and return it.

        Raises:
            ApiError: The server refuses it.
        """
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return self._request("POST", _path(resource, namespace), {**kind, **new})

    def delete(  # noqa: PLR0913 - the options are keyword-only
        self,
        resource: Resource,
        namespace: str,
        name: str,
        *,
        propagation: str = "Background",
        uid: str = "",
        grace_seconds: int | None = None,
    ) -> bool:
        """Delete an object; return False if it does not exist.

        Raises:
            ApiError: The server refuses it.
        """
        options: dict[str, Any] = {"propagationPolicy": propagation}
        if uid:
            options["preconditions"] = {"uid": uid}
        if grace_seconds is not None:
            options["gracePeriodSeconds"] = grace_seconds
        try:
            self._request("DELETE", f"{_path(resource, namespace)}/{name}", options)
        except ApiError as error:
            if error.reason != "NotFound":
                raise
            return False
        return True

    def update(self, resource: Resource, entry: Object, change: Callable[[Object], None]) -> Object | None:
        """Change an object, and return it; None if it does not exist any more with this uid."""
        return self._update(resource, entry, change, of_status=False)

    def update_status(self, resource: Resource, entry: Object, change: Callable[[Object], None]) -> Object | None:
        """Change the status of an object, and return it; None if it does not exist any more with this uid."""
        return self._update(resource, entry, change, of_status=True)

    def _update(
        self, resource: Resource, entry: Object, change: Callable[[Object], None], *, of_status: bool
    ) -> Object | None:
        metadata = entry["metadata"]

        def changed(current: Object) -> Object:
            if current["metadata"]["uid"] != metadata["uid"]:
                raise _GoneError
            change(current)
            return current

        try:
            return self.store.update(
                resource, metadata.get("namespace", ""), metadata["name"], changed, of_status=of_status
            )
        except _GoneError:
            return None
        except ApiError as error:
            if error.reason != "NotFound":
                raise
            return None

    def _request(self, method: str, path: str, body: Any) -> Object:
        reply = self.api.answer(ApiRequest(method=method, path=path, body=json.dumps(body).encode()))
        if reply.code >= 400:  # an error
            body_of_reply = reply.body
            details = body_of_reply.get("details") or {}
            raise ApiError(
                code=reply.code, reason=body_of_reply["reason"], message=body_of_reply["message"], details=details
            )
        return dict(reply.body)


class _GoneError(Exception):
    """The object was replaced by another one of its name."""


def controller_of(entry: Object) -> dict[str, Any] | None:
    """Return the owner reference of the controller of an object."""
    owners = entry["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def controller_reference(resource: Resource, owner: Object) -> dict[str, Any]:
    """Return the owner reference that makes an object the controller of another one."""
    metadata = owner["metadata"]
    reference = {"apiVersion": resource.api_version, "kind": resource.kind, "name": metadata["name"]}
    return {**reference, "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}


def _path(resource: Resource, namespace: str) -> str:
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    return f"{root}/namespaces/{namespace}/{resource.plural}" if namespace else f"{root}/{resource.plural}"
