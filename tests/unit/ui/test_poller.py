"""Poller: the page shows the ledger, and marks a ledger or Region that does not answer."""

import asyncio
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import pytest
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    TokenRetrievalError,
    UnauthorizedSSOTokenError,
)

from bench import page_cost
from tests.support.local_page import MANIFEST, SUBMISSION, LocalGrid, event_data
from tests.support.module_time import replace_time
from traingrid.grid.deployment import Deployment
from traingrid.job.state import JobState
from traingrid.ledger import first_item
from traingrid.ledger import ledger as ledger_module
from traingrid.ledger.damage import Damaged
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.grid_items import HistoryScan
from traingrid.ledger.ledger import Ledger, LedgerItem
from traingrid.ledger.rejections import Rejection
from traingrid.ledger.submission_item import Array
from traingrid.ledger.timestamps import timestamp
from traingrid.ledger.user_requests import CANCEL_ALL
from traingrid.submission.retry import outcome_of
from traingrid.ui import poller as poller_module
from traingrid.ui import view
from traingrid.ui.feed import Feed
from traingrid.ui.poller import Poller
from verification.model.table import ModelTable


def published(local: LocalGrid) -> tuple[Poller, Feed]:
    feed = Feed()
    poller = Poller(local.plane, feed)
    poller.read(everything=True)
    return poller, feed


def state(feed: Feed) -> dict[str, Any]:
    async def first() -> str:
        return await anext(feed.stream())

    return event_data(asyncio.run(first()))


def test_jobs_that_no_child_has_opened_are_shown_as_submitted(local: LocalGrid) -> None:
    jobs = local.submit(["night", "day"])
    local.train(jobs[0], epoch=3, loss=0.5)
    _, feed = published(local)
    rows = state(feed)["rows"]
    assert [row["name"] for row in rows.values()] == ["night", "day"]
    assert (rows[f"{SUBMISSION}/0"]["state"], rows[f"{SUBMISSION}/0"]["metrics"]) == (
        "InProgress",
        {"epoch": 3, "loss": 0.5},
    )
    assert (rows[f"{SUBMISSION}/1"]["state"], rows[f"{SUBMISSION}/1"]["region"]) == ("Pending", "us-west-2")


