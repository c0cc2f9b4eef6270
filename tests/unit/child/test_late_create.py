"""Late creations: a child whose line has ended or gone on during the creation leaves no training job."""

import pytest

from tests.support.ledger_items import job_key
from tests.support.recorded_log import RecordedLog
from tests.support.supervised_job import NAME, known, supervisor
from tests.support.training_jobs import COMPLETED, TRAINING, FakeBackend, FakeTime
from traingrid.backends.base import LaunchError
from traingrid.child.supervisor import LetGoError
from traingrid.job.failures import INVALID_REQUEST
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.late_request import SEND_WITHIN_SECONDS, raise_if_late
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.ledger import Ledger

FAILED: AttemptFacts = {"region": "us-east-1", "state": JobState.FAILED}
REFUSED = LaunchError(INVALID_REQUEST, "ValidationException: no such role.")


def retried(ledger: Ledger) -> None:
    """Fail the line, and let a user retry it with another array."""
    assert ledger.record_job(job_key(), {"state": JobState.FAILED})
    assert ledger.next_attempt(job_key(), FAILED, "us-east-1", reopen="again", array_file="other")


def failed(ledger: Ledger) -> None:
    assert ledger.record_job(job_key(), {"state": JobState.FAILED})


@pytest.mark.parametrize("goes_on", [retried, failed])
@pytest.mark.parametrize("loses_reply", [False, True])
def test_a_late_training_job_is_stopped_by_its_child(
    job: Job, ledger: Ledger, goes_on: object, loses_reply: bool, log: RecordedLog
) -> None:
    backend = FakeBackend(TRAINING)
    backend.loses_reply = loses_reply
    backend.on_create = lambda: goes_on(ledger)  # type: ignore[operator]  # one of the functions above
    item = supervisor(job, backend, ledger, array_file="mine").run()
    assert (backend.created, backend.stopped) == ([NAME], [NAME])
    assert not item.open_requests
    assert any("its attempt is over" in line for line in log.messages)


def test_a_request_that_may_still_arrive_stays_open(job: Job, ledger: Ledger) -> None:
    class Holding(FakeBackend):
        def start(self, name: str, job: Job, tags: dict[str, str]) -> None:
            failed(ledger)
            raise LaunchError(INVALID_REQUEST, "no answer", unresolved=True)

    item = supervisor(job, Holding(TRAINING), ledger).run()
    assert (item.state, len(item.open_requests)) == ("Failed", 1)


@pytest.mark.parametrize("refusals", [[], [REFUSED]])
def test_an_answer_closes_the_request(job: Job, ledger: Ledger, refusals: list[LaunchError]) -> None:
    backend = FakeBackend(TRAINING, COMPLETED)
    backend.refusals = refusals
    item = supervisor(job, backend, ledger).run()
    assert (item.requested_at > "", item.open_requests) == (True, frozenset())


def test_a_child_that_did_not_run_for_minutes_claims_again_before_it_creates(job: Job, ledger: Ledger) -> None:
    time, claims = FakeTime(), list[bool]()

    class Slow(FakeBackend):
        def start(self, name: str, job: Job, tags: dict[str, str]) -> object:  # type: ignore[override]  # as below
            claims.append(bool(known(ledger).open_requests))
            time.seconds += 0.0 if claims[1:] else SEND_WITHIN_SECONDS + 1
            raise_if_late()
            return super().start(name, job, tags)

    backend = Slow(TRAINING, COMPLETED)
    assert supervisor(job, backend, ledger, time=time).run().state == "Completed"
    assert (claims, backend.created) == ([True, True], [NAME])


def test_a_child_that_did_not_run_while_its_line_was_retried_creates_nothing(job: Job, ledger: Ledger) -> None:
    time = FakeTime()

    class Frozen(FakeBackend):
        def start(self, name: str, job: Job, tags: dict[str, str]) -> None:
            retried(ledger)
            time.seconds += SEND_WITHIN_SECONDS + 1
            raise_if_late()

    backend = Frozen(TRAINING)
    item = supervisor(job, backend, ledger, time=time, array_file="mine").run()
    assert (item.attempt, item.state, backend.created, backend.stopped) == (2, "Pending", [], [])


def test_sigterm_right_after_a_late_create_stops_the_training_job(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(TRAINING)

    def killed() -> None:
        backend.created.append(NAME)
        retried(ledger)
        raise LetGoError

    backend.on_create = killed
    child = supervisor(job, backend, ledger, array_file="mine")
    with pytest.raises(LetGoError):
        child.run()
    assert not child.let_go(), "the next try of the child finds the end"
    assert backend.stopped == [NAME]
