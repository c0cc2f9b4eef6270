"""Damage: one item of the ledger that cannot be read is reported by its name, and every reader continues without it."""

import time
from collections.abc import Callable, Mapping
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from tests.support.damage import (
    AT,
    CANCELLED,
    COPIED,
    JOB,
    OF_ALL,
    OF_ONE,
    OTHER,
    PASSED,
    PAUSED,
    REGISTERED,
    REQUIRED,
    REQUIRED_OF_COPY,
    REQUIRED_OF_DATASET,
    REQUIRED_OF_SUBMISSION,
    SHORT,
    SUBMITTED,
    AllRun,
    Silent,
    audited,
    entries,
    in_use,
    listed,
    on_the_page,
    open_in_the_guard,
    reported,
    retried,
    rows,
    shown,
    swept,
)
from tests.support.local_page import SUBMISSION, LocalGrid
from tests.support.rows import each_row
from traingrid.audit import read_snapshot
from traingrid.cli.status import _print_warnings
from traingrid.errors import TraingridError
from traingrid.job.state import JobState
from traingrid.ledger import (
    datasets,
    field_types,
    grid_items,
    items,
    moves,
    rejections,
    shortages,
    submission_item,
    user_requests,
)
from traingrid.ledger.damage import Damaged
from traingrid.ledger.datasets import DatasetItem
from traingrid.ledger.errors import each
from traingrid.ledger.grid_items import GRID, HISTORY, LAUNCHING, HistoryScan, Pause
from traingrid.ledger.items import JobItem
from traingrid.ledger.job_states import INDEXED
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.moves import MoveItem
from traingrid.ledger.notices import Notice
from traingrid.ledger.open_marks import OpenMark
from traingrid.ledger.rejections import REJECTIONS, Rejection
from traingrid.ledger.shortages import SHORTAGES, CapacityPool, Shortage
from traingrid.ledger.submission_item import Array, SubmissionItem
from traingrid.ledger.timestamps import epoch_seconds, timestamp
from traingrid.ledger.user_requests import Cancel, cancel_of_job
from traingrid.metrics.history import MetricHistory
from traingrid.names import OPEN_SUBMISSIONS
from traingrid.submission import retry_plan
from traingrid.submission.batch_children import Children
from traingrid.ui.feed import Feed
from traingrid.ui.poller import Poller
from traingrid.ui.view import LedgerView

REJECTED = Rejection(
    manifest="s3://b/manifests/x.csv",
    version="v",
    at=timestamp(time.time() - 60),
    errors=1,
    reason="file: it is empty.",
    notice_rejected=Notice(occurrence=0, claimed_at=1),
)
REJECTION: dict[str, Any] = {name: REJECTED.stored()[name] for name in rejections._TYPES if name in REJECTED.stored()}
"""The stored fields of a rejection that are no key."""
OF_SUBMISSION = {"submission": SUBMISSION, **SUBMITTED}


