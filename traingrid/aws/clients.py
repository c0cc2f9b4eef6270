"""Clients: creates boto3 clients with the retries that are safe for each kind of call.

botocore sends a request again if the reply is lost. For a call that creates a resource and has no idempotency token
(SubmitJob) this would create two, so `once` clients never send a request twice: the caller looks up the resource by its
name. botocore's `standard` mode retries all other calls.

In a Region of another account a client assumes a role of that account. Its credentials are renewed before they expire,
because role chaining limits a session to one hour
(https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html#iam-term-role-chaining), and training takes days.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Protocol

import boto3
from botocore.config import Config
from botocore.credentials import (
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
)
from botocore.session import get_session

logger = logging.getLogger(__name__)
CALLS_AT_ONCE = 32
"""The number of threads that may share a client returned by `client`, which keeps a connection for each of them."""
_RETRIED = Config(
    retries={"mode": "standard", "total_max_attempts": 8},
    connect_timeout=10,
    read_timeout=60,
    max_pool_connections=CALLS_AT_ONCE,
)
_GENTLE = Config(retries={"mode": "adaptive", "total_max_attempts": 8}, connect_timeout=10, read_timeout=60)
_BRISK = Config(retries={"mode": "adaptive", "total_max_attempts": 3}, connect_timeout=5, read_timeout=10)
_ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=10, read_timeout=60)
COPIES_AT_ONCE = 64
"""The number of threads that may share a client returned by `copying`."""
# S3 replies to a copy of up to 5 GB when it has ended, which takes minutes between distant Regions.
_COPYING = Config(
    retries={"mode": "standard", "total_max_attempts": 8},
    connect_timeout=10,
    read_timeout=900,
    max_pool_connections=COPIES_AT_ONCE,
)


@dataclass(frozen=True, kw_only=True)
class ActingRole:
    """A role of another account that this process assumes.

    Attributes:
        arn: The role's ARN.
        session: The role session name, which the other account's CloudTrail records.
        home: The home Region, whose STS endpoint is used.
    """

    arn: str
    session: str
    home: str


class Maker(Protocol):
    """Makes the client of a service in a Region: one of the functions below."""

    def __call__(self, service: str, region: str | None = None, role: ActingRole | None = None, /) -> Any:
        """Return the client, which assumes `role` if it is given."""


def client(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client with botocore's standard retries; the Region is the environment's by default."""
    return _client(service, region, role, _RETRIED)


def gentle(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client that sends fewer requests when it is throttled, for background reads of much data.

    Children share the limits of ListTrainingJobs and DescribeTrainingJob, and their calls are more urgent.
    """
    return _client(service, region, role, _GENTLE)


def brisk(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client like `gentle` whose calls fail within a minute, for callers that run periodically.

    A Region that accepts connections and does not answer must not use up the time of the other Regions.
    """
    return _client(service, region, role, _BRISK)


def once(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client that sends every request exactly once, for calls that must not be repeated."""
    return _client(service, region, role, _ONCE)


def copying(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client like `client` that waits for long replies and may be shared by `COPIES_AT_ONCE` threads."""
    return _client(service, region, role, _COPYING)


def renew() -> None:
    """Discard all credentials, so that clients created from now on get new ones."""
    boto3.setup_default_session()
    _session_of.cache_clear()


def _client(service: Any, region: str | None, role: ActingRole | None, config: Config) -> Any:
    make = _session_of(role).client if role else boto3.client
    made = make(service, region_name=region, config=config)
    made.meta.events.register("before-call", partial(_log_call, made.meta.region_name, role))
    return made


def _log_call(region: str, role: ActingRole | None, model: Any, **_: Any) -> None:
    """Log the service, operation and Region of a call; its parameters and headers may be confidential."""
    of_role = f" as {role.arn}" if role else ""
    service = model.service_model.service_name
    logger.debug("AWS call: %s %s in %s%s", service, model.name, region, of_role, extra={"region": region})


@cache
def _session_of(role: ActingRole) -> Any:
    """Return the boto3 session of a role, whose clients share credentials."""
    session = get_session()
    session.register_component("credential_provider", CredentialResolver([_Acting(role)]))
    return boto3.Session(botocore_session=session)


class _Acting(CredentialProvider):
    """Assumes a role with the credentials of this process whenever the role's credentials are about to expire.

    It uses a `brisk` client, because the caller retries and a sweep has little time.
    """

    METHOD = "acting-role"

    def __init__(self, role: ActingRole) -> None:
        super().__init__()
        # Created here because creating boto3 clients is not thread-safe, and any thread may request credentials.
        self._role, self._sts = role, brisk("sts", role.home)

    def load(self) -> Any:
        return DeferredRefreshableCredentials(refresh_using=self._taken_on, method=self.METHOD)

    def _taken_on(self) -> dict[str, str]:
        got = self._sts.assume_role(RoleArn=self._role.arn, RoleSessionName=self._role.session)["Credentials"]
        return {
            "access_key": got["AccessKeyId"],
            "secret_key": got["SecretAccessKey"],
            "token": got["SessionToken"],
            "expiry_time": got["Expiration"].isoformat(),
        }
