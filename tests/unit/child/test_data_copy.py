"""Copies of a job's data by its child: nothing is launched before the copy is verified."""

import threading
import time as wall_time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.copies import (
    CONTENT,
    SOURCE,
    TARGET,
    Calls,
    KilledError,
    kills,
    move_item,
    stored,
    upload,
)
from tests.support.ledger_items import job_key
from tests.support.mover import Mover
from tests.support.recorded_log import RecordedLog
from tests.support.sample_deployment import sample_deployment
from tests.support.supervised_job import NAME, known, supervisor
from tests.support.training_jobs import COMPLETED, FakeBackend, FakeTime
from traingrid.child.data_copy import STALE_SECONDS, DataCopy, data_copy
from traingrid.child.supervisor import LetGoError
from traingrid.errors import UsageError
from traingrid.grid.model import GridSettings
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.moves import MoveItem, Moves
from traingrid.ledger.user_requests import CANCEL_ALL
from verification.model.table import ModelTable


def item(moves: Moves) -> MoveItem:
    found = moves.find(str(TARGET))
    assert found is not None
    return found


def other_child(moves: Moves, **changes: Any) -> MoveItem:
    """Record a copy by another child."""
    made = move_item(
        owner="other:1",
        job="fedc3210/1",
        objects=3,
        bytes=50,
        copied_bytes=20,
        **changes,
    )
    assert moves.add(made)
    return made


def test_the_data_is_copied_before_the_training_job_is_created(
    s3: Any, moves: Moves, moving: Job, ledger: Ledger, log: RecordedLog
) -> None:
    mover, backend = Mover(s3, moves), FakeBackend(COMPLETED)
    backend.on_create = lambda: mover.verified.append(stored(s3))
    assert supervisor(moving, backend, ledger, copy_data=mover).run().state == "Completed"
    assert mover.verified == [CONTENT, CONTENT]
    found = item(moves)
    assert (found.state, found.objects, found.copied_objects, found.percent) == ("copied", 3, 3, 100)
    assert (found.verified, found.job) == ({"checksum": 3}, "0123abcd/0")
    assert any("Verified: 3 objects by the checksum of the whole object" in line for line in log.messages)


def test_the_data_of_a_running_training_job_is_not_copied_again(ledger: Ledger, moving: Job) -> None:
    ledger.open_job("0123abcd", moving)
    ledger.record_job(job_key(), {"state": JobState.IN_PROGRESS, "phase": "Training", "training_job": NAME})
    backend = FakeBackend(COMPLETED)
    backend.created = [NAME]
    assert supervisor(moving, backend, ledger, copy_data=pytest.fail).run().state == "Completed"


def keep(s3: Any, contents: list[dict[str, bytes]]) -> None:
    contents.append(stored(s3))


def test_a_child_that_is_killed_at_any_call_never_trains_on_a_part_of_the_data(
    s3: Any, moves: Moves, moving: Job, ledger: Ledger, table: ModelTable
) -> None:
    counted = Calls()
    supervisor(moving, FakeBackend(COMPLETED), ledger, copy_data=Mover(s3, moves, counted)).run()
    for killed in kills(counted):
        table.items.clear()
        for name in stored(s3):
            s3.delete_object(Bucket=TARGET.bucket, Key=f"{TARGET.key}/{name}")
        backend = FakeBackend(COMPLETED)
        contents: list[dict[str, bytes]] = []
        backend.on_create = partial(keep, s3, contents)
        with pytest.raises(KilledError):
            supervisor(moving, backend, ledger, copy_data=Mover(s3, moves, killed)).run()
        assert backend.created == [], f"killed at call {killed.kill_at}"
        ended = supervisor(moving, backend, ledger, copy_data=Mover(s3, moves)).run()
        assert (ended.state, backend.created, contents) == ("Completed", [NAME], [CONTENT]), f"call {killed.kill_at}"
        assert item(moves).state == "copied"


def test_a_folder_that_was_copied_before_is_only_listed(s3: Any, moves: Moves, moving: Job, ledger: Ledger) -> None:
    supervisor(moving, FakeBackend(COMPLETED), ledger, copy_data=Mover(s3, moves)).run()
    again, second = Calls(), moving.model_copy(update={"index": 1})
    supervisor(second, FakeBackend(COMPLETED), ledger, copy_data=Mover(s3, moves, again)).run()
    assert set(again.made) == {"find", "page", "head"}
    assert again.made.count("head") == 1, "that of the marker"


def test_objects_that_the_target_had_before_the_copy_are_recorded(
    s3: Any, moves: Moves, moving: Job, ledger: Ledger
) -> None:
    upload(s3, {"train/a": CONTENT["train/a"]}, TARGET)
    for index in (0, 1):
        mover = Mover(s3, moves)
        upload(s3, {f"train/z{index}": b"12345"})  # the source grows, so that the second job copies, too
        supervisor(moving.model_copy(update={"index": index}), FakeBackend(COMPLETED), ledger, copy_data=mover).run()
    found = item(moves)
    assert (found.existed, found.is_written(0.0), found.began_at[:2]) == (1, False, "20")
    assert found.transferred == {"0123abcd/0": 59, "0123abcd/1": 5}


