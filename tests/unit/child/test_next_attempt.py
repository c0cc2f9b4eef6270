"""Next attempt: its place and its instances, by the failure, the recorded decision and the policy of spot jobs."""

from dataclasses import replace

import pytest

from traingrid.child.next_attempt import attempt_after
from traingrid.child.spot_policy import Change
from traingrid.job.candidates import Candidate
from traingrid.job.failures import (
    CAPACITY,
    DEADLINE,
    LOST_NODE,
    RETURN_TO_SPOT,
    SPOT_ELSEWHERE,
    SPOT_INTERRUPTION,
    Failure,
)
from traingrid.job.job import Job
from traingrid.ledger.ledger import Ledger

HERE, THERE, THIRD = "us-east-1", "us-west-2", "eu-west-1"
CANDIDATES = [Candidate(region) for region in (HERE, THERE, THIRD)]
MOVES, IS_LATE = Change(SPOT_ELSEWHERE, "", THIRD), Change(DEADLINE, "", HERE)


@pytest.mark.parametrize(
    ("failure", "decided", "change", "region", "on_demand"),
    [
        (SPOT_ELSEWHERE, THIRD, None, THIRD, None),
        (SPOT_ELSEWHERE, "ap-south-1", None, HERE, None),  # no candidate of the line any more
        (RETURN_TO_SPOT, HERE, None, HERE, False),
        (RETURN_TO_SPOT, THIRD, None, THIRD, False),
        (DEADLINE, HERE, None, HERE, True),
        (CAPACITY, "", None, THERE, None),
        (CAPACITY, "", MOVES, THIRD, None),
        (CAPACITY, "", IS_LATE, THERE, True),
        (SPOT_INTERRUPTION, "", None, HERE, None),
        (SPOT_INTERRUPTION, "", MOVES, THIRD, None),
        (SPOT_INTERRUPTION, "", IS_LATE, HERE, True),
        (LOST_NODE, "", None, HERE, None),
    ],
)
def test_the_next_attempt_follows_the_decision_that_was_recorded(  # noqa: PLR0917  # the columns of a table
    job: Job, ledger: Ledger, failure: Failure, decided: str, change: Change | None, region: str, on_demand: bool | None
) -> None:
    item = replace(ledger.open_job("0123abcd", job, job.regions), region=HERE)
    item = replace(item, stopped_for=failure.name if decided else "", next_region=decided)
    following = attempt_after(failure, item, change, CANDIDATES)
    assert (following.target, following.on_demand) == (Candidate(region), on_demand)


def test_an_end_for_another_reason_than_the_decided_one_does_not_move_the_job(job: Job, ledger: Ledger) -> None:
    """SageMaker may end a training job in the moment in which its child decides to stop it."""
    item = replace(ledger.open_job("0123abcd", job, job.regions), stopped_for=DEADLINE.name, next_region=HERE)
    assert attempt_after(SPOT_INTERRUPTION, item, IS_LATE, CANDIDATES).on_demand
    item = replace(item, stopped_for=SPOT_ELSEWHERE.name, next_region=THIRD)
    assert attempt_after(SPOT_INTERRUPTION, item, None, CANDIDATES).target == Candidate(HERE)
