"""Errors: the errors of a Kubernetes API server, from the Status objects of its replies.

Source: https://kubernetes.io/docs/reference/kubernetes-api/common-definitions/status/.
"""

from __future__ import annotations

from typing import Any

from traingrid.errors import CallError, OutageError
from traingrid.strict_json import JsonError, json_object

UNAUTHORIZED, FORBIDDEN, NOT_FOUND, CONFLICT, GONE, INVALID, TOO_MANY = 401, 403, 404, 409, 410, 422, 429
ALREADY_EXISTS = "AlreadyExists"
"""The reason of a 409 for a name that is taken. A 409 for a resource quota that many requests change at once has the
reason "Conflict" (https://github.com/kubernetes/kubernetes/issues/67761)."""
_SERVER_ERRORS = 500


class ApiError(CallError):
    """The API server rejected a request.

    Args:
        code: The HTTP status.
        reason: The machine-readable reason, for example "AlreadyExists".
        message: The server's message.
        kind: The plural of the object that the error concerns; empty if the server does not serve the path.

    Attributes:
        reply: Status, reason and message, as the end of a sentence without its period.
    """

    def __init__(self, code: int, reason: str, message: str, kind: str = "") -> None:
        self.reply = ": ".join(part for part in (f"{code} {reason}".strip(), message.rstrip(".")) if part)
        super().__init__(f"The API server of the cluster replied {self.reply}.")
        self.code = code
        self.reason = reason
        self.message = message
        self.kind = kind

    def explain(self, text: str, next_step: str = "") -> None:
        """Replace the text of the error, because the caller knows the cluster.

        Args:
            text: The error, as a sentence.
            next_step: The next step, as a sentence.
        """
        self.what, self.next_step = text, next_step
        self.args = (f"{text} {next_step}".strip(),)


class UnavailableError(ApiError, OutageError):
    """The API server is overloaded, failed or did not reply; the same request may succeed later.

    401 is such an error, too. The server answers so for a token that has expired, while it starts
    (https://github.com/kubernetes/kubernetes/issues/65785), and if AWS STS throttles its authenticator
    (https://github.com/kubernetes-sigs/aws-iam-authenticator/pull/630). But it also does so, for good, if the cluster
    does not know the role.

    Args:
        code: The HTTP status; 0 without a reply.
        reason: The machine-readable reason, or the name of the network error.
        message: The server's message, or the cause of the network error.
        retry_after: The seconds after which the server accepts the request; 0 if it did not specify any.

    Attributes:
        refused_seconds: With 401: the seconds since the server refused the first token of the client; 0 if it has
            accepted a token of the client before, so that it knows the role.
    """

    refused_seconds = 0.0

    def __init__(self, code: int, reason: str, message: str, retry_after: float = 0.0) -> None:
        super().__init__(code, reason, message)
        self.retry_after = retry_after


class NoReplyError(UnavailableError):
    """The API server did not reply, or its reply was not complete.

    Args:
        host: The host, and the port if it is not that of HTTPS.
        reason: The name of the network error.
        message: The cause, for example "connection timed out".
    """

    def __init__(self, host: str, reason: str, message: str) -> None:
        super().__init__(0, reason, message)
        self.explain(f"The API server at {host} did not reply: {message}.")


def error_of(code: int, body: bytes | dict[str, Any], retry_after: str = "") -> ApiError:
    """Return the error of a reply.

    Args:
        code: The HTTP status.
        body: The body, which is a Status object unless a proxy or an authenticator replied.
        retry_after: The header Retry-After.
    """
    status = body if isinstance(body, dict) else _status(body)
    reason, message = str(status.get("reason") or ""), str(status.get("message") or "")
    if code in (UNAUTHORIZED, TOO_MANY) or code >= _SERVER_ERRORS:
        return UnavailableError(code, reason, message, float(retry_after) if retry_after.isdigit() else 0.0)
    return ApiError(code, reason, message, str((status.get("details") or {}).get("kind") or ""))


def _status(body: bytes) -> dict[str, Any]:
    try:
        return json_object(body)
    except JsonError:
        return {"message": body[:200].decode(errors="replace")}
