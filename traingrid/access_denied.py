"""AWS's refusals: which principal may not perform which action on which resource."""

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
    """A refusal of AWS.

    Attributes:
        principal: The name of the role, or the ARN of another principal.
        action: E.g. "batch:TagResource".
        resource: Its ARN; "*" if AWS names none.
    """

    principal: str
    action: str
    resource: str

    def __str__(self) -> str:
        return f"{self.principal} is not allowed {self.action} on {self.resource}"


def access_denied(error: Exception) -> AccessDenied | None:
    """Return the refusal in an error of AWS; None if the error is another, or does not name an action."""
    if not isinstance(error, ClientError):
        return None
    found = _WORDS.search(error.response["Error"].get("Message", ""))
    if not found:
        return None
    session = _SESSION.search(found["principal"])
    principal = f"role {session['role']}" if session else found["principal"]
    return AccessDenied(principal, found["action"], found["resource"] or "*")
