"""WSGI middleware that throttles calls as AWS does: by account, Region and operation."""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from localcloud.credentials import access_keys
from localcloud.faults.calls import throttled
from localcloud.limits.rates import SERVICES, Rate, rate_of
from localcloud.wire.protocols import read_call
from localcloud.wire.record import StartResponse, WsgiApp, buffered
from localcloud.wire.signature import signature_of

Clock = Callable[[], float]


@dataclass
class _Bucket:
    tokens: float
    filled_at: float


class TokenBuckets:
    """Token buckets by account, Region, service and operation. Thread-safe.

    Args:
        clock: Returns monotonic seconds.
    """

    def __init__(self, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._buckets: dict[tuple[str, str, str, str], _Bucket] = {}

    def take(self, account: str, region: str, service: str, action: str) -> bool:
        """Take a token for a call; return False if the call exceeds its rate."""
        rate = rate_of(service, action)
        return rate is None or self.take_of(rate, account, region, action)

    def take_of(self, rate: Rate, account: str, region: str, action: str) -> bool:
        """Take a token of a rate for an operation; return False if the call exceeds the rate."""
        per_second, size = rate.at(region)
        with self._lock:
            now = self._clock()
            bucket = self._buckets.setdefault((account, region, rate.service, action), _Bucket(size, now))
            bucket.tokens = min(size, bucket.tokens + (now - bucket.filled_at) * per_second)
            bucket.filled_at = now
            if bucket.tokens < 1:
                return False
            bucket.tokens -= 1
            return True


class Throttle:
    """Refuses calls that exceed their rate, with the error of their service.

    Calls by services (CloudFormation, Batch) are not throttled, because they limit their own rates in AWS.
    """

    def __init__(self, application: WsgiApp, buckets: TokenBuckets) -> None:
        self._application, self._buckets = application, buckets

    def __call__(self, environ: dict[str, Any], start_response: StartResponse) -> Iterable[bytes]:
        """Forward or refuse a request."""
        signature = signature_of(environ)
        if signature is None or signature.service not in SERVICES:
            return self._application(environ, start_response)
        principal = access_keys.principal_of(signature.access_key) or ""
        call = None if principal.endswith(".amazonaws.com") else read_call(signature.service, buffered(environ))
        account = access_keys.account_of(signature.access_key)
        if call is None or self._buckets.take(account, signature.region, signature.service, call.action):
            return self._application(environ, start_response)
        return throttled(environ, signature.service)(environ, start_response)
