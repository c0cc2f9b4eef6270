"""Rounds on the page: the journal with the jobs that the page shows."""

from pathlib import Path

import pytest

from tests.support.local_page import LocalGrid, running_page
from tests.support.local_rounds import train_rounds
from traingrid.errors import UsageError
from traingrid.ui.feed import Feed
from traingrid.ui.poller import Poller
from traingrid.ui.rounds import PageRounds


def test_each_region_has_its_validation_bytes_and_seconds(local: LocalGrid) -> None:
    train_rounds(local, [0.5, 0.75, 0.75], missing=2)
    with running_page(local.plane, polls=False) as page:
        answer = page.json("/api/rounds/cells")
    first, second, _, training = answer["rounds"]
    assert [part["top1"] for part in first["parts"]] == [0.25, 0.3, 0.35, 0.2]
    assert [part["own_top1"] for part in first["parts"]] == [0.99] * 4
    assert {part["seconds"] for part in first["parts"]} == {300.0}
    assert (second["parts"][3]["left_out"], second["parts"][3]["top1"]) == ("is Failed: no capacity", None)
    assert (training["state"], training["top1"], training["parts"][0]["state"]) == ("Training", None, "InProgress")
    assert answer["best"] == 2  # the first of equal ones
    assert answer["commands"][0].endswith("download bbbb0002 0")


def test_a_second_read_requests_only_new_entries(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    train_rounds(local, [0.5])
    feed = Feed()
    Poller(local.plane, feed).read(everything=True)
    rounds = PageRounds(local.plane, feed, Path("grid.yaml"))
    rounds.read("cells")
    monkeypatch.setattr(local.storage, "read", lambda *_: pytest.fail("an entry is read again"))
    assert len(rounds.read("cells")["rounds"]) == 2


def test_rounds_that_do_not_exist_are_refused(local: LocalGrid) -> None:
    with pytest.raises(UsageError, match="This grid has no rounds with the name cells"):
        PageRounds(local.plane, Feed(), Path("grid.yaml")).read("cells")


def test_lines_and_merges_are_one_series(local: LocalGrid) -> None:
    train_rounds(local, [0.5])
    feed = Feed()
    Poller(local.plane, feed).read(everything=True)
    series = [submission["series"] for submission in feed._head["submissions"]]
    assert series == ["rounds:cells"] * 3