def test_a_copy_that_changed_since_is_not_trained_on(s3: Any, moves: Moves, moving: Job, ledger: Ledger) -> None:
    supervisor(moving, FakeBackend(COMPLETED), ledger, copy_data=Mover(s3, moves)).run()
    upload(s3, {"train/a": b"FIRST"}, TARGET)
    backend = FakeBackend(COMPLETED)
    ended = supervisor(moving.model_copy(update={"index": 1}), backend, ledger, copy_data=Mover(s3, moves)).run()
    assert (ended.state, ended.failure, backend.created) == ("Failed", "copy", [])
    assert "train/a is not a copy of the source's object" in ended.reason


def test_a_source_without_objects_fails_the_line(s3: Any, moves: Moves, moving: Job, ledger: Ledger) -> None:
    for name in stored(s3, SOURCE):
        s3.delete_object(Bucket=SOURCE.bucket, Key=f"{SOURCE.key}/{name}")
    backend = FakeBackend(COMPLETED)
    ended = supervisor(moving, backend, ledger, copy_data=Mover(s3, moves)).run()
    assert (ended.state, ended.failure, backend.created) == ("Failed", "copy", [])
    assert ended.reason.startswith(f"{SOURCE} has no objects to copy.")
    assert moves.find(str(TARGET)) is None


def test_a_child_waits_while_another_one_copies(s3: Any, moves: Moves, moving: Job, ledger: Ledger) -> None:
    theirs, time, reasons = other_child(moves), FakeTime(), []

    def meanwhile() -> None:
        nonlocal theirs
        reasons.append((known(ledger).state, known(ledger).reason))
        assert stored(s3) == {}
        if len(reasons) < 30:
            theirs = moves.change(theirs, theirs) or theirs
        else:
            time.on_sleep = lambda: None

    time.on_sleep = meanwhile
    backend = FakeBackend(COMPLETED)
    assert supervisor(moving, backend, ledger, time, copy_data=Mover(s3, moves)).run().state == "Completed"
    reason = f"Waits for the copy of {SOURCE} from us-east-1 by job fedc3210/1: 40 %"
    assert set(reasons) == {("Waiting", reason)}
    assert time.seconds >= 29 * 15 + STALE_SECONDS
    assert (item(moves).owner, stored(s3)) == ("array:0", CONTENT)


def test_a_child_waits_while_the_item_of_its_copy_cannot_be_read(
    s3: Any, moves: Moves, moving: Job, ledger: Ledger, table: ModelTable
) -> None:
    other_child(moves, state="pruned")
    key, time, reasons = ("moves", str(TARGET)), FakeTime(), list[str]()
    restored, table.items[key] = table.items[key], {**table.items[key], "bytes": -1}

    def restore_later() -> None:
        reasons.append(known(ledger).reason)
        assert stored(s3) == {}
        if len(reasons) == 3:
            table.items[key], time.on_sleep = restored, lambda: None

    time.on_sleep = restore_later
    mover = Mover(s3, moves)
    assert supervisor(moving, FakeBackend(COMPLETED), ledger, time, copy_data=mover).run().state == "Completed"
    assert (len(set(reasons)), stored(s3)) == (1, CONTENT)
    assert f"item '{TARGET}') has the field 'bytes' with -1" in reasons[0]


def test_a_child_that_waits_for_a_copy_can_be_cancelled(s3: Any, moves: Moves, moving: Job, ledger: Ledger) -> None:
    other_child(moves)
    time, backend = FakeTime(), FakeBackend(COMPLETED)
    time.on_sleep = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {"by": "Ada"})
    ended = supervisor(moving, backend, ledger, time, copy_data=Mover(s3, moves)).run()
    assert (ended.state, ended.failure, backend.created) == ("Stopped", "stopped_by_user", [])
    assert (item(moves).owner, stored(s3)) == ("other:1", {})


