"""Audit of copies: lists those that no open job needs."""

from dataclasses import replace
from typing import Any

import pytest

from tests.support.copies import TARGET, move_item
from tests.support.sample_deployment import sample_deployment
from traingrid.audit.copies import UnneededCopy, unneeded_copies
from traingrid.audit.snapshot import SETTLED_SECONDS
from traingrid.ledger.damage import intact
from traingrid.ledger.moves import Moves
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.submission.folders_in_use import FoldersInUse
from verification.model.table import ModelTable

COPY = move_item(
    state="copied",
    job="0123abcd/0",
    objects=4,
    bytes=100,
    missing_bytes=100,
    copied_objects=2,
    copied_bytes=50,
)


@pytest.fixture
def moves(table: ModelTable, monkeypatch: pytest.MonkeyPatch) -> Moves:
    monkeypatch.setattr("traingrid.ledger.moves.Table", lambda *_: table)
    return Moves("x")


def found(moves: Moves, in_use: FoldersInUse | None = None, later: float = 0.0, **changes: Any) -> list[UnneededCopy]:
    moves.add(replace(COPY, **changes))
    (written,) = intact(moves.all())
    now = epoch_seconds(written.updated_at) + later
    return unneeded_copies(sample_deployment(), moves, lambda: in_use or FoldersInUse(), now)


def test_a_copy_without_an_open_job_is_listed_with_its_size(moves: Moves) -> None:
    (copy,) = found(moves)
    assert (copy.item.target, copy.bytes, copy.reason) == (str(TARGET), 100, "no open job uses it")


def test_a_copy_that_an_open_job_uses_is_not_listed(moves: Moves) -> None:
    assert found(moves, FoldersInUse(jobs={f"{TARGET}/": "job 0 of fedc3210"})) == []


def test_an_unfinished_copy_is_listed_once_its_child_must_have_ended(moves: Moves) -> None:
    assert found(moves, state="copying") == []
    (copy,) = found(moves, later=SETTLED_SECONDS + 1)
    assert (copy.bytes, copy.reason) == (50, "job 0123abcd/0 ended at 50 % of the copy, and no open job uses it")


def test_an_interrupted_removal_is_listed_although_a_job_waits_for_it(moves: Moves) -> None:
    (copy,) = found(moves, FoldersInUse(jobs={f"{TARGET}/": "job 0 of fedc3210"}), state="pruning")
    assert copy.reason == "its removal was interrupted, or still runs"


@pytest.mark.parametrize(
    "changes",
    [
        {"state": "pruned"},
        {"missing_bytes": 0},
        {"target": "s3://another-bucket/copies/day1"},
        {"region": "ap-southeast-2"},
    ],
)
def test_removed_copies_existing_data_and_other_buckets_are_not_listed(moves: Moves, changes: dict[str, Any]) -> None:
    assert found(moves, **changes) == []


def test_the_jobs_are_not_read_without_copies(moves: Moves) -> None:
    assert unneeded_copies(sample_deployment(), moves, lambda: pytest.fail("read")) == []


def test_a_copy_of_a_model_is_listed_too(moves: Moves) -> None:
    target = f"s3://traingrid-output-123456789012-{COPY.region}/initial-models/89abcdef/0/job/output"
    (copy,) = found(moves, target=target)
    assert copy.item.target == target
