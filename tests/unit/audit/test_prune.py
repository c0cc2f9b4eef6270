"""Prune: deletes the objects of a copy, and nothing else."""

import time
from dataclasses import replace
from typing import Any

import pytest

from tests.support.copies import (
    CONTENT,
    SOURCE,
    SOURCE_REGION,
    TARGET,
    TARGET_REGION,
    folder_copy,
    folders,
    move_item,
    stored,
    two_buckets,
    upload,
)
from traingrid.audit import prune as prune_module
from traingrid.audit.prune import Prune, PruneReport
from traingrid.aws.s3_delete import Deleter
from traingrid.errors import TraingridError
from traingrid.ledger.damage import intact
from traingrid.ledger.datasets import DatasetItem, Datasets, Replica
from traingrid.ledger.moves import MoveItem, Moves
from traingrid.ledger.timestamps import timestamp
from verification.model.table import ModelTable

COPY = move_item(
    state="copied",
    owner="array:0",
    job="0123abcd/0",
    objects=3,
    bytes=59,
    missing_bytes=59,
    copied_objects=3,
    copied_bytes=59,
)


@pytest.fixture
def s3(aws: None, monkeypatch: pytest.MonkeyPatch) -> Any:
    return two_buckets(monkeypatch)


@pytest.fixture
def moves(table: ModelTable, monkeypatch: pytest.MonkeyPatch) -> Moves:
    for module in ("moves", "datasets"):
        monkeypatch.setattr(f"traingrid.ledger.{module}.Table", lambda *_: table)
    found = Moves("x")
    found.add(COPY)
    return found


@pytest.fixture
def copied(s3: Any) -> Any:
    upload(s3, CONTENT)
    return _copy(s3)


def _copy(s3: Any) -> Any:
    both = folders()
    copy, before = folder_copy(both), both.survey()
    copy.start()
    while not copy.wait(1):
        pass
    copy.finish(before)
    return s3


def prune(moves: Moves, item: MoveItem = COPY, user: str = "", owner: str = "prune-1") -> PruneReport:
    deleter = Deleter(TARGET_REGION)
    return Prune(
        item=item,
        moves=moves,
        datasets=Datasets("x"),
        folders=folders(),
        deleter=deleter,
        user_now=lambda: user,
        owner=owner,
    ).run()


def present(moves: Moves) -> MoveItem:
    found = moves.find(str(TARGET))
    assert found is not None
    return found


def test_all_objects_of_a_copy_are_deleted_and_its_transfer_stays_recorded(copied: Any, moves: Moves) -> None:
    report = prune(moves)
    assert (report.result, report.objects, report.bytes, report.kept) == ("pruned", 3, 59, 0)
    assert (stored(copied), stored(copied, SOURCE)) == ({}, CONTENT)
    found = present(moves)
    assert (found.state, found.copied_bytes, found.transferred) == ("pruned", 0, {"0123abcd/0": 59})


def test_objects_that_are_not_part_of_the_copy_are_kept_and_named(copied: Any, moves: Moves) -> None:
    others = {"notes.txt": b"mine", "train/a": b"FIRST", "zzz/": b""}
    upload(copied, others, TARGET)
    report = prune(moves)
    assert (report.result, report.objects, report.kept, sorted(report.named)) == (
        "pruned",
        2,
        2,
        ["notes.txt", "train/a"],
    )
    assert stored(copied) == others


def test_an_index_of_records_that_a_user_has_written_is_kept_and_named(copied: Any, moves: Moves) -> None:
    upload(copied, {"train/_records.json": b"{}"})
    upload(copied, {"train/_records.json": b"own"}, TARGET)
    report = prune(moves)
    assert (report.result, report.objects, report.named) == ("pruned", 3, ["train/_records.json"])
    assert stored(copied) == {"train/_records.json": b"own"}


def test_objects_that_the_source_no_longer_has_are_kept(copied: Any, moves: Moves) -> None:
    for name in CONTENT:
        copied.delete_object(Bucket=SOURCE.bucket, Key=f"{SOURCE.key}/{name}")
    report = prune(moves)
    assert (report.result, report.objects, report.kept) == ("kept", 0, 3)
    assert (stored(copied), present(moves).state, present(moves).owner) == (CONTENT, "copied", "array:0")


def test_objects_that_existed_before_the_copy_are_kept(copied: Any, moves: Moves) -> None:
    item = replace(COPY, existed=1, began_at=timestamp(time.time() + 60))
    report = prune(moves, item)
    assert (report.result, report.kept, stored(copied)) == ("kept", 3, CONTENT)
    began = replace(present(moves), began_at=timestamp(time.time() - 60))
    assert prune(moves, began).objects == 3


def test_a_marker_that_existed_before_the_copy_keeps_the_whole_folder(copied: Any, moves: Moves) -> None:
    upload(copied, {"dataset.json": b"{}"})
    upload(copied, {"dataset.json": b"{}"}, TARGET)
    report = prune(moves, replace(COPY, existed=3, began_at=timestamp(time.time() + 60)))
    assert (report.result, report.named) == ("kept", ["dataset.json"])
    assert stored(copied) == {**CONTENT, "dataset.json": b"{}"}


