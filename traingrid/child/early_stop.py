"""Early stop: stops a training job for a reason of traingrid's own, so that the line continues in another attempt.

The decision is a field of the ledger's item (`stopped_for`), which is recorded before the training job is stopped. So a
child that replaces this one, an event and the reconciler know why it stopped. The decision is never withdrawn. The next
attempt begins when the training job has ended, so the line has at most one live training job.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar

from traingrid.job.state import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.backends.base import StopReason
    from traingrid.child.attempt import Attempt
    from traingrid.job.facts import JobFacts
    from traingrid.ledger.items import JobItem

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class EarlyStop:
    """A reason to stop the training job of an attempt.

    Attributes:
        stop_reasons: The reasons as the backend and the ledger record them: names of failure classes.
    """

    stop_reasons: ClassVar[tuple[StopReason, ...]]
    attempt: Attempt
    _is_stopped: bool = field(default=False, init=False)

    def is_decided(self, item: JobItem) -> bool | None:
        """Return whether to stop the training job if that is decided; None if it is not.

        An earlier child of the line may have ended after its decision, before it stopped the training job.
        """
        if self._is_stopped:
            return False
        return item.stopped_for in self.stop_reasons if item.stopped_for else None

    def stop(self, stop_reason: StopReason, reason: str, fields: Mapping[str, Any], next_region: str = "") -> bool:
        """Record the decision, and stop the training job.

        Args:
            reason: The reason, as a sentence; empty if it is recorded.
            fields: The fields of the log line.
            next_region: The Region of the next attempt; empty if it is recorded, or decided later.

        Returns:
            False, without a stop, if the attempt has ended or the job belongs to another array.
        """
        self._is_stopped = True
        decision: JobFacts = {"state": JobState.STOPPING, "phase": "Stopping", "stopped_for": stop_reason}
        if reason:
            decision["reason"] = reason
        if next_region:
            decision["next_region"] = next_region
        if not self.attempt.record(decision):
            return False
        self.attempt.backend.stop(self.attempt.name, stop_reason)
        logger.info("%s: %s Stopping it.", self.attempt.name, reason, extra=dict(fields))
        return True
