"""Isolation of localcloud from the real AWS, in both directions.

Programs that run here do not read the user's AWS profile, files or keys, and cannot reach another machine. A key that
this server did not issue is refused.
"""

import os
import re
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from botocore.credentials import Credentials
from moto.iam.models import iam_backends
from moto.sts.models import sts_backends

from localcloud.credentials import session_tokens
from localcloud.credentials.account import VARIABLE, account
from localcloud.credentials.secret import server_secret
from localcloud.processes.loopback import refuse_other_machines

DUMMY_KEY = "localcloud"
"""Access key id of every user of a localcloud server; the secret is the server's (`localcloud.credentials.secret`).
Followed by a hyphen and 12 digits, it is the key of another account's user: an account exists from the first call with
its key."""

CLOUDFORMATION_KEY, BATCH_KEY = f"{DUMMY_KEY}-cloudformation", f"{DUMMY_KEY}-batch"
"""Access key ids with which services call other services here; the record shows the calling service."""

_IN_AN_ACCOUNT = re.compile(rf"{DUMMY_KEY}(-(?P<service>cloudformation|batch))?(-(?P<account>\d{{12}}))?")
_NO_AWS_FILES = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}
_NO_PROXY = {"NO_PROXY": "127.0.0.1,localhost", "no_proxy": "127.0.0.1,localhost"}  # programs read one or the other
_SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_SESSION_SECONDS = 3600


def key_in(account_id: str, key: str = DUMMY_KEY) -> str:
    """Return the access key of an account's user, or of the service with the access key `key`."""
    return key if account_id in ("", account()) else f"{key}-{account_id}"


def user_environment(
    endpoint_url: str, region: str = "us-east-1", account_id: str = "", *, secret: str = ""
) -> dict[str, str]:
    """Return AWS variables with which any SDK or tool uses this server and no other endpoint.

    Args:
        endpoint_url: The server's address.
        region: Default Region of the client.
        account_id: Account of the user, if it is not the server's account.
        secret: Secret of a server in another process; by default, of the server in this process.

    Returns:
        Variables to set, which also bypass the user's proxy. The caller must unset `AWS_PROFILE` and
        `AWS_SESSION_TOKEN`.
    """
    return {
        "AWS_ENDPOINT_URL": endpoint_url,
        "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS": "false",
        "AWS_ACCESS_KEY_ID": f"{DUMMY_KEY}-{account_id}" if account_id else DUMMY_KEY,
        "AWS_SECRET_ACCESS_KEY": secret or server_secret(),
        "AWS_REGION": region,
        "AWS_DEFAULT_REGION": region,
        **_NO_AWS_FILES,
        **_NO_PROXY,
    }


def child_environment(
    endpoint_url: str, home: Path, region: str, role_arn: str | None, extra: Mapping[str, str]
) -> dict[str, str]:
    """Return the complete environment of a child process, which inherits no other variables.

    Args:
        endpoint_url: The server's address.
        home: `HOME` of the child, a folder of the server.
        region: The Region of the child.
        role_arn: Role whose temporary credentials the child gets; None gives it the user's keys.
        extra: Additional variables, which override the others.

    Returns:
        All variables of the child.
    """
    environment = {
        "PATH": os.environ.get("PATH", _SEARCH_PATH),
        "LANG": "C.UTF-8",
        "HOME": str(home),
        **user_environment(endpoint_url, region),
    }
    if role_arn:
        environment |= temporary_credentials(region, role_arn)
    return environment | dict(extra)


def temporary_credentials(region: str, role_arn: str) -> dict[str, str]:
    """Return temporary credentials of a role in the SDKs' variables, as the service that runs its process does."""
    assumed = sts_backends[account()]["aws"].assume_role(
        region_name=region,
        role_session_name="localcloud",
        role_arn=role_arn,
        policy=None,
        duration=_SESSION_SECONDS,
        external_id=None,
    )
    return {
        "AWS_ACCESS_KEY_ID": str(assumed.access_key_id),
        "AWS_SECRET_ACCESS_KEY": str(assumed.secret_access_key),
        "AWS_SESSION_TOKEN": str(assumed.session_token),
    }


class _Sessions:
    """Indexes role sessions by access key, because moto only keeps a growing list for each account."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listed: dict[str, list[Any]] = {}
        self._sessions: dict[str, Any] = {}
        self._read: dict[str, int] = {}

    def known(self) -> Mapping[str, Any]:
        for account_id, backends in list(sts_backends.items()):
            listed = backends["aws"].assumed_roles
            with self._lock:
                if listed is not self._listed.get(account_id):  # another server has started in this process
                    self._listed[account_id], self._read[account_id] = listed, 0
                for assumed in listed[self._read[account_id] :]:
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
    if found := _IN_AN_ACCOUNT.fullmatch(access_key):
        whose = found["account"] or account()
        return f"{found['service']}.amazonaws.com" if found["service"] else f"arn:aws:iam::{whose}:root"
    if issued := session_tokens.issued(access_key):
        return issued.arn
    if session := _sessions.known().get(access_key):
        return str(session.arn)
    return str(owner[0].arn) if (owner := _user_with(access_key)) else None


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
    return Credentials(access_key, found[1].secret_access_key) if (found := _user_with(access_key)) else None


def _user_with(access_key: str) -> tuple[Any, Any] | None:
    """Return the IAM user with an access key, and moto's object of the key."""
    for user in list(iam_backends[account()]["aws"].users.values()):
        for key in user.access_keys:
            if key.access_key_id == access_key:
                return user, key
    return None


def account_of(access_key: str) -> str:
    """Return the account of a call with an access key; the server's own account for an unknown key."""
    if found := _IN_AN_ACCOUNT.fullmatch(access_key):
        return found["account"] or account()
    return (principal_of(access_key) or f"::::{account()}").split(":")[4]


def is_user(access_key: str) -> bool:
    """Return True for the access key of an account's user."""
    return bool((found := _IN_AN_ACCOUNT.fullmatch(access_key)) and not found["service"])


@contextmanager
def closed_environment(account_id: str) -> Iterator[None]:
    """Remove all AWS, moto and proxy settings of the user from this process while a server runs in it.

    moto asks boto3 for the list of Regions, which would otherwise read the user's profile; and CloudFormation here
    calls the other services over HTTP, which no proxy could reach.

    Args:
        account_id: The server's account.
    """
    before = dict(os.environ)
    for name in before:
        if name.startswith(("AWS_", "MOTO_")) or name.lower().endswith("_proxy"):
            del os.environ[name]
    os.environ.update(_NO_AWS_FILES)
    os.environ[VARIABLE] = account_id
    os.environ["MOTO_IAM_LOAD_MANAGED_POLICIES"] = "true"  # the CDK's bootstrap stack attaches policies of AWS
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


_guards = 0
_hooked = False


@contextmanager
def loopback_only() -> Iterator[None]:
    """Refuse every connection of this process to another machine while the block runs.

    An audit hook cannot be removed (PEP 578), so it is added once and checks a counter.
    """
    global _guards, _hooked  # noqa: PLW0603 - the hook belongs to the process, not to one server
    if not _hooked:
        sys.addaudithook(_hook)
        _hooked = True
    _guards += 1
    try:
        yield
    finally:
        _guards -= 1


def _hook(event: str, arguments: tuple[Any, ...]) -> None:
    if _guards:
        refuse_other_machines(event, arguments)
