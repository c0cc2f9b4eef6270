"""Faults of API calls: applied between the request filter and moto, where a request is known and not yet answered."""

import socket
import time
from collections.abc import Callable, Iterable
from http import HTTPStatus
from typing import Any

from werkzeug.wrappers import Response

from localcloud.faults.faults import CallPlace, Faults
from localcloud.faults.plan import BESIDES, CallFault
from localcloud.processes.process_group import ProcessGroup
from localcloud.wire.protocols import read_call
from localcloud.wire.record import StartResponse, WsgiApp, buffered
from localcloud.wire.refusals import refusal
from localcloud.wire.signature import Signature, signature_of

_TOO_MANY = {
    "s3": (HTTPStatus.SERVICE_UNAVAILABLE, "SlowDown", "Please reduce your request rate."),
    "batch": (HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequestsException", "Too Many Requests"),
    "lambda": (HTTPStatus.TOO_MANY_REQUESTS, "TooManyRequestsException", "Rate Exceeded."),
    "dynamodb": (HTTPStatus.BAD_REQUEST, "ThrottlingException", "Rate of requests exceeds the allowed throughput."),
    "ec2": (HTTPStatus.SERVICE_UNAVAILABLE, "RequestLimitExceeded", "Request limit exceeded."),
    "servicequotas": (HTTPStatus.BAD_REQUEST, "TooManyRequestsException", "Rate exceeded"),
}
"""Status, code and message of a throttled call (S3, "List of error codes"; others: botocore/data/_retry.json)."""

_THROTTLED = (HTTPStatus.BAD_REQUEST, "ThrottlingException", "Rate exceeded")
_EXPIRED = {"s3": "ExpiredToken"}
"""S3, "List of error codes"; for the others STS, "Common error types"."""
_INTERNAL = {"s3": "InternalError", "dynamodb": "InternalServerError", "sagemaker": "InternalFailure"}


class FaultyCalls:
    """WSGI middleware that applies the plan's faults to calls."""

    def __init__(self, application: WsgiApp, faults: Faults, caller_of: Callable[[str], ProcessGroup | None]) -> None:
        """Create the middleware.

        Args:
            application: The application that performs the calls.
            caller_of: Returns the process group that received an access key.
        """
        self._application, self._faults, self._caller_of = application, faults, caller_of

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Perform a call, with the faults of the plan."""
        signature = signature_of(environ) if self._faults.plan.calls else None
        call = read_call(signature.service, buffered(environ)) if signature else None
        if signature is None or call is None:
            return self._application(environ, start_response)
        caller = self._caller_of(signature.access_key)
        label = caller.label if caller else ""
        place = CallPlace(signature.service, call.action, signature.region, label)
        for fault in self._faults.of_call(place):
            if fault.effect not in BESIDES:
                return self._commit(fault, caller, signature, environ, start_response)
            if fault.effect == "freeze" and caller:
                caller.freeze()
            time.sleep(fault.seconds)
        return self._application(environ, start_response)

    def _commit(
        self,
        fault: CallFault,
        caller: ProcessGroup | None,
        signature: Signature,
        environ: dict[str, Any],
        start_response: StartResponse,
    ) -> Iterable[bytes]:
        if fault.effect in ("lose_reply", "error_after", "kill_after"):
            for _ in self._application(environ, lambda *_: None):
                pass
        if fault.effect.startswith("kill") and caller:
            caller.lose(host_lost=fault.host_lost)
        if fault.effect in ("throttle", "expire"):
            status, code, words = _refusal_words(fault.effect, signature.service)
            return refusal(environ, status, code, words, signature.service)(environ, start_response)
        if fault.effect.startswith("error"):
            code = _INTERNAL.get(signature.service, "InternalServerException")
            words = "We encountered an internal error. Please try again."
            response: Response = refusal(environ, HTTPStatus.INTERNAL_SERVER_ERROR, code, words, signature.service)
            return response(environ, start_response)
        raise _hang_up(environ)


def throttled(environ: dict[str, Any], service: str) -> Response:
    """Return a service's response to a call that exceeds its rate."""
    status, code, words = _refusal_words("throttle", service)
    return refusal(environ, status, code, words, service)


def _refusal_words(effect: str, service: str) -> tuple[HTTPStatus, str, str]:
    if effect == "throttle":
        return _TOO_MANY.get(service, _THROTTLED)
    return HTTPStatus.BAD_REQUEST, _EXPIRED.get(service, "ExpiredTokenException"), "The security token is expired"


def _hang_up(environ: dict[str, Any]) -> ConnectionError:
    """Close the connection; the server treats the returned error as a disconnected client."""
    connection: socket.socket = environ["werkzeug.socket"]
    connection.shutdown(socket.SHUT_RDWR)
    return ConnectionAbortedError("a fault discarded the reply")
