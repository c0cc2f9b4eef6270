"""Early stop: stops a training job for a reason of traingrid's own, so that the line continues in another attempt."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from traingrid.job.state import JobState

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.child.attempt import Attempt
    from traingrid.job.facts import JobFacts
    from traingrid.job.failures import Failure

logger = logging.getLogger(__name__)


def stop_early(attempt: Attempt, failure: Failure, reason: str, fields: Mapping[str, Any]) -> bool:
    """Record why the training job of an attempt is stopped, and stop it.

    The record comes first, so a child that replaces this one, an event and the reconciler know why it stopped. It is
    never withdrawn. The next attempt begins when the training job has ended, so the line has at most one live training
    job.

    Args:
        failure: The failure class, `capacity` or `deadline`.
        reason: The reason, as a sentence.
        fields: The fields of the log line.

    Returns:
        False, without a stop, if the attempt has ended or the job belongs to another array.
    """
    decision: JobFacts = {"state": JobState.STOPPING, "phase": "Stopping", "reason": reason}
    if not attempt.record({**decision, "stopped_for": failure.name}):
        return False
    attempt.backend.stop(attempt.name, "deadline" if failure.name == "deadline" else "capacity")
    logger.info("%s: %s Stopping it.", attempt.name, reason, extra=dict(fields))
    return True
