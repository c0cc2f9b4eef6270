"""Patience: repeats a call to AWS during an outage, for a limited time, because a pod has a limited time."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.outage import is_outage
from traingrid.backoff import backoff_seconds

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)
T = TypeVar("T")

LONGEST_WAIT = 20.0
PATIENCE_SECONDS = 600.0


def patiently(call: Callable[[], T], seconds: float = PATIENCE_SECONDS) -> T:
    """Return the result of a call, which is repeated while AWS throttles, does not answer or cannot be reached.

    Args:
        call: The call. It must be harmless to repeat it.
        seconds: The time after which the error is raised.
    """
    tries, end = 0, time.monotonic() + seconds
    while True:
        try:
            return call()
        except (BotoCoreError, ClientError) as error:
            if not is_outage(error) or time.monotonic() > end:
                raise
            logger.info("AWS is not available: %s. It is tried again.", error)
        tries += 1
        time.sleep(backoff_seconds(tries, LONGEST_WAIT))
