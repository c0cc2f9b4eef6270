"""Poller: the page shows the ledger, and marks a ledger or Region that does not answer."""

import asyncio
import json
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.local_page import SUBMISSION, LocalGrid
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.ui import view
from traingrid.ui.feed import Feed
from traingrid.ui.poller import Poller


def published(local: LocalGrid) -> tuple[Poller, Feed]:
    feed = Feed()
    poller = Poller(local.plane, feed)
    poller.read(everything=True)
    return poller, feed


def state(feed: Feed) -> dict[str, Any]:
    async def first() -> str:
        return await anext(feed.stream())

    found: dict[str, Any] = json.loads(asyncio.run(first()).splitlines()[2].removeprefix("data: "))
    return found


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
    poller, _ = published(local)
    monkeypatch.setattr(Ledger, "items", lambda *_: pytest.fail("an ended submission was read"))
    poller.read(everything=False)


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
    assert found["head"]["notices"][0]["text"].startswith("The ledger in us-east-1 does not answer")
    poller.read(everything=False)
    assert state(feed)["head"]["notices"] == []


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


def test_too_many_jobs_leave_out_the_oldest_submissions(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(view, "MOST_JOBS", 2)
    local.submit(["a", "b"], submission="00000001")
    local.submit(["c"], submission="00000002")
    _, feed = published(local)
    assert len({row["submission"] for row in state(feed)["rows"].values()}) == 1
    assert state(feed)["head"]["notices"][0]["text"].startswith("1 older submission")
