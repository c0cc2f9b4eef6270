"""Model table: `verification.model.table`, the state machine's table in memory, behaves like DynamoDB's."""

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.ledger_items import existing, job_key
from traingrid.grid.deployment import Deployment
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts, Claim
from traingrid.ledger.grid_items import HistoryScan
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.open_marks import OpenMark
from traingrid.ledger.preconditions import Precondition
from traingrid.ledger.submission_item import Array
from verification.model.table import Condition, ModelTable


@pytest.mark.parametrize(
    ("condition", "holds"),
    [
        ("#attempt = :one", True),
        ("#attempt = :two", False),
        ("#attempt = :one AND NOT #state IN (:failed, :stopped)", True),
        ("#attempt = :one AND #state IN (:failed, :stopped)", False),
        ("#state IN (:failed, :pending)", True),
        ("#attempt = :one AND ( attribute_not_exists(batch_child) OR batch_child = :nobody )", True),
        ("#attempt = :one AND ( attribute_not_exists(state) OR state = :failed )", False),
        ("attribute_exists(attempt)", True),
        ("attribute_exists(arrays)", False),
        ("#arrays = :one", False),
        ("NOT #arrays IN (:one)", True),
    ],
)
def test_a_condition_matches_the_items_that_dynamodb_would_change(condition: str, holds: bool) -> None:
    values = {":one": 1, ":two": 2, ":failed": "Failed", ":stopped": "Stopped", ":pending": "Pending", ":nobody": ""}
    assert Condition(condition, values).holds({"attempt": 1, "state": JobState.PENDING}) is holds


@pytest.mark.parametrize("condition", ["#attempt = :one :one", "#attempt < :one", "( #attempt = :one"])
def test_an_unsupported_condition_is_an_error(condition: str) -> None:
    with pytest.raises((ValueError, IndexError)):
        Condition(condition, {":one": 1}).holds({"attempt": 1})


@pytest.fixture
def modelled(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ledger]:
    memory = ModelTable(lambda _service, _action, effect: effect(), lambda *_: None)
    with monkeypatch.context() as patched:
        patched.setattr("traingrid.ledger.ledger.Table", lambda *_: memory)
        yield Ledger(deployment.table)


def everything_that_a_ledger_does(ledger: Ledger) -> list[Any]:
    """Make every kind of write, with conditions met and not met, and return all answers and the final items."""
    previous: AttemptFacts = {"region": "us-east-1", "state": JobState.FAILED, "failure": "capacity", "reason": "none"}
    previous["ended_at"] = "2026-11-20T11:00:00Z"
    answers: list[Any] = [
        ledger.claim_submission("0123abcd", "a", {"jobs": 1, "manifest": "s3://bucket/x.csv", "claim_ends_at": 60})
        is None,
        ledger.claim_submission("0123abcd", "b", {"jobs": 1, "manifest": "s3://bucket/x.csv", "claim_ends_at": 60})
        is None,
    ]
    head = existing(ledger.submission("0123abcd"))
    answers += [ledger.take_over_submission(head, Claim(owner=owner, ends_at=90)) for owner in "bc"]
    ledger.release_submission("0123abcd", Claim(owner="b", ends_at=90))
    ledger.record_submitted("0123abcd", "job-0", [Array(batch_job="job-0", file="jobs.jsonl", count=1)])
    ledger.record_array("0123abcd", Array(batch_job="job-1", file="retry-1.jsonl", count=1))
    answers += [ledger.claim_retry("0123abcd", {"by": "x"}), ledger.claim_retry("0123abcd", {"by": "x"})]
    opened = {"submission": "0123abcd", "item": "job#00000", "attempt": 1, "state": JobState.PENDING}
    ledger._table.put_new({**opened, "name": "a", "region": "us-east-1", "opened_at": "2026-11-20T10:00:00Z"})
    answers += [
        ledger.record_job(job_key(0, 2), {"state": JobState.IN_PROGRESS}),
        ledger.record_job(job_key(), {"state": JobState.IN_PROGRESS, "batch_child": "job-0"}),
        ledger.record_job(job_key(), {"state": JobState.FAILED}, Precondition(unless_watched=True)),
        ledger.next_attempt(job_key(), previous, "eu-west-1"),
        ledger.next_attempt(job_key(), previous, "eu-west-1"),
        ledger.record_progress(job_key(0, 2), {"loss": 0.5}),
        *(ledger.record_job(job_key(0, 2), {"phase": "Creating"}, opens=name) for name in ("one", "one", "two")),
        ledger.record_job(job_key(0, 2), {"phase": ""}, closes="one"),
        existing(ledger.job("0123abcd", 0)).open_requests,
    ]
    ledger.close_request(job_key(0, 2), "two")
    ledger.close_request(job_key(0, 2), "three")
    answers.append(ledger.record_job(job_key(0, 2), {"phase": "Creating"}, opens="four"))
    ledger.close_request(job_key(0, 1), "four")
    answers += [
        ledger.record_job(job_key(0, 2), {"state": JobState.FAILED}, Precondition(unless_watched=True)),
        existing(ledger.job("0123abcd", 0)).open_requests,
        ledger.record_job(job_key(0, 2), {"checkpoint_from": "us-east-1", "checkpoint_dollars": 0.25}),
        ledger.record_missing_model(job_key(0, 2)),
        ledger.record_job(job_key(0, 2), {"state": JobState.COMPLETED}),
        ledger.record_missing_model(job_key(0, 2)),
        existing(ledger.job("0123abcd", 0)).model,
        ledger.next_attempt(job_key(0, 2), previous, "us-east-1"),
        ledger.next_attempt(job_key(0, 2), previous, "us-east-1", reopen="again", array_file="retry-1"),
        ledger.record_job(job_key(0, 3), {"state": JobState.FAILED}, Precondition(array_file="jobs")),
        ledger.record_job(job_key(0, 3), {"state": JobState.IN_PROGRESS}, Precondition(array_file="retry-1")),
    ]
    ledger.request_cancel("0123abcd", "all", {"by": "x"})
    answers.append(sorted(ledger.cancels("0123abcd")))
    answers += [sorted(ledger.open_marks()), ledger.unsettled(None)]
    mark = ledger.open_marks()["0123abcd"]
    answers += [ledger.settle("0123abcd", OpenMark(mark="an earlier one", at=""), {}), sorted(ledger.open_marks())]
    answers += [ledger.settle("0123abcd", mark, {JobState.COMPLETED: 1}), ledger.open_marks(), ledger.unsettled(None)]
    ledger.record_history_scan(HistoryScan(began_at=1, after={"submission": "a", "item": "b"}))
    answers += [ledger.history_scan(), len(list(ledger.whole("0123abcd")))]
    times = {
        "mark",
        "settled",
        "at",
        "claimed_at",
        "opened_at",
        "requested_at",
        "updated_at",
        "submitted_at",
        "progress_at",
    }
    read = [*ledger.items("0123abcd"), *ledger.everything(), *ledger.submissions()]
    stored = sorted(ledger._table.everything(), key=lambda item: str(item["item"]))
    timeless = [{name: value for name, value in item.items() if name not in times} for item in stored]
    return [*answers, timeless, len(read)]


def test_the_ledger_in_memory_answers_like_dynamodb(ledger: Ledger, modelled: Ledger) -> None:
    assert everything_that_a_ledger_does(modelled) == everything_that_a_ledger_does(ledger)
