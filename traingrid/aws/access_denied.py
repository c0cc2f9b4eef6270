"""Access denied: reads the principal, action and resource from AWS's error message."""

from __future__ import annotations

import re
from typing import NamedTuple

from botocore.exceptions import ClientError

# https://docs.aws.amazon.com/IAM/latest/UserGuide/troubleshoot_access-denied.html
_WORDS = re.compile(
    r"User: (?P<principal>\S+) is not authorized to perform: (?P<action>[\w:-]+)"
    r"(?: on resource: \"?(?P<resource>[^\s\"]+)\"?)?"
)
_SESSION = re.compile(r":assumed-role/(?P<role>[^/]+)/")


class AccessDenied(NamedTuple):
    """A request that IAM denied.

    Attributes:
        principal: The name of the role, or the ARN of another principal.
        action: The denied action, such as "batch:TagResource".
        resource: The ARN of the resource; "*" if AWS's message has none.
    """

    principal: str
    action: str
    resource: str

    def __str__(self) -> str:
        return f"{self.principal} is not allowed to perform {self.action} on {self.resource}"


def access_denied(error: Exception) -> AccessDenied | None:
    """Return the denied request that an AWS error describes; None for other errors and for a message without action."""
    if not isinstance(error, ClientError):
        return None
    match = _WORDS.search(error.response["Error"].get("Message", ""))
    if not match:
        return None
    session = _SESSION.search(match["principal"])
    principal = f"role {session['role']}" if session else match["principal"]
    return AccessDenied(principal, match["action"], match["resource"] or "*")
