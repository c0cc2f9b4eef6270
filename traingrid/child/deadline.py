"""Deadline: uses on-demand instances when spot instances might not end a job by its `finish_by`.

An interrupted spot job starts again, so it may need twice its duration. The decision is a field of the ledger's item
that changes together with the attempt: every child of an attempt sends the same request.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from traingrid.job.failures import DEADLINE
from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from traingrid.child.attempt import Attempt
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem

logger = logging.getLogger(__name__)


def is_late(job: Job, wall: float) -> bool:
    """Return True if a spot job that starts now and is interrupted might not end by its deadline.

    It needs twice its estimated duration, or its maximum runtime if no duration is estimated. Jobs of service queues
    keep their spot instances, because on-demand instances may not be part of their share.

    Args:
        wall: The time in seconds since 1970.
    """
    if not job.spot or not job.finish_by or job.launch != "direct":
        return False
    seconds = job.estimated_runtime_seconds or job.max_runtime_seconds
    return wall + 2 * seconds > epoch_seconds(job.finish_by)


def leave_spot(attempt: Attempt, item: JobItem) -> bool:
    """Start the next attempt with on-demand instances if a spot job is late and no training job was requested.

    Returns:
        True if this attempt is over.
    """
    if item.training_job or not is_late(attempt.job, attempt.clock.wall()):
        return False
    reason = f"{DEADLINE.sentence} finish_by is {attempt.job.finish_by}."
    attempt.skip(DEADLINE, reason, attempt.candidate, on_demand=True)  # or another child of this line was faster
    return True