@pytest.fixture
def local(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> LocalGrid:
    """A submission with a failed, a damaged and an unopened job, and another one with a job that trains."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(MetricHistory, "read", lambda *_: [])
    monkeypatch.setattr(retry_plan, "inventory_of", lambda *_: Silent())
    monkeypatch.setattr(read_snapshot, "inventory_of", lambda *_: Silent())
    monkeypatch.setattr(read_snapshot, "_batch_job_ids_by_name", lambda *_: {})
    monkeypatch.setattr(read_snapshot, "Children", lambda *_: AllRun())
    local = LocalGrid(ledger)
    jobs = local.submit(["one", "two", "three"])
    local.open(jobs[0], state=JobState.FAILED, failure="algorithm")
    local.open(jobs[1], state=JobState.FAILED, failure="algorithm")
    local.train(local.submit(["four"], OTHER)[0], OTHER)
    return local


@each_row("damage", rows(JOB, REQUIRED) + entries("tried", JOB, {"attempt", "region", "state"}))
def test_a_damaged_job_is_reported_and_all_others_are_read(
    local: LocalGrid, damage: tuple[dict[str, Any], bool]
) -> None:
    stored, is_damaged = damage
    changed = next((name for name in JOB if stored.get(name) != JOB[name]), "")
    local.ledger._table.put({"submission": SUBMISSION, "item": "job#00001", **stored})
    for name, reader in {**OF_ALL, **OF_ONE}.items():
        outcome = reader(local)
        if name == "overview" and changed not in INDEXED:
            continue  # it reads an index without this attribute
        assert is_damaged == any("job#00001" in text or text == f"'{SUBMISSION}'" for text in outcome.reported), name
        if name in ("audit", "page"):
            assert {(SUBMISSION, 0), (OTHER, 0)} <= outcome.intact, name
        if name in OF_ONE and name != "cancel":
            assert (SUBMISSION, 0) in outcome.intact, name
        if is_damaged and name not in ("cancel", "sweep"):
            assert (SUBMISSION, 1) not in outcome.intact, name


@each_row(
    "damage",
    [
        *rows(SUBMITTED, REQUIRED_OF_SUBMISSION),
        *entries("arrays", SUBMITTED, {"batch_job", "file", "count"}),
        *entries("notice_end", SUBMITTED, {"occurrence", "claimed_at"}),
    ],
)
def test_a_damaged_submission_is_reported_and_all_others_are_read(
    local: LocalGrid, damage: tuple[dict[str, Any], bool]
) -> None:
    stored, is_damaged = damage
    local.ledger._table.put({"submission": SUBMISSION, "item": "submission", **stored})
    for name, reader in {**OF_ALL, "list": listed}.items():
        outcome = reader(local)
        named = any("'submission')" in text or text == f"'{SUBMISSION}'" for text in outcome.reported)
        assert is_damaged == named, (name, outcome.reported)
        assert (OTHER, 0) in outcome.intact, name
    for name, reader in OF_ONE.items() if is_damaged else ():
        with pytest.raises(TraingridError, match="item 'submission'"):
            reader(local)
        assert name


@each_row(
    "damage",
    [
        ("without a time", {}),
        *((name, stored) for name, (stored, is_damaged) in rows(CANCELLED, {"at"}) if is_damaged),
    ],
)
def test_a_damaged_cancel_is_in_force_and_reported(local: LocalGrid, damage: dict[str, Any]) -> None:
    local.ledger._table.put({"submission": OTHER, "item": f"cancel#{cancel_of_job(0)}", **damage})
    assert list(local.ledger.cancels(OTHER)) == [cancel_of_job(0)]
    for reader in (swept, audited):
        assert any("cancel#job#00000" in text for text in reader(local).reported)


@each_row(
    "key",
    [(key, key) for key in ("job#x", "job#7", "job#50000", "job#99999999999", "job#\u0660\u0660\u0660\u0660\u0667")],
)
def test_an_item_whose_key_has_no_index_is_reported(local: LocalGrid, key: str) -> None:
    local.ledger._table.put({"submission": SUBMISSION, "item": key, **JOB})
    for reader in OF_ALL.values():
        assert any(key in text or text == f"'{SUBMISSION}'" for text in reader(local).reported)
    del local.ledger._table.items[SUBMISSION, key]  # type: ignore[attr-defined]  # a table in memory


@each_row(
    "damage", [*rows(PAUSED, {"allowed", "at"}), ("resumed, without its time", ({"allowed": True, "by": "Ada"}, True))]
)
def test_a_damaged_pause_is_in_force_and_reported(local: LocalGrid, damage: tuple[dict[str, Any], bool]) -> None:
    stored, is_damaged = damage
    local.ledger._table.put({"submission": GRID, "item": LAUNCHING, **stored})
    pause, out = local.ledger.pause(), Console(file=StringIO(), width=200)
    assert pause is not None
    assert is_damaged == ("'launching'" in pause.sentence)
    for reader in (swept, audited):
        assert is_damaged == any("'launching'" in text for text in reader(local).reported)
    _print_warnings(local.plane, out)
    assert pause.sentence in out.file.getvalue()  # type: ignore[attr-defined]  # the file above
    poller = Poller(local.plane, Feed())
    poller.read(everything=True)
    assert pause.sentence in [notice["text"] for notice in poller._notices()]
    local.ledger.set_launching({"by": "Ada"}, allowed=True)
    assert local.ledger.pause() is None


@each_row("damage", [*rows(PASSED, set()), *entries("after", PASSED, {"submission", "item"})])
def test_a_damaged_daily_pass_is_reported_once_and_begins_again(
    local: LocalGrid, damage: tuple[dict[str, Any], bool]
) -> None:
    stored, is_damaged = damage
    stored = stored if is_damaged else {name: value for name, value in stored.items() if name != "after"}
    for reader in (audited, on_the_page, swept):
        local.ledger._table.put({"submission": GRID, "item": HISTORY, **stored})
        assert is_damaged == any("'history'" in text for text in reader(local).reported)
    assert local.ledger.history_scan().completed_at > time.time() - 60
    for reader in (audited, on_the_page, swept):
        assert not any("'history'" in text for text in reader(local).reported)


def test_a_daily_pass_that_was_completed_in_the_future_begins_again(local: LocalGrid) -> None:
    local.ledger._table.put({"submission": GRID, "item": HISTORY, **PASSED, "after": {}, "completed_at": 4_000_000_000})
    assert swept(local).reported == []
    assert local.ledger.history_scan().completed_at < 4_000_000_000


@each_row("damage", rows(SHORT, {*SHORT}))
def test_a_damaged_shortage_is_reported_and_ignored(local: LocalGrid, damage: tuple[dict[str, Any], bool]) -> None:
    stored, is_damaged = damage
    pool = CapacityPool(region="us-east-1", instance_type="ml.m5.large", spot=True)
    local.ledger._table.put({"submission": SHORTAGES, "item": pool.key[1], **stored})
    assert swept(local).reported == []
    assert is_damaged == any(pool.key[1] in text for text in audited(local).reported)
    view = LedgerView(local.plane)
    assert is_damaged == (not view.shortages())
    assert is_damaged == any(pool.key[1] in part.place for part in view.damaged[SHORTAGES])
    _print_warnings(local.plane, Console(file=StringIO()))


@each_row("damage", rows(REJECTION, {*REJECTION} - {"batch_job", "notice_rejected"}))
def test_a_damaged_rejection_is_reported(local: LocalGrid, damage: tuple[dict[str, Any], bool]) -> None:
    stored, is_damaged = damage
    key = REJECTED.stored()["item"]
    local.ledger._table.put({"submission": REJECTIONS, "item": key, **stored})
    assert swept(local).reported == []
    assert is_damaged == any(key in text for text in audited(local).reported)
    view = LedgerView(local.plane)
    assert is_damaged == (not view.rejections())
    assert is_damaged == any(key in part.place for part in view.damaged[REJECTIONS])


@each_row(
    "damage",
    [
        *((f"copy {name}", (MoveItem.from_item, row)) for name, row in rows(COPIED, REQUIRED_OF_COPY)),
        *((f"copy {name}", (MoveItem.from_item, row)) for name, row in entries("earlier", COPIED, set())),
        *((f"dataset {name}", (DatasetItem.from_item, row)) for name, row in rows(REGISTERED, REQUIRED_OF_DATASET)),
    ],
)
def test_a_damaged_copy_or_dataset_is_an_error_that_names_it(
    damage: tuple[Callable[[Mapping[str, Any]], object], tuple[dict[str, Any], bool]],
) -> None:
    read, (stored, is_damaged) = damage
    parts = list(each(read, [{"submission": "moves", "item": "s3://b/copy", **stored}]))
    assert is_damaged == any(isinstance(part, Damaged) and "s3://b/copy" in part.place for part in parts)


@each_row(
    "kind",
    [
        ("job", (JobItem.from_item, {"submission": SUBMISSION, "item": "job#00001", **JOB}, items._JOB_TYPES)),
        ("submission", (SubmissionItem.from_item, {"item": "submission", **OF_SUBMISSION}, submission_item._TYPES)),
        (
            "cancel",
            (Cancel.from_item, {"submission": SUBMISSION, "item": "cancel#all", **CANCELLED}, user_requests._TYPES),
        ),
        ("pause", (Pause.from_item, {"submission": GRID, "item": LAUNCHING, **PAUSED}, grid_items._PAUSE_TYPES)),
        ("shortage", (Shortage.from_item, {"submission": SHORTAGES, "item": "a#b#spot", **SHORT}, shortages._TYPES)),
        ("rejection", (Rejection.from_item, {**REJECTED.stored()}, rejections._TYPES)),
        ("copy", (MoveItem.from_item, {"submission": "moves", "item": "s3://b/c", **COPIED}, moves._TYPES)),
    ],
)
def test_a_recorded_time_in_the_future_is_damage(
    kind: tuple[Callable[[Mapping[str, Any]], object], dict[str, Any], dict[str, Any]],
) -> None:
    read, complete, types = kind
    times = [
        name for name, of in types.items() if of in (field_types.TIME, field_types.TIME_OR_EMPTY, field_types.PAST)
    ]
    assert times
    for name in times:
        for seconds, is_damaged in ((600, False), (7200, True), (10**9, True)):
            moment = int(time.time()) + seconds
            value = moment if types[name] is field_types.PAST else timestamp(moment)
            (part,) = each(read, [{**complete, name: value}])
            assert is_damaged == isinstance(part, Damaged), (name, seconds)


@each_row(
    "repair",
    [
        ("shortage", (Shortage.from_item, {"submission": SHORTAGES, "item": "a#b#spot"}, "Delete the item")),
        ("key of a shortage", (Shortage.from_item, {"submission": SHORTAGES, "item": "a#b"}, "Delete the item")),
        ("cancel", (Cancel.from_item, {"submission": SUBMISSION, "item": "cancel#all"}, "`traingrid cancel`")),
        ("pause", (Pause.of, {"submission": GRID, "item": LAUNCHING}, "`traingrid pause`")),
        ("daily scan", (HistoryScan.of, {"submission": GRID, "item": HISTORY, "pages": "x"}, "The next pass")),
        ("mark", (OpenMark.of, {"submission": OPEN_SUBMISSIONS, "item": SUBMISSION}, "The next pass")),
        ("copy", (MoveItem.from_item, {"submission": "moves", "item": "s3://b/c"}, "Restore the item")),
        ("job", (JobItem.from_item, {"submission": SUBMISSION, "item": "job#00001"}, "Restore the item")),
    ],
)
def test_the_next_step_of_a_damaged_item_repairs_it(
    repair: tuple[Callable[[Mapping[str, Any]], Any], dict[str, Any], str],
) -> None:
    read, item, step = repair
    (part,) = each(read, [item])
    part = part if isinstance(part, Damaged) else part.damage
    assert step in part.next_step


def test_the_claim_of_a_notice_in_the_future_is_damage() -> None:
    notice = {"occurrence": 0, "claimed_at": int(time.time()) + 7200}
    (part,) = each(SubmissionItem.from_item, [{"item": "submission", **OF_SUBMISSION, "notice_end": notice}])
    assert isinstance(part, Damaged)


@each_row(
    "damage",
    [
        ("in the future", {"mark": "m", "at": "2099-01-01T00:00:00Z"}),
        ("no time", {"mark": "m", "at": "zzzz"}),
        ("another type", {"mark": "m", "at": 7}),
        ("without a mark", {"at": AT}),
        ("another mark", {"mark": 7, "at": AT}),
    ],
)
def test_a_damaged_mark_of_open_work_is_reported_and_expires(local: LocalGrid, damage: dict[str, Any]) -> None:
    local.ledger._table.put({"submission": OPEN_SUBMISSIONS, "item": SUBMISSION, **damage})
    named = f"(submission '{OPEN_SUBMISSIONS}', item '{SUBMISSION}')"
    assert any(named in text for text in audited(local).reported)
    assert any(named in text for text in swept(local).reported)
    assert not any(named in text for text in swept(local).reported)
    mark = local.ledger.open_marks()[SUBMISSION]
    assert mark.damage is None
    assert abs(epoch_seconds(mark.at) - time.time()) < 60
    assert local.ledger.settle(SUBMISSION, mark, {})


def test_the_rows_have_every_field_whose_type_is_checked() -> None:
    for complete, types in (
        (JOB, items._JOB_TYPES),
        (JOB["tried"][0], items._ATTEMPT_TYPES),
        (SUBMITTED, submission_item._TYPES),
        (SUBMITTED["arrays"][0], submission_item._ARRAY_TYPES),
        (PAUSED, grid_items._PAUSE_TYPES),
        (PASSED, grid_items._PASS_TYPES),
        (SHORT, shortages._TYPES),
        (REJECTION, rejections._TYPES),
        (COPIED, moves._TYPES),
        (REGISTERED, datasets._TYPES),
    ):
        assert types.keys() == complete.keys()


def test_a_missing_or_truncated_file_is_reported_by_each_reader(local: LocalGrid) -> None:
    uri = f"s3://{local.deployment.manifest_bucket}/submissions/{SUBMISSION}/jobs.jsonl"
    lines = local.storage.objects[uri].splitlines(keepends=True)
    contents = {
        "does not exist": None,
        "has 0 lines instead of 3": b"",
        "has 2 lines instead of 3": b"".join(lines[:2]),
    }
    contents["Line 3 of"] = b"".join(lines)[:-20]
    for problem, content in contents.items():
        local.storage.objects.pop(uri, None)
        if content is not None:
            local.storage.objects[uri] = content
        for name, reader in {"status": shown, "report": reported, "page": on_the_page, "prune": in_use}.items():
            assert any(uri in text for text in reader(local).reported), (problem, name)
        assert any("jobs.jsonl" in text for text in retried(local).reported), problem
        assert open_in_the_guard(local).reported == [f"'{SUBMISSION}'"], problem


def test_children_of_a_retry_whose_file_is_gone_are_those_of_the_first_array(local: LocalGrid) -> None:
    children = Children(local.plane.storage, local.deployment.manifest_bucket, make_client=lambda *_: None)
    array = Array(batch_job="again", file=f"submissions/{SUBMISSION}/retry-1.jsonl", count=1)
    local.ledger.record_array(SUBMISSION, array)
    head = local.ledger.submission(SUBMISSION)
    assert head is not None
    assert children.ids(head) == {index: f"batch-{SUBMISSION}:{index}" for index in range(3)}
