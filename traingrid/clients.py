"""boto3 clients with the retries that each kind of call may have.

botocore sends a request again when the reply is lost. For a call that creates something and has no idempotency token
(SubmitJob) that makes two of it, so `once` clients never send twice: the caller finds out by name what became of a lost
call. Everything else is retried by botocore's `standard` mode; CreateTrainingJob too, because SageMaker takes a name
only once.

In a Region of another account a client acts as a role of that account. Its credentials are asked for again before they
run out, because a role that takes on a role does so for an hour at most
(https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html#iam-term-role-chaining), and training takes days.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any, Protocol

import boto3
from botocore.config import Config
from botocore.credentials import (
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
)
from botocore.session import get_session

CALLS_AT_ONCE = 32
"""How many threads may share a client of `client`: it keeps a connection for each of them."""
_RETRIED = Config(
    retries={"mode": "standard", "total_max_attempts": 8},
    connect_timeout=10,
    read_timeout=60,
    max_pool_connections=CALLS_AT_ONCE,
)
_GENTLE = Config(retries={"mode": "adaptive", "total_max_attempts": 8}, connect_timeout=10, read_timeout=60)
_BRISK = Config(retries={"mode": "adaptive", "total_max_attempts": 3}, connect_timeout=5, read_timeout=10)
_ONCE = Config(retries={"mode": "standard", "total_max_attempts": 1}, connect_timeout=10, read_timeout=60)


@dataclass(frozen=True, kw_only=True)
class ActingRole:
    """A role of another account that is taken on to act there.

    Attributes:
        arn: Its ARN.
        session: What the other account's CloudTrail calls whoever acts.
        home: The Region whose STS is asked for it.
    """

    arn: str
    session: str
    home: str


class Maker(Protocol):
    """Makes the client of a service in a Region: one of the functions below."""

    def __call__(self, service: str, region: str | None = None, role: ActingRole | None = None, /) -> Any:
        """Return the client; with `role`, it acts as that."""


def client(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return the client of a service in a Region (the environment's where none is given), with botocore's retries."""
    return _client(service, region, role, _RETRIED)


def gentle(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client that slows itself down when it is throttled, for reading much that nobody waits for.

    What children need of the same limits (ListTrainingJobs, DescribeTrainingJob) is more urgent than a survey.
    """
    return _client(service, region, role, _GENTLE)


def brisk(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client as `gentle` does that gives a call up within a minute, for whoever comes again anyway.

    A Region that accepts connections and answers nothing must not take the time that all others need.
    """
    return _client(service, region, role, _BRISK)


def once(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client that sends every request exactly once, for calls that must not happen twice."""
    return _client(service, region, role, _ONCE)


def renew() -> None:
    """Forget all credentials, so that the clients made from now on ask for new ones."""
    boto3.setup_default_session()
    _session_of.cache_clear()


def _client(service: Any, region: str | None, role: ActingRole | None, config: Config) -> Any:
    make = _session_of(role).client if role else boto3.client
    return make(service, region_name=region, config=config)


@cache
def _session_of(role: ActingRole) -> Any:
    """Return the session of a role: its clients share credentials."""
    session = get_session()
    session.register_component("credential_provider", CredentialResolver([_Acting(role)]))
    return boto3.Session(botocore_session=session)


class _Acting(CredentialProvider):
    """Takes on a role with the credentials of this process whenever those that it got are about to run out.

    It asks briskly: whoever acts asks again, and a sweep has no time to wait.
    """

    METHOD = "acting-role"

    def __init__(self, role: ActingRole) -> None:
        super().__init__()
        # Here, because boto3 makes clients in one thread only, and credentials are asked for in whichever needs them.
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