def test_an_object_that_changes_after_it_was_listed_is_kept(
    copied: Any, moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    original = Deleter.delete

    def delete(self: Deleter, uri: Any, etag: str) -> Any:
        if uri.key.endswith("train/a"):
            upload(copied, {"train/a": b"other"}, TARGET)
        return original(self, uri, etag)

    monkeypatch.setattr(Deleter, "delete", delete)
    report = prune(moves)
    assert (report.objects, report.named) == (2, ["train/a"])
    assert stored(copied) == {"train/a": b"other"}


def test_copies_without_equal_etags_are_compared_by_their_checksums(s3: Any, moves: Moves) -> None:
    s3.put_object(Bucket=SOURCE.bucket, Key=f"{SOURCE.key}/a", Body=b"0123456789" * 5, ChecksumAlgorithm="CRC32")
    _copy(s3)
    listed = {key: entry["ETag"] for key, entry in (("s", _listed(s3, SOURCE)), ("t", _listed(s3, TARGET)))}
    assert listed["s"] != listed["t"], "the copy was written in parts"
    assert prune(moves).objects == 1


def _listed(s3: Any, folder: Any) -> Any:
    (entry,) = s3.list_objects_v2(Bucket=folder.bucket, Prefix=f"{folder.key}/")["Contents"]
    return entry


def test_a_copy_that_a_job_needs_now_is_kept_as_it_was(copied: Any, moves: Moves) -> None:
    report = prune(moves, user="job 1 of 0123abcd")
    assert (report.result, report.user) == ("needed", "job 1 of 0123abcd")
    assert stored(copied) == CONTENT
    assert replace(present(moves), revision=1, updated_at="") == COPY


def test_a_copy_that_changed_after_it_was_listed_is_kept(copied: Any, moves: Moves) -> None:
    moves.change(COPY, replace(COPY, state="copying", owner="other"))
    assert prune(moves).result == "changed"
    assert stored(copied) == CONTENT
    assert present(moves).owner == "other"


def test_a_removal_that_another_command_has_taken_over_stops(
    copied: Any, moves: Moves, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(prune_module, "_AT_ONCE", 1)
    original = Deleter.delete
    taken: list[MoveItem | None] = []

    def delete(self: Deleter, uri: Any, etag: str) -> Any:
        if not taken:
            taken.append(moves.change(present(moves), replace(present(moves), owner="prune-2")))
        return original(self, uri, etag)

    monkeypatch.setattr(Deleter, "delete", delete)
    with pytest.raises(TraingridError, match="Another command has taken over"):
        prune(moves)
    assert len(stored(copied)) == 2
    assert prune(moves, present(moves), owner="prune-3").objects == 2
    assert present(moves).state == "pruned"


def test_a_removal_that_has_begun_ends_although_a_job_waits_for_it(copied: Any, moves: Moves) -> None:
    begun = moves.change(COPY, replace(COPY, state="pruning", owner="prune-0"))
    assert begun is not None
    assert prune(moves, begun, user="job 1 of 0123abcd").result == "pruned"
    assert stored(copied) == {}


def test_previous_versions_in_a_versioned_bucket_are_reported(copied: Any, moves: Moves) -> None:
    assert not prune(moves).versioned
    copied.put_bucket_versioning(Bucket=TARGET.bucket, VersioningConfiguration={"Status": "Enabled"})
    _copy(copied)
    report = prune(moves, present(moves))
    assert (report.objects, report.versioned) == (3, True)
    assert len(copied.list_object_versions(Bucket=TARGET.bucket)["Versions"]) == 3


def test_a_registered_copy_is_no_replica_afterwards(copied: Any, moves: Moves) -> None:
    upload(copied, {"dataset.json": b"{}"})
    _copy(copied)
    replicas = {
        SOURCE_REGION: Replica(uri=str(SOURCE), registered_at="2026-11-20T00:00:00Z"),
        TARGET_REGION: Replica(uri=str(TARGET), registered_at="2026-11-20T00:00:00Z"),
    }
    facts: dict[str, Any] = {"dataset": "day1", "bytes": 59, "objects": 3, "attributes": {}, "rules": {}}
    datasets = Datasets("x")
    datasets.add(DatasetItem(version="1", replicas=replicas, **facts))
    elsewhere = {TARGET_REGION: Replica(uri="s3://other/day1", registered_at="2026-11-20T00:00:00Z")}
    datasets.add(DatasetItem(version="2", replicas=elsewhere, **facts))
    only_source = {SOURCE_REGION: replicas[SOURCE_REGION]}
    datasets.add(DatasetItem(version="3", replicas=only_source, **facts))
    assert prune(moves).objects == 3
    remaining = [dict(item.replicas) for item in intact(datasets.all())]
    assert remaining == [only_source, elsewhere, only_source]
    assert stored(copied) == {}


def test_a_folder_with_another_marker_is_kept(copied: Any, moves: Moves) -> None:
    upload(copied, {"dataset.json": b"{}"}, TARGET)
    report = prune(moves)
    assert (report.result, report.named) == ("kept", ["dataset.json"])
    assert stored(copied) == {**CONTENT, "dataset.json": b"{}"}
