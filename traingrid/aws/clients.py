"""Clients: creates boto3 clients with the retries that are safe for each kind of call.

botocore sends a request again if the reply is lost. For a call that creates a resource and has no idempotency token
(SubmitJob) this would create two, so the clients of `client_without_retries` never send a request
twice: the caller looks up the resource by its name. botocore's `standard` mode retries all other calls.

In a Region of another account a client assumes a role of that account. Its credentials are renewed before they expire,
because role chaining limits a session to one hour
(https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles.html#iam-term-role-chaining), and training takes days.

Callers share a client, because botocore builds its class and its endpoint rules again for each, which takes
milliseconds of processor time. Threads may share clients, processes may not
(https://docs.aws.amazon.com/boto3/latest/guide/clients.html#multithreading-or-multiprocessing-with-clients).
"""

from __future__ import annotations

import logging
import os
import threading
from dataclasses import dataclass
from functools import cache, partial
from typing import Any, Literal, Protocol
from weakref import WeakKeyDictionary

import boto3
from botocore.config import Config
from botocore.credentials import (
    CredentialProvider,
    CredentialResolver,
    DeferredRefreshableCredentials,
)
from botocore.session import get_session

from traingrid.late_request import raise_if_late

logger = logging.getLogger(__name__)
CALLS_AT_ONCE = 32
"""The number of threads that may share a client, which keeps a connection for each of them."""
COPIES_AT_ONCE = 64
"""The number of threads that may share a client returned by `copy_client`."""


def _config(
    mode: Literal["standard", "adaptive"],
    attempts: int,
    connect: int = 10,
    read: int = 60,
    threads: int = CALLS_AT_ONCE,
) -> Config:
    return Config(
        retries={"mode": mode, "total_max_attempts": attempts},
        connect_timeout=connect,
        read_timeout=read,
        max_pool_connections=threads,
    )


_RETRIED = _config("standard", 8)
_BACKGROUND = _config("adaptive", 8)
_PERIODIC = _config("adaptive", 3, connect=5, read=10)
_WITHOUT_RETRIES = _config("standard", 1)
# S3 replies to a copy of up to 5 GB when it has ended, which takes minutes between distant Regions.
_COPY = _config("standard", 8, read=900, threads=COPIES_AT_ONCE)
_clients: WeakKeyDictionary[boto3.Session, dict[Any, Any]] = WeakKeyDictionary()
_lock = threading.RLock()  # creating clients is not thread-safe, and the client of a role creates that of STS


@dataclass(frozen=True, kw_only=True)
class ActingRole:
    """A role of another account that this process assumes.

    Attributes:
        session: The role session name, which the other account's CloudTrail records.
        home: The home Region, whose STS endpoint is used.
    """

    arn: str
    session: str
    home: str


class ClientFactory(Protocol):
    """Makes the client of a service in a Region: one of the functions below."""

    def __call__(self, service: str, region: str | None = None, role: ActingRole | None = None, /) -> Any:
        """Return the client, which assumes `role` if it is given."""


def client(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client with botocore's standard retries; the Region is the environment's by default."""
    return _shared_client(service, region, role, _RETRIED)


def background_client(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client that sends fewer requests when it is throttled, for background reads of much data.

    Children share the limits of ListTrainingJobs and DescribeTrainingJob, and their calls are more urgent.
    """
    return _shared_client(service, region, role, _BACKGROUND)


def periodic_client(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client like `background_client` whose calls fail within a minute, for callers that run periodically.

    A Region that accepts connections and does not answer must not use up the time of the other Regions.
    """
    return _shared_client(service, region, role, _PERIODIC)


def client_without_retries(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client that sends every request exactly once, for calls that must not be repeated."""
    return _shared_client(service, region, role, _WITHOUT_RETRIES)


def copy_client(service: str, region: str | None = None, role: ActingRole | None = None) -> Any:
    """Return a client like `client` that waits for long replies and may be shared by `COPIES_AT_ONCE` threads."""
    return _shared_client(service, region, role, _COPY)


def renew() -> None:
    """Discard all clients and credentials, so that clients requested from now on get new ones."""
    with _lock:
        boto3.setup_default_session()
        _session_of.cache_clear()
        _clients.clear()


def _shared_client(service: Any, region: str | None, role: ActingRole | None, config: Config) -> Any:
    """Return the client that callers in this process share until `renew`.

    A client belongs to its session and to the AWS settings in the environment, which may set its endpoint.
    """
    settings = tuple(item for item in os.environ.items() if item[0].startswith("AWS_"))
    key = (service, region, config, settings)
    with _lock:
        session = _session_of(role) if role else boto3._get_default_session()
        clients = _clients.setdefault(session, {})
        if key not in clients:
            clients[key] = _create_client(session, service, region, role, config)
        return clients[key]


def _create_client(
    session: boto3.Session, service: Any, region: str | None, role: ActingRole | None, config: Config
) -> Any:
    new_client: Any = session.client(service, region_name=region, config=config)
    new_client.meta.events.register("before-call", partial(_log_call, new_client.meta.region_name, role))
    if config is _WITHOUT_RETRIES or service == "dynamodb":  # requests that create, and writes that reopen a line
        new_client.meta.events.register_first("before-send", _raise_if_late)  # after the signature
    return new_client


def _raise_if_late(**_: Any) -> None:
    raise_if_late()


def _forget() -> None:
    """Discard the clients of the parent process, whose connections a forked process must not use."""
    global _lock  # noqa: PLW0603  # another thread of the parent may have held it
    _lock = threading.RLock()
    _clients.clear()


os.register_at_fork(after_in_child=_forget)


def _log_call(region: str, role: ActingRole | None, model: Any, **_: Any) -> None:
    """Log the service, operation and Region of a call; its parameters and headers may be confidential."""
    role_text = f" as {role.arn}" if role else ""
    service = model.service_model.service_name
    logger.debug("AWS call: %s %s in %s%s", service, model.name, region, role_text, extra={"region": region})


@cache
def _session_of(role: ActingRole) -> Any:
    """Return the boto3 session of a role, whose clients share credentials."""
    session = get_session()
    session.register_component("credential_provider", CredentialResolver([_ActingRoleProvider(role)]))
    return boto3.Session(botocore_session=session)


class _ActingRoleProvider(CredentialProvider):
    """Assumes a role with the credentials of this process whenever the role's credentials are about to expire.

    It uses `periodic_client`, because the caller retries and a pass has little time.
    """

    METHOD = "acting-role"

    def __init__(self, role: ActingRole) -> None:
        super().__init__()
        self._role, self._sts = role, periodic_client("sts", role.home)

    def load(self) -> Any:
        return DeferredRefreshableCredentials(refresh_using=self._assume_role, method=self.METHOD)

    def _assume_role(self) -> dict[str, str]:
        """Return new credentials of the role, with the keys that botocore expects."""
        credentials = self._sts.assume_role(RoleArn=self._role.arn, RoleSessionName=self._role.session)["Credentials"]
        return {
            "access_key": credentials["AccessKeyId"],
            "secret_key": credentials["SecretAccessKey"],
            "token": credentials["SessionToken"],
            "expiry_time": credentials["Expiration"].isoformat(),
        }