def test_a_row_has_the_times_of_all_attempts(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [1_750_000_000.0]
    for module in (ledger_module, first_item):
        monkeypatch.setattr(module, "now", lambda: timestamp(clock[0]))
    (job,) = local.submit(["night"])
    key = local.open(job, state=JobState.IN_PROGRESS, training_started_at=int(clock[0]))
    clock[0] += 300
    failed: AttemptFacts = {
        "region": job.region,
        "state": JobState.FAILED,
        "failure": "lost_node",
        "billable_seconds": 280,
    }
    assert local.ledger.next_attempt(key, failed, "eu-west-1")
    second = replace(key, attempt=2)
    clock[0] += 60
    local.ledger.record_job(second, {"state": JobState.IN_PROGRESS}, opens="request")
    local.ledger.record_job(second, {"training_started_at": int(clock[0]) + 5})
    (row,) = state(published(local)[1])["rows"].values()
    assert row["earlier"] == [[job.region, "Failed", "lost_node", 1_750_000_300, 280]]
    assert (row["requested"], row["started"], row["ended"]) == (1_750_000_360, 1_750_000_365, 0)
    clock[0] += 600
    local.ledger.record_job(second, {"state": JobState.COMPLETED})
    (row,) = state(published(local)[1])["rows"].values()
    assert row["ended"] == 1_750_000_960


def test_a_retried_attempt_ended_when_it_failed(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ledger_module, "now", lambda: timestamp(1_750_000_000))
    (job,) = local.submit(["night"])
    local.open(job, state=JobState.FAILED, failure="algorithm")
    item = local.ledger.job(SUBMISSION, 0)
    assert item is not None
    assert outcome_of(item)["ended_at"] == item.updated_at == timestamp(1_750_000_000)


def test_completed_jobs_with_a_model_have_the_first_tier_and_others_a_reason(local: LocalGrid) -> None:
    jobs = local.submit(["best", "empty", "open", "stopped"])
    local.open(jobs[0], state=JobState.COMPLETED, artifact="s3://bucket/model.tar.gz")
    local.open(jobs[1], state=JobState.COMPLETED)
    local.open(jobs[3], state=JobState.STOPPED, artifact="s3://bucket/model.tar.gz")
    local.ledger.request_cancel(SUBMISSION, CANCEL_ALL, {"by": "me", "reason": "enough"})
    _, feed = published(local)
    rows = state(feed)["rows"].values()
    assert [(row["tier"], row["reason"]) for row in rows] == [
        *((0, ""), (1, "has no model"), (2, ""), (3, "Cancelled by me: enough")),
    ]


def test_rejected_manifests_are_shown_until_they_are_corrected(local: LocalGrid) -> None:
    earlier = timestamp(time.time() - 60)
    reason = "file: it has no lines. Add one."
    for number in range(7):
        rejected = Rejection(manifest=f"s3://m/{number}.csv", version="v", at=earlier, errors=1, reason=reason)
        local.ledger.record_rejection(rejected)
    local.ledger.record_rejection(replace(rejected, manifest=MANIFEST))
    local.ledger.record_rejection(replace(rejected, at=timestamp(time.time() - 8 * 24 * 3600)))
    local.submit(["night"])
    _, feed = published(local)
    notices = [notice["text"] for notice in state(feed)["head"]["notices"]]
    text = (
        f"s3://m/0.csv was rejected at {earlier} with 1 error; nothing was submitted. File: it has no lines. Add one."
    )
    assert text in notices
    assert notices[-1] == "2 more manifests were rejected; `traingrid status` lists them."
    assert len(notices) == 6


def test_a_change_is_read_without_a_read_of_everything(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = local.submit(["night"])
    local.train(jobs[0])
    poller, feed = published(local)
    monkeypatch.setattr(Ledger, "everything", lambda _: pytest.fail("the whole table was read"))
    local.open(jobs[0], state=JobState.FAILED, failure="data", reason="ClientError: no data")
    poller.read(everything=False)
    row = state(feed)["rows"][f"{SUBMISSION}/0"]
    assert (row["state"], row["failure"], row["reason"]) == ("Failed", "data", "ClientError: no data")


def test_a_submission_that_has_ended_is_not_read_again(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs = local.submit(["night"])
    local.open(jobs[0], state=JobState.COMPLETED)
    assert local.ledger.settle(SUBMISSION, local.ledger.open_marks()[SUBMISSION], {})
    poller, _ = published(local)
    monkeypatch.setattr(Ledger, "items", lambda *_: pytest.fail("an ended submission was read"))
    poller.read(everything=False)


def test_new_and_retried_submissions_are_found_without_a_read_of_everything(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = local.submit(["night"])
    key = local.open(jobs[0], state=JobState.FAILED)
    poller, feed = published(local)
    monkeypatch.setattr(Ledger, "everything", lambda _: pytest.fail("the whole table was read"))
    local.submit(["day"], submission="00000002")
    local.ledger.claim_retry(SUBMISSION, {"by": "ada"})
    poller.read(everything=False, look=False)
    assert set(state(feed)["rows"]) == {f"{SUBMISSION}/0"}
    poller.read(everything=False)
    assert state(feed)["rows"][f"{SUBMISSION}/0"]["state"] == "Failed", "the retry has not reopened it yet"
    outcome: AttemptFacts = {"region": jobs[0].region, "state": JobState.FAILED}
    assert local.ledger.next_attempt(key, outcome, jobs[0].region, reopen="retry-1")
    poller.read(everything=False, look=False)
    rows = state(feed)["rows"]
    assert rows["00000002/0"]["name"] == "day"
    assert (rows[f"{SUBMISSION}/0"]["state"], rows[f"{SUBMISSION}/0"]["attempt"]) == ("Pending", 2)


def test_jobs_before_the_first_open_one_are_read_again_only_after_a_retry_or_cancel(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = local.submit(["a", "b", "c"])
    for job in jobs[:2]:
        local.open(job, state=JobState.COMPLETED)
    key = local.train(jobs[2])
    poller, feed = published(local)
    firsts: list[int] = []
    items = Ledger.items

    def recording(ledger: Ledger, submission: str, first: int = 0) -> Iterator[LedgerItem | Damaged]:
        firsts.append(first)
        return items(ledger, submission, first)

    monkeypatch.setattr(Ledger, "items", recording)
    local.ledger.record_progress(key, {"epoch": 4.0})
    poller.read(everything=False)
    rows = state(feed)["rows"]
    assert [row["state"] for row in rows.values()] == ["Completed", "Completed", "InProgress"]
    assert rows[f"{SUBMISSION}/2"]["metrics"] == {"epoch": 4}
    local.ledger.request_cancel(SUBMISSION, CANCEL_ALL, {"by": "ada"})
    poller.read(everything=False)
    assert [row["cancelled"] for row in state(feed)["rows"].values()] == [True] * 3
    assert firsts == [2, 2, 0]


def test_the_last_metrics_are_read_after_the_end_of_a_submission(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    jobs = local.submit(["night"])
    key = local.train(jobs[0])
    poller, feed = published(local)
    local.ledger.record_job(key, {"state": JobState.COMPLETED})
    poller.read(everything=False)
    local.ledger.record_progress(key, {"epoch": 20.0})
    poller.read(everything=False)
    assert state(feed)["rows"][f"{SUBMISSION}/0"]["metrics"] == {"epoch": 20}
    monkeypatch.setattr(Ledger, "items", lambda *_: pytest.fail("an ended submission was read"))
    later = time.monotonic() + view.SETTLING_SECONDS
    replace_time(monkeypatch, "traingrid.ui.view", monotonic=lambda: later)
    poller.read(everything=False)


def test_a_grid_whose_version_writes_no_marks_is_listed_more_often(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "mark_open", lambda *_: None)
    poller, feed = published(local)
    assert poller.full_seconds() == poller_module.UNMARKED_FULL_SECONDS
    local.submit(["night"])
    poller.read(everything=False)
    assert state(feed)["rows"] == {}
    poller.read(everything=True)
    assert len(state(feed)["rows"]) == 1
    local.ledger.record_history_scan(HistoryScan(completed_at=1))
    poller.read(everything=True)
    assert poller.full_seconds() == poller_module.SHORTEST_FULL_SECONDS


def test_a_list_of_all_submissions_reads_only_those_that_have_changed(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Ledger, "everything", lambda _: pytest.fail("the whole table was read"))
    monkeypatch.setattr(ModelTable, "scan", lambda *_: pytest.fail("the whole table was read"))
    for submission in ("00000001", "00000002"):
        local.open(local.submit(["a"], submission=submission)[0], submission, state=JobState.COMPLETED)
    poller, feed = published(local)
    read: list[str] = []
    items = Ledger.items

    def recording(ledger: Ledger, submission: str, first: int = 0) -> Iterator[LedgerItem | Damaged]:
        read.append(submission)
        return items(ledger, submission, first)

    monkeypatch.setattr(Ledger, "items", recording)
    local.submit(["b"], submission="00000003")
    local.ledger.record_array("00000001", Array(batch_job="retry", file="retry-1.jsonl", count=1))
    poller.read(everything=True)
    assert sorted(read) == ["00000001", "00000003"]
    assert set(state(feed)["rows"]) == {"00000001/0", "00000002/0", "00000003/0"}


def test_a_list_that_could_not_be_read_completely_is_read_again(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.submit(["night"])
    feed = Feed()
    poller = Poller(local.plane, feed)

    def down(*_: object) -> None:
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "items", down)
        poller.read(everything=True)
    assert state(feed)["rows"] == {}
    poller.read(everything=True)
    assert set(state(feed)["rows"]) == {f"{SUBMISSION}/0"}


def test_the_page_makes_as_many_requests_as_documented(deployment: Deployment, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[str] = []

    def call(_service: str, operation: str, effect: Callable[[], Any]) -> Any:
        calls.append(operation)
        return effect()

    monkeypatch.setattr("traingrid.ledger.ledger.Table", lambda *_: ModelTable(call, lambda *_: None))
    local = LocalGrid(Ledger("ledger"))
    for submission in ("00000001", "00000002"):
        local.train(local.submit(["a", "b"], submission=submission)[0], submission)
    poller, _ = published(local)
    calls.clear()
    poller.read(everything=False, look=False)
    assert Counter(calls) == {"Query": 2 * page_cost.QUERIES_OF_A_SUBMISSION}
    calls.clear()
    poller.read(everything=False)
    of_a_look = Counter(calls) - Counter({"Query": 2 * page_cost.QUERIES_OF_A_SUBMISSION})
    assert of_a_look.total() == page_cost.READS_OF_A_LOOK


def test_a_ledger_that_does_not_answer_is_a_notice_beside_the_last_state(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    local.submit(["night"])
    poller, feed = published(local)

    def down(_: Ledger) -> None:
        raise EndpointConnectionError(endpoint_url="http://127.0.0.1:1")

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "pause", down)
        poller.read(everything=False)
        poller.read(everything=False)
    assert len(caplog.messages) == 1
    found = state(feed)
    assert len(found["rows"]) == 1
    assert found["head"]["notices"][0]["kind"] == "error"
    assert found["head"]["notices"][0]["text"].startswith("The ledger in us-east-1 cannot be read")
    poller.read(everything=False)
    assert state(feed)["head"]["notices"] == []


@pytest.mark.parametrize(
    "error",
    [
        ClientError({"Error": {"Code": "ExpiredTokenException", "Message": "expired"}}, "GetItem"),
        TokenRetrievalError(provider="sso", error_msg="Token has expired and refresh failed"),
        UnauthorizedSSOTokenError(),
    ],
)
def test_expired_credentials_are_a_notice_with_the_next_step_until_they_are_renewed(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    local.submit(["night"])
    feed, renewed = Feed(), list[bool]()
    poller = Poller(local.plane, feed, renew=lambda: renewed.append(True))
    poller.read(everything=True)

    def expired(_: Ledger) -> None:
        raise error

    with monkeypatch.context() as patch:
        patch.setattr(Ledger, "pause", expired)
        poller.read(everything=False)
    (notice,) = state(feed)["head"]["notices"]
    assert notice["text"].startswith("The AWS credentials have expired")
    assert "aws sso login" in notice["text"]
    assert len(state(feed)["rows"]) == 1
    poller.read(everything=False)
    assert (renewed, state(feed)["head"]["notices"]) == ([True], [])


def test_a_pause_is_a_notice(local: LocalGrid) -> None:
    local.ledger.set_launching({"by": "ada", "reason": "a costly error"}, allowed=False)
    _, feed = published(local)
    assert "by ada: a costly error" in state(feed)["head"]["notices"][0]["text"]


def test_only_the_region_that_does_not_answer_is_marked(local: LocalGrid) -> None:
    poller, feed = published(local)
    poller.note_region("eu-west-1", "Could not connect")
    assert {region["name"]: region["error"] for region in state(feed)["head"]["regions"] if region["error"]} == {
        "eu-west-1": "Could not connect"
    }
    poller.note_region("eu-west-1", "")
    assert not any(region["error"] for region in state(feed)["head"]["regions"])


@pytest.mark.parametrize(("limit", "most"), [("MOST_JOBS", 2), ("MOST_SUBMISSIONS", 1)])
def test_too_many_jobs_or_submissions_leave_out_the_oldest_submissions(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch, limit: str, most: int
) -> None:
    monkeypatch.setattr(view, limit, most)
    local.submit(["a", "b"], submission="00000001")
    local.submit(["c"], submission="00000002")
    _, feed = published(local)
    assert len({row["submission"] for row in state(feed)["rows"].values()}) == 1
    assert state(feed)["head"]["notices"][0]["text"].startswith("1 older submission")
