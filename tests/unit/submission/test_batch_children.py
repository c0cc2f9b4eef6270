"""Children: maps each line to its Batch child, and detects children that will never start."""

from typing import Any

import pytest

from traingrid.aws.s3 import Storage
from traingrid.ledger.submission_item import Array, SubmissionItem
from traingrid.submission.batch_children import Children

HEAD = SubmissionItem(
    submission="0123abcd",
    state="Submitted",
    manifest="s3://bucket/x.csv",
    jobs=2,
    claimed_at="2026-11-20T10:00:00Z",
    batch_job="array",
    arrays=(Array(batch_job="array", file="jobs.jsonl", count=2),),
)


class FakeBatch:
    """Batch with only the given jobs."""

    def __init__(self, *jobs: dict[str, Any]) -> None:
        self.jobs = {job["jobId"]: job for job in jobs}

    def describe_jobs(self, jobs: list[str]) -> dict[str, Any]:
        return {"jobs": [self.jobs[job] for job in jobs if job in self.jobs]}


def children(*jobs: dict[str, Any]) -> Children:
    return Children(Storage("us-east-1"), "bucket", make_client=lambda *_: FakeBatch(*jobs))


def array(status: str, summary: dict[str, int], **more: Any) -> dict[str, Any]:
    return {"jobId": "array", "status": status, "arrayProperties": {"size": 2, "statusSummary": summary}, **more}


@pytest.mark.parametrize("summary", [{}, {"FAILED": 1}])
def test_a_child_that_its_array_has_not_made_yet_is_not_gone(aws: None, summary: dict[str, int]) -> None:
    made = [{"jobId": "array:0", "status": "FAILED", "stoppedAt": 5000}] if summary else []
    found = children(array("PENDING", summary), *made).of(HEAD, {0: None, 1: None})
    assert (found[1].id, found[1].status, found[1].is_gone) == ("array:1", "PENDING", False)
    assert found[0].is_gone == bool(made)


def test_a_child_that_an_array_has_never_made_is_gone_with_the_array(aws: None) -> None:
    ended = array("FAILED", {}, stoppedAt=5000, statusReason="terminated")
    child = children(ended).of(HEAD, {1: None})[1]
    assert (child.is_gone, child.status, child.reason, child.ended_at) == (True, "UNKNOWN", "terminated", 5.0)


def test_a_child_of_an_array_that_batch_no_longer_knows_is_gone(aws: None) -> None:
    assert children().of(HEAD, {0: None})[0].is_gone
