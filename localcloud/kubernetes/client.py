"""Client: requests of a cluster's own components to its API, in this process."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from localcloud.kubernetes.api import Request
from localcloud.kubernetes.status import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable

    from localcloud.kubernetes.api import Api
    from localcloud.kubernetes.resources import Resource
    from localcloud.kubernetes.store import Object


class Client:
    """Reads and changes objects; writes are checked as those of other clients.

    Args:
        api: The API.
    """

    def __init__(self, api: Api) -> None:
        self.api, self.store = api, api.store

    def find(self, resource: Resource, namespace: str, name: str) -> Object | None:
        """Return an object, or None if it does not exist."""
        return self.store.find(resource, namespace, name)

    def dependents(self, owner: Object, resource: Resource) -> list[Object]:
        """Return the objects of a resource that an object controls."""
        uid = owner["metadata"]["uid"]
        found = [one for key, one in self.store.dependents(uid) if key[0] is resource]
        return [one for one in found if (controller_of(one) or {}).get("uid") == uid]

    def create(self, resource: Resource, namespace: str, given: Object) -> Object:
        """Create an object, and return it.

        Raises:
            ApiError: The server refuses it.
        """
        kind = {"apiVersion": resource.api_version, "kind": resource.kind}
        return self._request("POST", _path(resource, namespace), {**kind, **given})

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
        options |= {"preconditions": {"uid": uid}} if uid else {}
        options |= {} if grace_seconds is None else {"gracePeriodSeconds": grace_seconds}
        try:
            self._request("DELETE", f"{_path(resource, namespace)}/{name}", options)
        except ApiError as error:
            if error.reason != "NotFound":
                raise
            return False
        return True

    def update(self, resource: Resource, one: Object, change: Callable[[Object], None]) -> Object | None:
        """Change an object, and return it; None if it does not exist any more with this uid."""
        return self._update(resource, one, change, of_status=False)

    def update_status(self, resource: Resource, one: Object, change: Callable[[Object], None]) -> Object | None:
        """Change the status of an object, and return it; None if it does not exist any more with this uid."""
        return self._update(resource, one, change, of_status=True)

    def _update(
        self, resource: Resource, one: Object, change: Callable[[Object], None], *, of_status: bool
    ) -> Object | None:
        metadata = one["metadata"]

        def changed(present: Object) -> Object:
            if present["metadata"]["uid"] != metadata["uid"]:
                raise _GoneError
            change(present)
            return present

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
        reply = self.api.answer(Request(method=method, path=path, body=json.dumps(body).encode()))
        if reply.code >= 400:  # an error
            found = reply.body
            details = found.get("details") or {}
            raise ApiError(code=reply.code, reason=found["reason"], message=found["message"], details=details)
        return dict(reply.body)


class _GoneError(Exception):
    """The object was replaced by another one of its name."""


def controller_of(one: Object) -> dict[str, Any] | None:
    """Return the owner reference of the controller of an object."""
    owners = one["metadata"].get("ownerReferences") or []
    return next((owner for owner in owners if owner.get("controller")), None)


def controller_reference(resource: Resource, owner: Object) -> dict[str, Any]:
    """Return the owner reference that makes an object the controller of another one."""
    metadata = owner["metadata"]
    named = {"apiVersion": resource.api_version, "kind": resource.kind, "name": metadata["name"]}
    return {**named, "uid": metadata["uid"], "controller": True, "blockOwnerDeletion": True}


def _path(resource: Resource, namespace: str) -> str:
    root = f"/apis/{resource.api_version}" if resource.group else f"/api/{resource.version}"
    return f"{root}/namespaces/{namespace}/{resource.plural}" if namespace else f"{root}/{resource.plural}"
