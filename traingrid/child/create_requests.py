"""Create requests: the requests of a child for the training job of an attempt.

The ledger names them while they may still be accepted, and the next attempt waits for that (traingrid/late_request.py).
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.late_request import late_after_minutes, refusing

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

    from traingrid.child.attempt import Attempt, Clock
    from traingrid.job.facts import JobFacts
    from traingrid.ledger.items import JobItem

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class Requests:
    """The requests for the training job of an attempt that this process has sent, or is about to send.

    Attributes:
        are_open: Whether the ledger names them as not answered.
        are_lost: Whether one of them may have been accepted, or may still be, because its reply was lost.
        is_created: Whether the training job exists.
    """

    are_open: bool = False
    are_lost: bool = False
    is_created: bool = False

    def claim(self, attempt: Attempt, item: JobItem, claim: JobFacts) -> bool:
        """Claim the attempt for a request; a training job that was seen is only looked up.

        Returns:
            False if the attempt is over.
        """
        logger.debug("%s the training job %s", "looking up" if item.was_seen else "creating", attempt.name)
        if item.was_seen:
            return attempt.record(claim)
        is_claimed = attempt.claim(claim)
        self.are_open |= is_claimed
        return is_claimed

    def record(self, attempt: Attempt, facts: JobFacts) -> bool:
        """Record facts with the answer to the last request; see `Attempt.record_description`."""
        answered = self.is_created or not self.are_lost
        is_recorded = attempt.record_description(facts, answered=answered)
        self.are_open &= not (answered and is_recorded)
        return is_recorded


def until_late(clock: Clock) -> AbstractContextManager[None]:
    """Return a context in which requests that create are sent for minutes from now on, and not later."""
    return refusing(late_after_minutes(clock.now, clock.wall))