def test_a_copy_is_cancelled_and_shows_its_progress(
    s3: Any, moves: Moves, moving: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traingrid.child.data_copy.LOOK_SECONDS", 0.05)
    reasons: list[str] = []
    calls = Calls()

    def watch(name: str) -> None:
        if name == "copy_part":  # in the worker's thread, until the child has recorded the first object
            while not known(ledger).reason.endswith("8 %"):
                pass
            reasons.append(known(ledger).reason)
            ledger.request_cancel("0123abcd", CANCEL_ALL, {"by": "Ada"})

    calls.before_each = watch
    backend = FakeBackend(COMPLETED)
    ended = supervisor(moving, backend, ledger, copy_data=Mover(s3, moves, calls)).run()
    assert (ended.state, backend.created) == ("Stopped", [])
    assert reasons[0] == "Copies 59 bytes from us-east-1 before the training: 8 %"


def cancelled_in_a_copy(s3: Any, moves: Moves, moving: Job, ledger: Ledger, also: Callable[[], object]) -> None:
    """Cancel a child's job while a part is copied, after `also`."""
    calls, done = Calls(), threading.Event()

    def cancel(name: str) -> None:
        if name == "copy_part" and not done.is_set():  # in a worker's thread
            also()
            ledger.request_cancel("0123abcd", CANCEL_ALL, {"by": "Ada"})
            done.set()
            while known(ledger).state != "Stopped":
                wall_time.sleep(0.01)

    calls.before_each = cancel
    supervisor(moving, FakeBackend(COMPLETED), ledger, copy_data=Mover(s3, moves, calls)).run()
    assert done.is_set()


def test_another_line_continues_a_cancelled_copy_at_once(
    s3: Any, moves: Moves, moving: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traingrid.child.data_copy.LOOK_SECONDS", 0.05)
    cancelled_in_a_copy(s3, moves, moving, ledger, lambda: None)
    assert (item(moves).state, item(moves).owner) == ("copying", "")
    time, backend = FakeTime(), FakeBackend(COMPLETED)
    other = supervisor(moving, backend, ledger, time, copy_data=Mover(s3, moves))
    other.submission = "89abcdef"
    assert other.run().state == "Completed"
    assert time.seconds < STALE_SECONDS / 2
    assert (item(moves).state, stored(s3)) == ("copied", CONTENT)


def test_the_next_process_of_a_cancelled_child_releases_the_copy_that_a_killed_one_held(
    s3: Any, moves: Moves, moving: Job, ledger: Ledger
) -> None:
    present = other_child(moves)
    assert moves.change(present, replace(present, owner="array:0"))
    ledger.request_cancel("0123abcd", CANCEL_ALL, {"by": "Ada"})
    supervisor(moving, FakeBackend(COMPLETED), ledger, copy_data=Mover(s3, moves)).run()
    assert known(ledger).state == "Stopped"
    assert (item(moves).state, item(moves).owner) == ("copying", "")


def test_a_cancelled_child_does_not_release_the_copy_of_another_one(
    s3: Any, moves: Moves, moving: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traingrid.child.data_copy.LOOK_SECONDS", 0.05)

    def taken_over() -> None:
        while not moves.change(present := item(moves), replace(present, owner="other:1")):
            pass

    cancelled_in_a_copy(s3, moves, moving, ledger, taken_over)
    assert item(moves).owner == "other:1"


def test_a_refused_permission_fails_the_line(s3: Any, moves: Moves, moving: Job, ledger: Ledger) -> None:
    s3.delete_bucket(Bucket=TARGET.bucket)
    ended = supervisor(moving, FakeBackend(COMPLETED), ledger, copy_data=Mover(s3, moves)).run()
    assert (ended.state, ended.failure) == ("Failed", "copy")
    assert "NoSuchBucket" in ended.reason


def test_items_of_copies_are_no_part_of_the_ledgers_submissions(moves: Moves, moving: Job, ledger: Ledger) -> None:
    other_child(moves)
    ledger.open_job("0123abcd", moving)
    assert [type(found).__name__ for found in ledger.everything()] == ["JobItem"]
    assert list(ledger.submissions()) == []


def test_data_is_not_copied_out_of_the_residency_of_its_region(moving: Job) -> None:
    """The line may have been accepted before the residency was deployed."""
    made = sample_deployment()
    described = made.grid.model_dump(exclude_defaults=True) | {"moves": True}
    for region in ("us-east-1", "us-west-2"):
        described["regions"][region]["residency"] = ["us"]
    attempt: Any = SimpleNamespace(job=moving)
    with pytest.raises(UsageError, match="allows the data of us-east-1 only in us") as raised:
        data_copy(attempt, replace(made, grid=GridSettings.model_validate(described)))
    assert raised.value.next_step.startswith("Submit a line that trains in us-east-1, or change `residency`")


def test_a_child_that_receives_sigterm_releases_the_copy_of_a_cancelled_job(
    s3: Any, moves: Moves, moving: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    """LetGoError, which is raised again and again, may interrupt the release at the end of the copy."""

    def interrupted(*_: Any) -> None:
        raise LetGoError

    mover = Mover(s3, moves)
    child = supervisor(moving, FakeBackend(COMPLETED), ledger, copy_data=mover)
    child.release_copy = lambda: mover.last.release() if mover.last else None
    with monkeypatch.context() as patch:
        patch.setattr(DataCopy, "_follow", interrupted)
        patch.setattr(DataCopy, "release", interrupted)
        with pytest.raises(LetGoError):
            child.run()
    assert not child.let_go()
    assert item(moves).owner == "array:0", "the next process of the child continues the copy"
    ledger.request_cancel("0123abcd", CANCEL_ALL, {"by": "Ada"})
    assert child.let_go()
    assert item(moves).owner == ""
