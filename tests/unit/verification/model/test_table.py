"""Model table: `verification.model.table`, the state machine's table in memory, behaves like DynamoDB's."""

from collections.abc import Iterator
from typing import Any

import pytest

from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Claim, Ledger
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
    assert Condition(condition, values).holds({"attempt": 1, "state": "Pending"}) is holds


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
    former = {"attempt": 1, "region": "us-east-1", "state": "Failed", "failure": "capacity", "reason": "none"}
    answers: list[Any] = [
        ledger.claim_submission("0123abcd", "a", {"jobs": 1, "claim_ends_at": 60}) is None,
        ledger.claim_submission("0123abcd", "b", {"jobs": 1, "claim_ends_at": 60}) is None,
    ]
    head = ledger.submission("0123abcd") or {}
    answers += [ledger.take_over_submission("0123abcd", Claim(owner=owner, ends_at=90), head) for owner in "bc"]
    ledger.release_submission("0123abcd", Claim(owner="b", ends_at=90))
    ledger.record_submitted("0123abcd", "job-0", [{"batch_job": "job-0", "file": "jobs.jsonl", "count": 1}])
    ledger.record_array("0123abcd", {"batch_job": "job-1", "file": "retry-1.jsonl", "count": 1})
    answers += [ledger.claim_retry("0123abcd", {"by": "x"}), ledger.claim_retry("0123abcd", {"by": "x"})]
    ledger._table.put_new({"submission": "0123abcd", "item": "job#00000", "attempt": 1, "state": "Pending"})
    answers += [
        ledger.record_job("0123abcd", 0, 2, {"state": "InProgress"}),
        ledger.record_job("0123abcd", 0, 1, {"state": "InProgress", "batch_child": "job-0"}),
        ledger.record_job("0123abcd", 0, 1, {"state": "Failed"}, unless_watched=True),
        ledger.next_attempt("0123abcd", 0, former, "eu-west-1"),
        ledger.next_attempt("0123abcd", 0, former, "eu-west-1"),
        ledger.record_progress("0123abcd", 0, 2, {"loss": 0.5}),
        ledger.record_job("0123abcd", 0, 2, {"state": "Failed"}, unless_watched=True),
        ledger.record_job("0123abcd", 0, 2, {"state": "Completed"}),
        ledger.next_attempt("0123abcd", 0, former | {"attempt": 2}, "us-east-1"),
        ledger.next_attempt("0123abcd", 0, former | {"attempt": 2}, "us-east-1", reopen="again", array_file="retry-1"),
        ledger.record_job("0123abcd", 0, 3, {"state": "Failed"}, array_file="jobs"),
        ledger.record_job("0123abcd", 0, 3, {"state": "InProgress"}, array_file="retry-1"),
    ]
    ledger.request_cancel("0123abcd", "all", {"by": "x"})
    answers.append(sorted(ledger.cancels("0123abcd")))
    times = {"at", "claimed_at", "opened_at", "updated_at", "submitted_at", "progress_at"}
    items = [*ledger.items("0123abcd"), *ledger.everything(), *ledger.submissions()]
    return [
        *answers,
        [{name: value for name, value in item.items() if name not in times} for item in items[:2]],
        len(items),
    ]


def test_the_ledger_in_memory_answers_like_dynamodb(ledger: Ledger, modelled: Ledger) -> None:
    assert everything_that_a_ledger_does(modelled) == everything_that_a_ledger_does(ledger)
