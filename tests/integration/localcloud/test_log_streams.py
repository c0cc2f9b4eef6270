import time
from collections.abc import Callable
from typing import Any

import pytest

from localcloud import log_streams, stored_log
from localcloud.log_streams import LogStream
from localcloud.server.local_cloud import LocalCloud
from tests.support.module_time import replace_time

ACCOUNT, REGION = "123456789012", "us-east-1"


@pytest.fixture
def group(cloud: LocalCloud) -> str:
    log_streams.ensure_group(ACCOUNT, REGION, "/group")
    return "/group"


def messages(client: Callable[..., Any], group: str, stream: str) -> list[str]:
    answer = client("logs").get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True)
    return [event["message"] for event in answer["events"]]


def page(client: Callable[..., Any], group: str, stream: str, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = client("logs").get_log_events(logGroupName=group, logStreamName=stream, **more)
    return answer | {"messages": [event["message"] for event in answer["events"]]}


def pages(client: Callable[..., Any], group: str, stream: str) -> list[list[str]]:
    found: list[list[str]] = []
    token: dict[str, str] = {}
    while True:
        answer = page(client, group, stream, startFromHead=True, **token)
        if answer["nextForwardToken"] == token.get("nextToken"):
            return found
        found.append(answer["messages"])
        token = {"nextToken": answer["nextForwardToken"]}


def test_an_endless_stream_ends_with_an_event_that_states_it(
    client: Callable[..., Any], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stored_log, "KEPT_BYTES", 30)
    stream = LogStream(ACCOUNT, REGION, group, "endless")
    for number in range(100):
        stream.write(f"line {number}")
        stream.flush()
    assert messages(client, group, "endless") == ["line 0", "line 1", "line 2", "line 3", "line 4", stored_log.CUT]


def test_a_page_has_at_most_a_mebibyte_and_no_line_is_lost(client: Callable[..., Any], group: str) -> None:
    stream = LogStream(ACCOUNT, REGION, group, "wide")
    lines = [f"{number}:" + "ü" * 100_000 for number in range(12)] + ["x" * 1_048_576, "last"]
    for line in lines:
        stream.write(line)
        stream.flush()
    found = pages(client, group, "wide")
    assert [len(texts) for texts in found] == [5, 5, 2, 1, 1, 0][: len(found)]
    assert [line for texts in found for line in texts] == lines


def test_a_page_has_at_most_10_000_events(client: Callable[..., Any], group: str) -> None:
    stream = LogStream(ACCOUNT, REGION, group, "long")
    lines = [f"line {number}" for number in range(25_000)]
    for line in lines:
        stream.write(line)
    stream.flush()
    found = pages(client, group, "long")
    assert [len(texts) for texts in found if texts] == [10_000, 10_000, 5_000]
    assert [line for texts in found for line in texts] == lines


def test_the_last_events_are_returned_first_and_pages_go_back(client: Callable[..., Any], group: str) -> None:
    stream = LogStream(ACCOUNT, REGION, group, "tail")
    for number in range(5):
        stream.write(str(number))
    stream.flush()
    last = page(client, group, "tail", limit=2)
    assert last["messages"] == ["3", "4"]
    before = page(client, group, "tail", limit=2, nextToken=last["nextBackwardToken"])
    assert before["messages"] == ["1", "2"]
    assert page(client, group, "tail", nextToken=last["nextForwardToken"], startFromHead=True)["messages"] == []
    stream.write("5")
    stream.flush()
    after = page(client, group, "tail", nextToken=last["nextForwardToken"], startFromHead=True)
    assert after["messages"] == ["5"]


def test_a_window_includes_its_start_but_not_its_end(
    client: Callable[..., Any], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream, now = LogStream(ACCOUNT, REGION, group, "window"), int(time.time())
    for second in range(4):
        replace_time(monkeypatch, "localcloud.log_streams", time=lambda at=now + second: at)
        stream.write(str(second))
    monkeypatch.undo()
    stream.flush()
    window = {"startTime": (now + 1) * 1000, "endTime": (now + 3) * 1000}
    assert page(client, group, "window", startFromHead=True, **window)["messages"] == ["1", "2"]
    found = client("logs").filter_log_events(logGroupName=group, logStreamNames=["window"], **window)
    assert [event["message"] for event in found["events"]] == ["1", "2", "3"], "FilterLogEvents includes the end"


def test_any_text_is_returned_as_it_was_written(client: Callable[..., Any], group: str) -> None:
    stream = LogStream(ACCOUNT, REGION, group, "text")
    for line in ("\x1b[31mred", "ä\u2028b", "\udcff", ""):
        stream.write(line)
    stream.flush()
    assert messages(client, group, "text")[:2] == ["\x1b[31mred", "ä\u2028b"]
    assert messages(client, group, "text")[3:] == [" "]


def test_lines_are_kept_if_the_clock_moves_back(
    client: Callable[..., Any], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = LogStream(ACCOUNT, REGION, group, "clock")
    stream.write("first")
    now = time.time()
    replace_time(monkeypatch, "localcloud.log_streams", time=lambda: now - 60)
    stream.write("second")
    stream.flush()
    assert messages(client, group, "clock") == ["first", "second"]


@pytest.mark.parametrize("deletes", ["stream", "group"])
@pytest.mark.parametrize("has_successor", [False, True])
def test_lines_of_a_deleted_stream_are_dropped(
    client: Callable[..., Any], cloud: LocalCloud, deletes: str, has_successor: bool
) -> None:
    logs, group = client("logs"), f"/deleted/{deletes}/{has_successor}"
    log_streams.ensure_group(ACCOUNT, REGION, group)
    stream = LogStream(ACCOUNT, REGION, group, "same")
    stream.write("of the deleted stream")
    if deletes == "stream":
        logs.delete_log_stream(logGroupName=group, logStreamName="same")
    else:
        logs.delete_log_group(logGroupName=group)
        log_streams.ensure_group(ACCOUNT, REGION, group)  # as the next local cloud of this process does
    if has_successor:
        LogStream(ACCOUNT, REGION, group, "same")
    stream.flush()
    assert len(logs.describe_log_streams(logGroupName=group)["logStreams"]) == has_successor
    if has_successor:
        assert messages(client, group, "same") == []
