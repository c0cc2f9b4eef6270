"""Log: lines of pods are read once, although the API reads from whole seconds, and from the end."""

from collections.abc import Iterator
from typing import Any

import pytest

from traingrid.aws.log_events import LogPosition
from traingrid.backends.eks.log import PodLogs
from traingrid.kubernetes.errors import error_of

FIRST = ["2026-11-25T12:00:00.1Z a", "2026-11-25T12:00:00.2Z b", "2026-11-25T12:00:00.2Z c"]
SECOND = ["2026-11-25T12:00:00.2Z d", "2026-11-25T12:00:01Z e", "2026-11-25T12:00:01.000000001Z "]


class FakeClient:
    """A cluster with the log of one pod."""

    def __init__(self, *lines: str) -> None:
        self.lines_of_pod, self.asked = list(lines), list[str]()
        self.refusal: Exception | None = None

    def log(self, _pod: str, _container: str, since: str, tail: int | None) -> Iterator[str]:
        self.asked.append(since)
        if self.refusal:
            raise self.refusal
        seconds = since.partition(".")[0]
        lines = [line for line in self.lines_of_pod if line >= seconds]
        yield from lines if tail is None else lines[-tail:]


def reader(client: Any) -> PodLogs:
    return PodLogs(client)


def test_new_lines_are_read_once() -> None:
    client, position = FakeClient(*FIRST), LogPosition()
    assert [event.message for event in reader(client).new_lines("pod", position)] == ["a", "b", "c"]
    assert list(reader(client).new_lines("pod", position)) == []
    client.lines_of_pod += SECOND
    assert [event.message for event in reader(client).new_lines("pod", position)] == ["d", "e", ""]
    assert list(reader(client).new_lines("pod", position)) == []


def test_a_reader_that_is_interrupted_continues_after_the_last_line() -> None:
    client, position = FakeClient(*FIRST, *SECOND), LogPosition()
    lines = reader(client).new_lines("pod", position)
    assert [next(lines).message, next(lines).message] == ["a", "b"]
    assert [event.message for event in reader(client).new_lines("pod", position)] == ["c", "d", "e", ""]


def test_the_last_lines_set_the_position_to_the_end() -> None:
    client, position = FakeClient(*FIRST), LogPosition()
    assert [event.message for event in reader(client).last_lines("pod", 2, position)] == ["b", "c"]
    client.lines_of_pod += SECOND
    assert [event.message for event in reader(client).new_lines("pod", position)] == ["d", "e", ""]


def test_a_container_that_has_not_started_has_no_lines() -> None:
    client = FakeClient()
    client.refusal = error_of(400, {"reason": "BadRequest", "message": "is waiting to start"})
    assert list(reader(client).new_lines("pod", {})) == []
    client.refusal = error_of(403, {"reason": "Forbidden", "message": "no"})
    with pytest.raises(type(client.refusal)):
        list(reader(client).new_lines("pod", {}))


def test_times_are_in_milliseconds() -> None:
    (event,) = reader(FakeClient("2026-11-25T12:00:00.123456789Z x")).new_lines("pod", {})
    assert event.time % 1000 == 123
    since = event.time + 1
    assert list(reader(FakeClient("2026-11-25T12:00:00.123456789Z x")).new_lines("pod", {}, since)) == []


LOST = "unable to retrieve container logs for containerd://0123abcd"


def test_an_error_text_of_the_kubelet_is_no_line() -> None:
    client, position = FakeClient(LOST), LogPosition()
    assert list(reader(client).new_lines("pod", position)) == []
    assert reader(client).last_lines("pod", 5, position) == []
    assert position == {}
    client.lines_of_pod = [*FIRST, "failed to try resolving symlinks in path", "2026-02-30T12:00:00Z no such day"]
    assert [event.message for event in reader(client).new_lines("pod", position)] == ["a", "b", "c"]
    assert position == {"pod": "2026-11-25T12:00:00.200000000Z#2"}


def test_times_in_the_zone_of_the_node_are_compared_in_utc() -> None:
    client, position = FakeClient("2026-11-25T14:00:00.5+02:00 a", "2026-11-25T14:00:01+02:00 b"), LogPosition()
    assert [event.message for event in reader(client).new_lines("pod", position)] == ["a", "b"]
    assert position == {"pod": "2026-11-25T12:00:01.000000000Z#1"}
    assert list(reader(client).new_lines("pod", position)) == []
