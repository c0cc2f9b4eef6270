"""Principals: finds a principal of IAM by its ARN, and the principal of a session.

Access entries name roles and users, not sessions
(https://docs.aws.amazon.com/eks/latest/userguide/creating-access-entries.html).
"""

import re
from dataclasses import dataclass

from moto.iam.exceptions import NotFoundException
from moto.iam.models import iam_backends

_SESSION = re.compile(r"arn:aws:sts::(?P<account>\d{12}):assumed-role/(?P<role>[^/]+)/(?P<session>.+)")
_PRINCIPAL = re.compile(r"arn:aws:iam::(?P<account>\d{12}):((?P<kind>role|user)/(.*/)?(?P<name>[^/]+)|(?P<root>root))")


@dataclass(frozen=True)
class Principal:
    """A principal of IAM.

    Attributes:
        kind: "role", "user" or "root".
        name: Its name without the path.
        identifier: The id that IAM gave it; another one after it is deleted and created again.
        arn: Its ARN, with the path.
    """

    kind: str
    account: str
    name: str
    identifier: str
    arn: str


@dataclass(frozen=True)
class Caller:
    """The principal of a call, and the name of its session.

    Attributes:
        principal: The role, or the user.
        session: The name of the session; empty for a user.
    """

    principal: Principal
    session: str = ""


def principal(arn: str) -> Principal | None:
    """Return the principal with an ARN, which includes its path; None if it does not exist."""
    match = _PRINCIPAL.fullmatch(arn)
    if match is None:
        return None
    if match["root"]:
        return Principal("root", match["account"], "root", match["account"], arn)
    existing = _existing_principal(match["kind"], match["account"], match["name"])
    return existing if existing and existing.arn == arn else None


def caller(arn: str) -> Caller | None:
    """Return the caller with the ARN of GetCallerIdentity; None if the principal cannot have an access entry."""
    session = _SESSION.fullmatch(arn)
    if session is None:
        owner = principal(arn)
        return Caller(owner) if owner else None
    role = _existing_principal("role", session["account"], session["role"])
    return Caller(role, session["session"]) if role else None


def _existing_principal(kind: str, account: str, name: str) -> Principal | None:
    """Return a role or a user by its name."""
    backend = iam_backends[account]["aws"]
    try:
        entity = backend.get_role(name) if kind == "role" else backend.get_user(name)
    except NotFoundException:
        return None
    return Principal(kind, account, name, str(entity.id), str(entity.arn))
