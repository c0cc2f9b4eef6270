"""Faults of the requests to a cluster, and their record: applied where a request is known and not yet answered.

The actions of the service "kubernetes" are a verb and a resource, for example "create jobs", "watch pods" and
"get pods/log". The caller is the process that signed the bearer token.
"""

from __future__ import annotations

import time
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from localcloud.credentials import access_keys
from localcloud.eks.token import access_key_of
from localcloud.faults.faults import CallPlace
from localcloud.faults.plan import BESIDES
from localcloud.kubernetes.status import ApiError, unauthorized
from localcloud.processes.process_group import ProcessGroup, group_of
from localcloud.wire.record import RecordError

if TYPE_CHECKING:
    from localcloud.faults.faults import Faults
    from localcloud.faults.plan import CallFault
    from localcloud.kubernetes.api import Reply
    from localcloud.kubernetes.paths import Target
    from localcloud.wire.record import Record

SERVICE = "kubernetes"
_READING = ("get", "list", "watch")
_RETRY_SECONDS = 1


class ClusterCalls:
    """The faults and the record of the requests to one cluster.

    Args:
        cluster: The cluster's name.
    """

    def __init__(self, faults: Faults, record: Record, region: str, cluster: str) -> None:
        self._faults, self._record, self._region, self._cluster = faults, record, region, cluster
        self._expired_calls = set[CallPlace]()

    def fault(self, token: str, verb: str, target: Target | None) -> CallFault | None:
        """Wait for the delays of a request, and return the fault that strikes it, if any."""
        if target is None or not self._faults.plan.calls:
            return None
        caller = group_of(access_key_of(token))
        place = CallPlace(SERVICE, _action(verb, target), self._region, caller.label if caller else "")
        for fault in self._faults.of_call(place):
            if fault.effect in BESIDES:
                if fault.effect == "freeze" and caller:
                    caller.freeze()
                time.sleep(fault.seconds)
            elif fault.effect != "expire" or self._expires(place):
                return fault
        return None

    def _expires(self, place: CallPlace) -> bool:
        """Return True if a token expires: not the one that a client has signed because the previous one expired."""
        is_new = place in self._expired_calls
        self._expired_calls ^= {place}
        return not is_new

    def strike(self, fault: CallFault, token: str) -> ApiError | None:
        """Apply a fault to the caller of a request.

        Returns:
            The error that the caller receives; None if the connection is closed without a reply.
        """
        if fault.effect.startswith("kill"):
            caller: ProcessGroup | None = group_of(access_key_of(token))
            if caller:
                caller.lose(host_lost=fault.host_lost)
        return _errors().get(fault.effect)

    def require_room(self, verb: str) -> None:
        """Check that a change can be recorded, before it takes effect.

        Raises:
            ApiError: It cannot.
        """
        if verb in _READING:
            return
        try:
            self._record.require_room()
        except RecordError as error:
            reason = "InsufficientStorage"
            raise ApiError(code=HTTPStatus.INSUFFICIENT_STORAGE, reason=reason, message=str(error)) from error

    def append(self, token: str, verb: str, target: Target, reply: Reply) -> None:
        """Record an accepted change."""
        if verb in _READING or reply.code >= HTTPStatus.MULTIPLE_CHOICES:
            return
        key = access_key_of(token)
        self._record.append(
            {
                "service": SERVICE,
                "region": self._region,
                "access_key": key,
                "principal": access_keys.principal_of(key),
                "action": _action(verb, target),
                "parameters": {"cluster": self._cluster, "namespace": target.namespace, "name": _name(target, reply)},
                "status": reply.code,
                "request_id": None,
                "response": None,
            }
        )


def _action(verb: str, target: Target) -> str:
    return f"{verb} {target.resource.plural}" + (f"/{target.subresource}" if target.subresource else "")


def _name(target: Target, reply: Reply) -> str:
    """Return the name of the changed object; the server may have generated it."""
    body: dict[str, Any] = reply.body
    return target.name or str((body.get("metadata") or {}).get("name") or "")


def _errors() -> dict[str, ApiError]:
    """Return the error of each effect that has one.

    Sources: https://kubernetes.io/docs/concepts/cluster-administration/flow-control/ (429 with Retry-After); a server
    without its storage is not ready, and a write whose reply the storage does not confirm in time ends with 500
    (etcd's error "etcdserver: request timed out").
    """
    busy, lost = "Too many requests, please try again later.", "etcdserver: request timed out"
    unavailable = "the server is currently unable to handle the request"
    return {
        "throttle": ApiError(
            code=HTTPStatus.TOO_MANY_REQUESTS,
            reason="TooManyRequests",
            message=busy,
            details={"retryAfterSeconds": _RETRY_SECONDS},
        ),
        "expire": unauthorized(),
        "error_before": ApiError(code=HTTPStatus.SERVICE_UNAVAILABLE, reason="ServiceUnavailable", message=unavailable),
        "error_after": ApiError(code=HTTPStatus.INTERNAL_SERVER_ERROR, reason="InternalError", message=lost),
    }
