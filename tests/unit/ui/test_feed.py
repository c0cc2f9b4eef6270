"""Feed: browsers get the whole state once, then changes, and the missed changes when they connect again."""

import asyncio
import json
from typing import Any

import pytest

from tests.support.local_page import event_data
from traingrid.ui import feed as feeds
from traingrid.ui.feed import Feed


def row(state: str = "Pending") -> dict[str, Any]:
    return {"state": state}


def events(feed: Feed, count: int, last: str = "") -> list[tuple[str, str, dict[str, Any]]]:
    """Return the next events as (id, name, data)."""

    async def read() -> list[str]:
        stream = feed.stream(last)
        return [await asyncio.wait_for(anext(stream), 5) for _ in range(count)]

    found = [(event, event.splitlines()) for event in asyncio.run(read())]
    return [(one[0].removeprefix("id: "), one[1].removeprefix("event: "), event_data(event)) for event, one in found]


def test_a_new_browser_gets_the_whole_state() -> None:
    feed = Feed()
    feed.publish({"a/0": row(), "a/1": row()}, {"grid": "g"})
    ((_, name, data),) = events(feed, 1)
    assert (name, data) == ("snapshot", {"rows": {"a/0": row(), "a/1": row()}, "head": {"grid": "g"}})


def test_the_state_has_the_id_after_which_changes_follow() -> None:
    feed = Feed()
    assert json.loads(feed.state()) == {"id": ""}
    feed.publish({"a/0": row()}, {"grid": "g"})
    known = json.loads(feed.state())
    assert (known["fields"], known["rows"], known["head"]) == (["state"], {"a/0": ["Pending"]}, {"grid": "g"})
    feed.publish({"a/0": row("Failed")}, {"grid": "g"})
    ((_, name, data),) = events(feed, 1, known["id"])
    assert (name, data) == ("change", {"rows": {"a/0": row("Failed")}})
    assert json.loads(feed.state())["rows"] == {"a/0": ["Failed"]}


def test_a_part_of_the_head_is_no_state() -> None:
    feed = Feed()
    feed.publish_head(campaigns=None)
    assert json.loads(feed.state()) == {"id": ""}
    feed.publish({}, {"grid": "g", "campaigns": None})
    feed.publish_head(campaigns=1)
    assert json.loads(feed.state())["head"] == {"grid": "g", "campaigns": 1}


def test_a_browser_that_connects_again_gets_only_the_missed_changes() -> None:
    feed = Feed()
    feed.publish({"a/0": row(), "a/1": row()}, {"grid": "g"})
    ((known, _, _),) = events(feed, 1)
    feed.publish({"a/0": row("Failed"), "a/1": row()}, {"grid": "g"})
    feed.publish({"a/0": row("Failed")}, {"grid": "g", "home": "h"})
    found = events(feed, 2, known)
    assert [name for _, name, _ in found] == ["change", "change"]
    assert found[0][2] == {"rows": {"a/0": row("Failed")}}
    assert found[1][2] == {"removed": ["a/1"], "head": {"grid": "g", "home": "h"}}


@pytest.mark.parametrize("last", ["00000000-1", "nonsense", "-", "1", "x-99999999999999999999"])
def test_an_id_of_another_run_of_the_server_gets_the_whole_state(last: str) -> None:
    feed = Feed()
    feed.publish({"a/0": row()}, {})
    assert events(feed, 1, last)[0][1] == "snapshot"


def test_a_browser_that_missed_too_much_gets_the_whole_state(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feeds, "_KEPT_CHANGES", 2)
    feed = Feed()
    feed.publish({"a/0": row("0")}, {})
    ((known, _, _),) = events(feed, 1)
    for number in range(1, 4):
        feed.publish({"a/0": row(str(number))}, {})
    assert events(feed, 1, known)[0][1:] == ("snapshot", {"rows": {"a/0": row("3")}, "head": {}})


def test_an_unchanged_state_sends_nothing() -> None:
    feed = Feed()
    feed.publish({"a/0": row()}, {})
    ((known, _, _),) = events(feed, 1)
    feed.publish({"a/0": row()}, {})

    async def wait() -> None:
        await asyncio.wait_for(anext(feed.stream(known)), 0.1)

    with pytest.raises(TimeoutError):
        asyncio.run(wait())


def test_a_change_reaches_a_browser_that_waits() -> None:
    feed = Feed()
    feed.publish({"a/0": row()}, {})

    async def read() -> str:
        stream = feed.stream()
        await anext(stream)
        await asyncio.to_thread(feed.publish, {"a/0": row("Failed")}, {})
        return await asyncio.wait_for(anext(stream), 5)

    assert "Failed" in asyncio.run(read())


def test_closing_ends_the_streams() -> None:
    feed = Feed()

    async def read() -> list[str]:
        stream = feed.stream()
        asyncio.get_running_loop().call_later(0.05, feed.close)
        return [event async for event in stream]

    assert asyncio.run(read()) == []
