"""Pausing: a paused grid launches nothing, but still watches training jobs that were launched before."""

from typing import Any

import pytest

from tests.support.damage import PAUSED, rows
from tests.support.recorded_log import RecordedLog
from tests.support.rows import each_row
from tests.support.supervised_job import NAME, known, supervisor
from tests.support.training_jobs import COMPLETED, TRAINING, FakeBackend, FakeTime
from traingrid.child.supervisor import LetGoError
from traingrid.job.job import Job
from traingrid.ledger.grid_items import GRID, LAUNCHING
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.user_requests import CANCEL_ALL
from verification.model.table import ModelTable


@pytest.fixture
def paused(ledger: Ledger) -> Ledger:
    ledger.set_launching({"by": "Ada", "reason": "the bill"}, allowed=False)
    return ledger


def test_a_paused_grid_launches_nothing_until_it_is_resumed(job: Job, paused: Ledger, log: RecordedLog) -> None:
    backend, time = FakeBackend(COMPLETED), FakeTime()
    seen_meanwhile = []

    def meanwhile() -> None:
        assert any("paused" in line for line in log.messages), "the log states the reason before the first wait"
        seen_meanwhile.append((known(paused), list(backend.created)))
        if len(seen_meanwhile) == 30:
            paused.set_launching({"by": "Ada"}, allowed=True)

    time.on_sleep = meanwhile
    item = supervisor(job, backend, paused, time=time).run()
    assert all(created == [] for _, created in seen_meanwhile[:30])
    (state,) = {item.state for item, _ in seen_meanwhile[:30]}
    (reason,) = {item.reason for item, _ in seen_meanwhile[:30]}
    assert state == "Waiting"
    assert reason.startswith("Launching has been paused since 2")
    assert reason.endswith("by Ada: the bill")
    assert len([line for line in log.messages if "paused" in line]) == 1
    assert (item.state, item.reason, backend.created) == ("Completed", "", [NAME])
    assert max(time.naps) <= 60


@each_row("damage", [row for row in rows(PAUSED, {"allowed", "at"}) if row[1][1]])
def test_a_pause_that_cannot_be_read_is_in_force_until_it_is_written_again(
    job: Job, ledger: Ledger, table: ModelTable, log: RecordedLog, damage: tuple[dict[str, Any], bool]
) -> None:
    table.items.clear()
    table.put({"submission": GRID, "item": LAUNCHING, **damage[0]})
    backend, time = FakeBackend(COMPLETED), FakeTime()
    reasons = list[str]()

    def resume_later() -> None:
        reasons.append(known(ledger).reason)
        if len(reasons) == 3:
            ledger.set_launching({"by": "Ada"}, allowed=True)

    time.on_sleep = resume_later
    item = supervisor(job, backend, ledger, time=time).run()
    assert all("item 'launching'" in reason and "traingrid resume" in reason for reason in reasons[:3])
    assert any("item 'launching'" in line for line in log.messages)
    assert (item.state, backend.created) == ("Completed", [NAME])


def test_a_pause_does_not_stop_the_watch_of_running_jobs(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()

    def let_go() -> None:
        raise LetGoError

    time.on_sleep = let_go
    with pytest.raises(LetGoError):
        supervisor(job, backend, ledger, time=time).run()
    ledger.set_launching({"by": "Ada", "reason": "the bill"}, allowed=False)
    backend.script = [TRAINING, COMPLETED]
    assert supervisor(job, backend, ledger).run().state == "Completed"
    assert backend.created == [NAME]


def test_a_job_that_waits_during_a_pause_can_be_cancelled(job: Job, paused: Ledger) -> None:
    backend, time = FakeBackend(COMPLETED), FakeTime()
    time.on_sleep = lambda: paused.request_cancel("0123abcd", CANCEL_ALL, {"by": "Ada"})
    item = supervisor(job, backend, paused, time=time).run()
    assert (item.state, backend.created) == ("Stopped", [])


def test_an_unanswered_creation_is_found_after_a_pause(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING, COMPLETED), FakeTime()
    backend.loses_reply = True
    naps = iter(range(100))

    def meanwhile() -> None:
        match next(naps):
            case 0:
                backend.loses_reply = False
                ledger.set_launching({"by": "Ada", "reason": "the bill"}, allowed=False)
            case 5:
                ledger.set_launching({"by": "Ada"}, allowed=True)

    time.on_sleep = meanwhile
    assert supervisor(job, backend, ledger, time=time).run().state == "Completed"
    assert backend.created == [NAME]


def test_the_pause_item_is_not_a_submission(paused: Ledger) -> None:
    assert list(paused.everything()) == []
    assert list(paused.submissions()) == []
    pause = paused.pause()
    assert pause is not None
    assert (pause.by, pause.reason) == ("Ada", "the bill")
    paused.set_launching({"by": "Ada"}, allowed=True)
    assert paused.pause() is None
