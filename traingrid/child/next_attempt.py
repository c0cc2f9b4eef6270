"""Next attempt: the place and the instances of the attempt after one that has ended, as pure functions."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from traingrid.job.candidates import Candidate, next_candidate
from traingrid.job.failures import CAPACITY, DEADLINE, RETURN_TO_SPOT, SPOT_ELSEWHERE

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.child.spot_policy import Change
    from traingrid.job.failures import Failure
    from traingrid.job.job import Job
    from traingrid.ledger.facts import Pace
    from traingrid.ledger.items import JobItem


class NextAttempt(NamedTuple):
    """The place and the instances of an attempt.

    Attributes:
        is_late: Whether it must use on-demand instances to end by the deadline.
        on_demand: Whether to use on-demand instances from now on; None if that does not change.
    """

    target: Candidate
    is_late: bool
    on_demand: bool | None


def attempt_after(
    failure: Failure, item: JobItem, change: Change | None, candidates: Sequence[Candidate]
) -> NextAttempt:
    """Return the attempt after one with a failure.

    Args:
        item: The job's item, with the Region that was decided when the training job was stopped, if any.
        change: The change that the policy of spot jobs requires now.
        candidates: The candidates of the line.
    """
    is_late = failure is DEADLINE or (change is not None and change.failure is DEADLINE)
    region = item.next_region if failure.name == item.stopped_for else ""
    if not region and change and change.failure is SPOT_ELSEWHERE:
        region = change.region
    target = item.candidate
    if region not in ("", item.region) and not is_late and Candidate(region) in candidates:
        target = Candidate(region)
    elif failure is CAPACITY:
        target = next_candidate(candidates, item.candidate)
    on_demand = False if failure is RETURN_TO_SPOT else is_late or None
    return NextAttempt(target, is_late, on_demand)


def pace(job: Job, item: JobItem) -> Pace:
    """Return how far an attempt has trained. A metric may have any value, so no more epochs count than the job has."""
    facts: Pace = {}
    epoch = min(item.progress.get("epoch", 0), job.epochs)
    if epoch >= 1:
        facts["epoch"] = int(epoch)
    if item.epoch_seconds:
        facts["epoch_seconds"] = item.epoch_seconds
    return facts
