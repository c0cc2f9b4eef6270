"""Access keys: the principal, account and secret of a caller. A key that this server did not issue is refused."""

import re
import threading
from collections.abc import Mapping
from typing import Any

from botocore.credentials import Credentials
from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from localcloud.credentials import session_tokens
from localcloud.credentials.account import account
from localcloud.credentials.arn import account_of_arn
from localcloud.credentials.secret import DUMMY_KEY, server_secret

CLOUDFORMATION_KEY, BATCH_KEY = f"{DUMMY_KEY}-cloudformation", f"{DUMMY_KEY}-batch"
"""Access key ids with which services call other services here; the record shows the calling service."""

_IN_AN_ACCOUNT = re.compile(rf"{DUMMY_KEY}(-(?P<service>cloudformation|batch))?(-(?P<account>\d{{12}}))?")


def key_in(account_id: str, key: str = DUMMY_KEY) -> str:
    """Return the access key of an account's user, or of the service with the access key `key`."""
    return key if account_id in ("", account()) else f"{key}-{account_id}"


class _Sessions:
    """Indexes role sessions by access key, because moto only keeps a growing list for each account."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._assumed_roles: dict[str, list[Any]] = {}
        self._sessions: dict[str, Any] = {}
        self._read: dict[str, int] = {}

    def known(self) -> Mapping[str, Any]:
        for account_id, backends in list(sts_backends.items()):
            roles = backends["aws"].assumed_roles
            with self._lock:
                if roles is not self._assumed_roles.get(account_id):  # another server has started in this process
                    self._assumed_roles[account_id], self._read[account_id] = roles, 0
                for assumed in roles[self._read[account_id] :]:
                    self._sessions[assumed.access_key_id] = assumed
                    self._read[account_id] += 1
        return self._sessions


_sessions = _Sessions()


def principal_of(access_key: str) -> str | None:
    """Return the ARN of the principal that an access key belongs to.

    Returns:
        The ARN of a user, of a role session or (dummy key) of the account, or the name of a service that calls other
        services; None for a key that this server did not issue.
    """
    if match := _IN_AN_ACCOUNT.fullmatch(access_key):
        account_id = match["account"] or account()
        return f"{match['service']}.amazonaws.com" if match["service"] else f"arn:aws:iam::{account_id}:root"
    if issued := session_tokens.issued(access_key):
        return issued.arn
    if session := _sessions.known().get(access_key):
        return str(session.arn)
    owner = _user_with(access_key)
    return str(owner[0].arn) if owner else None


def credentials_of(access_key: str) -> Credentials | None:
    """Return the secret and, if it has one, the session token of an access key.

    Returns:
        The credentials that must sign the key's calls; None for a key that this server did not issue.
    """
    if _IN_AN_ACCOUNT.fullmatch(access_key):
        return Credentials(access_key, server_secret())
    if issued := session_tokens.issued(access_key):
        return issued.credentials
    if session := _sessions.known().get(access_key):
        return Credentials(access_key, session.secret_access_key, session.session_token)
    owner = _user_with(access_key)
    return Credentials(access_key, owner[1].secret_access_key) if owner else None


def _user_with(access_key: str) -> tuple[Any, Any] | None:
    """Return the IAM user with an access key, and moto's object of the key."""
    for user in list(iam_backends[account()]["aws"].users.values()):
        for key in user.access_keys:
            if key.access_key_id == access_key:
                return user, key
    return None


def account_of(access_key: str) -> str:
    """Return the account of a call with an access key; the server's own account for an unknown key."""
    if match := _IN_AN_ACCOUNT.fullmatch(access_key):
        return match["account"] or account()
    principal = principal_of(access_key)
    return account_of_arn(principal) if principal else account()


_functions: dict[str, str] = {}


def belongs_to_function(access_key: str, arn: str) -> None:
    """Record that an access key was issued to the code of a function."""
    _functions[access_key] = arn


def session_keys(access_key: str) -> dict[str, str | list[str]]:
    """Return the condition keys of a session: the function whose code makes the call.

    https://docs.aws.amazon.com/lambda/latest/dg/permissions-source-function-arn.html
    """
    arn = _functions.get(access_key)
    return {"lambda:SourceFunctionArn": arn} if arn else {}


def is_user(access_key: str) -> bool:
    """Return True for the access key of an account's user."""
    match = _IN_AN_ACCOUNT.fullmatch(access_key)
    return match is not None and not match["service"]
