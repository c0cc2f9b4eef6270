"""Submission index: lists of submissions cost the same however many jobs have ended."""

from collections import Counter
from collections.abc import Callable
from typing import Any

import boto3
import pytest
from botocore.client import BaseClient

from tests.support.ledger_indexes import add_index, deny_indexes
from traingrid.api.control_plane import ControlPlane
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.ledger.damage import Damaged, intact
from traingrid.ledger.grid_items import HistoryScan
from traingrid.ledger.ledger import Ledger
from traingrid.names import LEDGER_SUBMISSIONS

_OLD, _NEW = "0123abcd", "0123ffff"
_MANIFEST = "s3://bucket/manifests/x.csv"
Calls = Counter[str]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The calls to AWS, by operation."""
    counted: Calls = Counter()
    call = BaseClient._make_api_call  # type: ignore[attr-defined]  # the stubs omit it

    def counting(client: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        counted[operation] += 1
        return call(client, operation, parameters)

    monkeypatch.setattr(BaseClient, "_make_api_call", counting)
    return counted


@pytest.fixture
def indexed(ledger: Ledger, deployment: Deployment) -> Ledger:
    """A ledger whose table has the index of submissions."""
    add_index(deployment.table, LEDGER_SUBMISSIONS)
    return ledger


def claim(ledger: Ledger, submission: str, jobs: int = 1) -> None:
    ledger.claim_submission(submission, "request-1", {"jobs": jobs, "manifest": _MANIFEST})


def settle(ledger: Ledger, submission: str) -> None:
    assert ledger.settle(submission, ledger.open_marks()[submission], {})


def ids(ledger: Ledger) -> list[str]:
    return [head.submission for head in intact(ledger.submissions())]


def complete_id(ledger: Ledger, deployment: Deployment) -> str:
    nothing: Any = None
    return ControlPlane(deployment=deployment, ledger=ledger, batch=nothing, storage=nothing).submission_id(_OLD[:6])


@pytest.mark.parametrize(
    "read",
    [lambda ledger, _: list(ledger.submissions()), lambda ledger, _: list(ledger.open_items()), complete_id],
    ids=["list", "open items", "first characters of an id"],
)
def test_a_read_costs_the_same_with_more_ended_jobs(
    indexed: Ledger, deployment: Deployment, job: Job, calls: Calls, read: Callable[[Ledger, Deployment], object]
) -> None:
    claim(indexed, _OLD, jobs=60)
    settle(indexed, _OLD)
    claim(indexed, "99999999")
    indexed.record_history_scan(HistoryScan(completed_at=1))
    costs = []
    for jobs in (range(3), range(3, 60)):
        for index in jobs:
            indexed.open_job(_OLD, job.model_copy(update={"index": index}))
        calls.clear()
        read(indexed, deployment)
        costs.append(dict(calls))
    assert costs[0] == costs[1]
    assert "Scan" not in costs[0]


def test_submissions_are_listed_newest_first_with_all_their_attributes(
    indexed: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    for second, submission in enumerate((_OLD, "77777777", _NEW)):
        monkeypatch.setattr("traingrid.ledger.ledger.now", lambda at=f"2026-11-20T10:00:0{second}Z": at)
        claim(indexed, submission)
    assert list(indexed.submissions()) == [indexed.submission(name) for name in (_NEW, "77777777", _OLD)]


def test_an_open_submission_that_the_index_lacks_yet_is_listed(
    indexed: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(indexed, _OLD)
    settle(indexed, _OLD)
    claim(indexed, _NEW)
    query = BaseClient._make_api_call  # type: ignore[attr-defined]  # the stubs omit it

    def late(client: BaseClient, operation: str, parameters: dict[str, Any]) -> Any:
        reply = query(client, operation, parameters)
        if "IndexName" in parameters:
            reply["Items"] = [item for item in reply["Items"] if item["submission"]["S"] != _NEW]
        return reply

    monkeypatch.setattr(BaseClient, "_make_api_call", late)
    assert set(ids(indexed)) == {_OLD, _NEW}


def test_the_ledger_of_a_version_without_the_index_is_scanned_until_a_deployment_adds_it(
    ledger: Ledger, deployment: Deployment, job: Job, calls: Calls
) -> None:
    claim(ledger, _OLD)
    ledger.open_job(_OLD, job)
    assert ids(ledger) == [_OLD]
    assert calls["Scan"] == 1
    add_index(deployment.table, LEDGER_SUBMISSIONS)
    calls.clear()
    assert ids(ledger) == [_OLD]
    assert calls["Scan"] == 0


def test_a_caller_who_may_not_read_the_index_gets_the_list_by_a_scan(
    indexed: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    claim(indexed, _OLD)
    deny_indexes(monkeypatch)
    assert ids(indexed) == [_OLD]


def test_an_open_submission_that_is_damaged_is_listed_last(indexed: Ledger, deployment: Deployment) -> None:
    claim(indexed, _OLD)
    claim(indexed, _NEW)
    boto3.client("dynamodb").update_item(
        TableName=deployment.table,
        Key={"submission": {"S": _NEW}, "item": {"S": "submission"}},
        UpdateExpression="REMOVE claimed_at",
    )
    *readable, last = indexed.submissions()
    assert [item.submission for item in readable] == [_OLD]
    assert isinstance(last, Damaged)


def test_open_items_are_everything_until_the_index_of_open_work_is_complete(ledger: Ledger, job: Job) -> None:
    for submission in (_OLD, _NEW):
        claim(ledger, submission)
        ledger.open_job(submission, job)
    settle(ledger, _OLD)
    assert len(list(ledger.open_items())) == 4
    ledger.record_history_scan(HistoryScan(completed_at=1))
    assert {item.submission for item in ledger.open_items()} == {_NEW}
