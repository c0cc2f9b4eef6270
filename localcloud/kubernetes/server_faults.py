"""Server faults: failures of an API server that a test injects.

Sources: https://kubernetes.io/docs/concepts/cluster-administration/flow-control/ (429 with Retry-After), and
https://kubernetes.io/docs/reference/using-api/api-concepts/#efficient-detection-of-changes (watches end any time).
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from localcloud.kubernetes.status import ApiError

if TYPE_CHECKING:
    from collections.abc import Callable


class ServerFaults:
    """The injected faults of one server. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._refusals, self._seconds = 0, 1
        self._watches, self.abrupt = 0, False

    def throttle(self, requests: int, retry_after: int = 1) -> None:
        """Refuse the next requests with 429.

        Args:
            requests: Their number.
            retry_after: The seconds in the header Retry-After.
        """
        with self._lock:
            self._refusals, self._seconds = requests, retry_after

    def end_watches(self, *, abruptly: bool = False) -> None:
        """End all present watches; abruptly, the connections break in the middle of the reply."""
        with self._lock:
            self._watches += 1
            self.abrupt = abruptly

    def check(self) -> None:
        """Refuse a request if it is throttled.

        Raises:
            ApiError: It is.
        """
        with self._lock:
            if self._refusals <= 0:
                return
            self._refusals -= 1
            details = {"retryAfterSeconds": self._seconds}
        message = "Too many requests, please try again later."
        raise ApiError(code=429, reason="TooManyRequests", message=message, details=details)

    def watch_ended(self) -> Callable[[], bool]:
        """Return a function that returns True once a watch that begins now must end."""
        begun = self._watches
        return lambda: self._watches != begun
