"""Supervised cancels: a cancel ends a job in every state of its child, and despite dead processes."""

import pytest

from tests.support.ledger_items import job_key
from tests.support.supervised_job import NAME, QUOTA_IS_USED_UP, known, supervisor
from tests.support.training_jobs import COMPLETED, NO_CAPACITY, TRAINING, FakeBackend, FakeTime
from traingrid.backoff import VISIBLE_WITHIN
from traingrid.child.main import exit_code
from traingrid.child.supervisor import LetGoError
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.user_requests import CANCEL_ALL


def assert_that(holds: bool) -> None:
    assert holds


def test_sigterm_after_a_cancel_stops_the_training_job_once(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    child_supervisor = supervisor(job, backend, ledger, time=time)

    def cancel_and_terminate() -> None:
        ledger.request_cancel("0123abcd", CANCEL_ALL, {})
        raise LetGoError

    time.on_sleep = cancel_and_terminate
    with pytest.raises(LetGoError):
        child_supervisor.run()
    assert child_supervisor.let_go()
    assert backend.stopped == [NAME]
    assert known(ledger).state == "Stopping"


def test_a_cancelled_job_is_never_created(job: Job, ledger: Ledger) -> None:
    ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    backend, time = FakeBackend(TRAINING), FakeTime()
    item = supervisor(job, backend, ledger, time=time).run()
    assert (item.state, exit_code(item), backend.created) == ("Stopped", 143, [])
    assert time.seconds == 0


def test_a_cancel_of_another_region_or_job_has_no_effect(job: Job, ledger: Ledger) -> None:
    ledger.request_cancel("0123abcd", "region#eu-west-1", {})
    ledger.request_cancel("0123abcd", "job#00001", {})
    assert supervisor(job, FakeBackend(COMPLETED), ledger).run().state == "Completed"


@pytest.mark.parametrize("unseen", [0, 3])
def test_a_job_created_during_a_cancel_is_stopped_at_once(job: Job, ledger: Ledger, unseen: int) -> None:
    backend = FakeBackend(TRAINING)
    backend.unseen = unseen
    backend.on_create = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    item = supervisor(job, backend, ledger).run()
    assert (backend.created, backend.stopped) == ([NAME], [NAME])
    assert (item.state, exit_code(item)) == ("Stopped", 143)


@pytest.mark.parametrize("unseen", [0, 3])
def test_a_cancelled_job_of_a_dead_child_is_stopped(job: Job, ledger: Ledger, unseen: int) -> None:
    backend = FakeBackend(TRAINING)

    def killed() -> None:
        backend.created.append(NAME)
        raise LetGoError

    backend.on_create = killed
    with pytest.raises(LetGoError):
        supervisor(job, backend, ledger).run()
    backend.unseen = unseen
    ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    item = supervisor(job, backend, ledger).run()
    assert (item.state, backend.stopped) == ("Stopped", [NAME])


def test_a_cancelled_job_with_an_unknown_creation_is_stopped_in_time(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    backend.loses_reply = True
    backend.on_create = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    backend.unseen = 1000
    item = supervisor(job, backend, ledger, time=time).run()
    assert item.state == "Stopped"
    assert VISIBLE_WITHIN <= time.seconds <= VISIBLE_WITHIN + 10


def test_a_job_created_after_its_attempts_end_is_stopped(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(TRAINING)
    backend.on_create = lambda: assert_that(ledger.record_job(job_key(), {"state": JobState.FAILED}))
    item = supervisor(job, backend, ledger).run()
    assert (item.state, backend.stopped) == ("Failed", [NAME])


def test_a_cancelled_waiting_job_ends_at_its_next_try(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    backend.refusals = [QUOTA_IS_USED_UP] * 1000
    time.on_sleep = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    item = supervisor(job, backend, ledger, time=time).run()
    assert (item.state, backend.created, len(time.naps)) == ("Stopped", [], 1)


def test_a_job_that_completes_despite_a_cancel_is_completed(job: Job, ledger: Ledger) -> None:
    class TooLateToStop(FakeBackend):
        def stop(self, name: str, _reason: str = "cancel") -> None:
            self.stopped.append(name)

    backend, time = TooLateToStop(TRAINING, COMPLETED), FakeTime()
    time.on_sleep = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    assert supervisor(job, backend, ledger, time=time).run().state == "Completed"
    assert backend.stopped == [NAME]


def test_a_training_job_without_capacity_is_not_retried_after_a_cancel(roaming: Job, ledger: Ledger) -> None:
    here = FakeBackend(TRAINING)

    def cancelled() -> None:
        ledger.request_cancel("0123abcd", CANCEL_ALL, {})
        here.script = [NO_CAPACITY]

    here.on_create = cancelled
    item = supervisor(roaming, {"us-east-1": here}, ledger).run()
    assert (item.state, item.failure, item.attempt) == ("Failed", "capacity", 1)
