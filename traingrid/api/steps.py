"""Steps: repeats the step of a command that runs for days until its work has ended."""

from __future__ import annotations

import logging
import time
from typing import TYPE_CHECKING, Protocol, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.outage import is_outage

if TYPE_CHECKING:
    from collections.abc import Callable

logger = logging.getLogger(__name__)
POLL_SECONDS = 5.0
"""The default time between two steps."""


class StepProgress(Protocol):
    """The result of a step."""

    @property
    def ended(self) -> bool:
        """True if no step will follow."""


ProgressT = TypeVar("ProgressT", bound=StepProgress)


def run_steps(step: Callable[[], ProgressT], report: Callable[[ProgressT], object], poll: float) -> ProgressT:
    """Repeat a step until its progress has ended, and return that. An outage of AWS is waited for.

    Args:
        report: Receives the progress after each step.
        poll: The seconds between two steps.

    Raises:
        ClientError: AWS refuses a request.
    """
    while True:
        try:
            progress = step()
        except (BotoCoreError, ClientError) as error:
            if not is_outage(error):
                raise
            logger.warning("AWS does not answer; still trying: %s", error)
        else:
            report(progress)
            if progress.ended:
                return progress
        time.sleep(poll)
