import gc
import time
from collections.abc import Callable
from typing import Any

import pytest
from moto.logs.models import LogEvent

from localcloud import log_streams
from localcloud.log_streams import LogStream
from localcloud.server.local_cloud import LocalCloud

ACCOUNT, REGION = "123456789012", "us-east-1"


@pytest.fixture
def group(cloud: LocalCloud) -> str:
    log_streams.ensure_group(ACCOUNT, REGION, "/group")
    return "/group"


def messages(client: Callable[..., Any], group: str, stream: str) -> list[str]:
    answer = client("logs").get_log_events(logGroupName=group, logStreamName=stream, startFromHead=True)
    return [event["message"] for event in answer["events"]]


@pytest.mark.parametrize(("limit", "value"), [("KEPT_EVENTS", 10), ("KEPT_BYTES", 150)])
def test_an_endless_stream_keeps_its_newest_lines(
    client: Callable[..., Any], group: str, monkeypatch: pytest.MonkeyPatch, limit: str, value: int
) -> None:
    monkeypatch.setattr(log_streams, limit, value)
    stream = LogStream(ACCOUNT, REGION, group, limit)
    for number in range(1000, 1100):
        stream.write(f"{limit}-{number}")
        stream.flush()
    kept = messages(client, group, limit)
    assert 5 <= len(kept) <= 10
    assert kept == [f"{limit}-{number}" for number in range(1100 - len(kept), 1100)]
    gc.collect()
    in_memory = [event.message for event in gc.get_objects() if isinstance(event, LogEvent)]
    assert sorted(message for message in in_memory if message.startswith(limit)) == kept


def test_lines_are_kept_if_the_clock_moves_back(
    client: Callable[..., Any], group: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = LogStream(ACCOUNT, REGION, group, "clock")
    stream.write("first")
    now = time.time()
    monkeypatch.setattr(time, "time", lambda: now - 60)
    stream.write("second")
    stream.flush()
    assert messages(client, group, "clock") == ["first", "second"]
