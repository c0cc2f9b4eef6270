"""Retries: repeats requests during an outage of AWS, for a limited time, because pods and users have no more."""

import logging
import math
import time
from collections.abc import Callable
from threading import Event
from typing import TypeVar

from botocore.exceptions import BotoCoreError, ClientError, FlexibleChecksumError, IncompleteReadError

from traingrid.aws.outage import is_outage
from traingrid.backoff import backoff_seconds

logger = logging.getLogger(__name__)
T = TypeVar("T")

MAX_WAIT = 20.0
PATIENCE_SECONDS = 600.0


class Retries:
    """Waits between the requests of an outage, which ends with the first success.

    Args:
        seconds: The duration of an outage after which its error is raised.
        tries: The number of requests after which it is.
        max_wait: The maximum wait before the next request, in seconds.
    """

    def __init__(self, seconds: float, tries: float = math.inf, max_wait: float = MAX_WAIT) -> None:
        self._limits, self._max_wait = (seconds, tries), max_wait
        self.renew()

    def renew(self) -> None:
        """Record a success."""
        self._last_success, self._tries = time.monotonic(), 0

    def wait(self, error: BotoCoreError | ClientError, stop: Event) -> None:
        """Wait before the next request, at most until `stop` is set; raise the error if the same request is no use."""
        is_lost = isinstance(error, IncompleteReadError | FlexibleChecksumError)
        seconds, tries = self._limits
        self._tries += 1
        if not (is_lost or is_outage(error)) or self._tries > tries or time.monotonic() - self._last_success > seconds:
            raise error
        logger.info("AWS is not available: %s. It is tried again.", error)
        stop.wait(backoff_seconds(self._tries, self._max_wait))


def patiently(call: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """Return the result of a call, which is repeated while AWS throttles, does not answer or cannot be reached.

    Args:
        call: The call. It must be harmless to repeat it.
        seconds: The time after which the error is raised.
    """
    retries, never = Retries(seconds), Event()
    while True:
        try:
            return call()
        except (BotoCoreError, ClientError) as error:
            retries.wait(error, never)
