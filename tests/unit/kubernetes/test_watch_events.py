"""Watch events: a client reads the changes of a watch, and refuses a reply that is none."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from traingrid.kubernetes.client import JOB, Client
from traingrid.kubernetes.errors import GONE, ApiError


class Reply:
    def close(self) -> None:
        pass


class Connection:
    """A connection that replies with lines of JSON."""

    def __init__(self, *events: Any) -> None:
        self.events = events

    def reply(self, *_: Any, **__: Any) -> Reply:
        return Reply()

    def lines(self, _: Reply) -> Iterator[bytes]:
        yield from (json.dumps(event).encode() for event in self.events)


def client_of(*events: Any) -> Client:
    client = object.__new__(Client)
    client.namespace, client._connection = "traingrid", Connection(*events)  # type: ignore[assignment]  # has its methods
    return client


def test_changes_are_yielded() -> None:
    change = {"type": "MODIFIED", "object": {"metadata": {"name": "x"}}}
    assert [*client_of(change).watch(JOB, "1")] == [change]


@pytest.mark.parametrize("event", [{"type": "MODIFIED"}, {"object": None}, {"kind": "Status"}])
def test_a_reply_without_an_object_is_an_error_of_the_server(event: Any) -> None:
    with pytest.raises(ApiError, match="a change of jobs without its object"):
        next(client_of(event).watch(JOB, "1"))


@pytest.mark.parametrize(("code", "expected"), [(GONE, GONE), ("x", 0), (None, 0)])
def test_an_error_event_has_the_code_of_its_status(code: Any, expected: int) -> None:
    with pytest.raises(ApiError) as raised:
        next(client_of({"type": "ERROR", "object": {"code": code}}).watch(JOB, "1"))
    assert raised.value.code == expected
