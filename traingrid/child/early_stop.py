"""Early stop: stops a training job for a reason of traingrid's own, so that the line continues in another attempt.

The decision is a field of the ledger's item (`stopped_for`), which is recorded before the training job is stopped. So a
child that replaces this one, an event and the reconciler know why it stopped. The decision is never withdrawn. The next
attempt begins when the training job has ended, so the line has at most one live training job.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, Literal

from traingrid.job.state import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.child.attempt import Attempt
    from traingrid.job.facts import JobFacts
    from traingrid.ledger.items import JobItem

logger = logging.getLogger(__name__)


@dataclass(kw_only=True)
class EarlyStop:
    """A reason to stop the training job of an attempt.

    Attributes:
        stop_reason: The reason as the backend and the ledger record it, which is also the name of the failure class.
    """

    stop_reason: ClassVar[Literal["capacity", "deadline", "return_to_spot"]]
    attempt: Attempt
    _is_stopped: bool = field(default=False, init=False)

    def is_decided(self, item: JobItem) -> bool | None:
        """Return whether to stop the training job if that is decided; None if it is not.

        An earlier child of the line may have ended after its decision, before it stopped the training job.
        """
        if self._is_stopped:
            return False
        return item.stopped_for == self.stop_reason if item.stopped_for else None

    def stop(self, reason: str, fields: Mapping[str, Any]) -> bool:
        """Record the decision, and stop the training job.

        Args:
            reason: The reason, as a sentence.
            fields: The fields of the log line.

        Returns:
            False, without a stop, if the attempt has ended or the job belongs to another array.
        """
        self._is_stopped = True
        decision: JobFacts = {"state": JobState.STOPPING, "phase": "Stopping", "reason": reason}
        if not self.attempt.record({**decision, "stopped_for": self.stop_reason}):
            return False
        self.attempt.backend.stop(self.attempt.name, self.stop_reason)
        logger.info("%s: %s Stopping it.", self.attempt.name, reason, extra=dict(fields))
        return True
