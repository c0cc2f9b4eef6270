"""boto3 clients with the retries that each kind of call may have.

botocore sends a request again when the reply is lost. For a call that creates something and has no idempotency token
(SubmitJob) that makes two of it, so `once` clients never send twice: the caller finds out by name what became of a lost
call. Everything else is retried by botocore's `standard` mode; CreateTrainingJob too, because SageMaker takes a name
only once.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import boto3
from botocore.config import Config

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


Maker = Callable[[str, str | None], Any]
"""Makes the client of a service in a Region: one of the functions below."""


def client(service: str, region: str | None = None) -> Any:
    """Return the client of a service in a Region (the environment's where none is given), with botocore's retries."""
    return _client(service, region, _RETRIED)


def gentle(service: str, region: str | None = None) -> Any:
    """Return a client that slows itself down when it is throttled, for reading much that nobody waits for.

    What children need of the same limits (ListTrainingJobs, DescribeTrainingJob) is more urgent than a survey.
    """
    return _client(service, region, _GENTLE)


def brisk(service: str, region: str | None = None) -> Any:
    """Return a client as `gentle` does that gives a call up within a minute, for whoever comes again anyway.

    A Region that accepts connections and answers nothing must not take the time that all others need.
    """
    return _client(service, region, _BRISK)


def once(service: str, region: str | None = None) -> Any:
    """Return a client that sends every request exactly once, for calls that must not happen twice."""
    return _client(service, region, _ONCE)


def _client(service: Any, region: str | None, config: Config) -> Any:
    return boto3.client(service, region_name=region, config=config)
