"""Failover: a job that waits too long for capacity moves to its next candidate, once, when nothing of it runs."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.ledger_items import job_key
from tests.support.recorded_log import RecordedLog
from tests.support.shortages import pool_of, recorded, short
from tests.support.supervised_job import NAME, known, supervisor
from tests.support.training_jobs import COMPLETED, FIRST_MOMENT, NO_CAPACITY, STOPPED, TRAINING, FakeBackend, FakeTime
from traingrid.child.main import exit_code
from traingrid.child.supervisor import LetGoError
from traingrid.job.candidates import Candidate
from traingrid.job.job import Job, JobReplica
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.record_outcome import record_seen
from traingrid.ledger.user_requests import CANCEL_ALL

EAST, WAIT = "us-east-1", 600
NEXT = "traingrid-0123abcd-0-2"
EKS, SAGEMAKER = Candidate(EAST, "eks"), Candidate(EAST, "sagemaker")
PENDING = TrainingJobDescription(
    state=JobState.IN_PROGRESS, phase="Pending", arn="arn:x", created_at=float(FIRST_MOMENT)
)


@pytest.fixture
def mixed(job: Job) -> Job:
    """A job that prefers EKS and may move to SageMaker."""
    more = {"backends": ("eks", "sagemaker"), "capacity_wait_seconds": WAIT, "retries": 0}
    return job.model_copy(update=more)


class Slow(FakeBackend):
    """A cluster without capacity, whose stopped training job ends only after some descriptions.

    Attributes:
        stopping: The number of descriptions in which it still stops.
    """

    def __init__(self, *script: TrainingJobDescription, stopping: int = 5) -> None:
        super().__init__(*(script or (PENDING,)))
        self.stopping = stopping

    def stop(self, name: str, reason: Any = "cancel", /) -> None:
        super().stop(name, reason)
        self.script = [*[replace(PENDING, state=JobState.STOPPING, phase="Stopping")] * self.stopping, STOPPED]


def test_a_job_without_capacity_moves_when_its_first_training_job_has_ended(
    mixed: Job, ledger: Ledger, log: RecordedLog
) -> None:
    first, second, time = Slow(), FakeBackend(TRAINING, COMPLETED), FakeTime()
    second.on_create = lambda: alive.append(first.script[0].state)
    alive: list[JobState] = []
    item = supervisor(mixed, {EKS: first, SAGEMAKER: second}, ledger, time).run()
    assert (first.created, second.created) == ([NAME], [NEXT])
    assert (first.stopped, first.stop_reasons) == ([NAME], ["capacity"])
    assert alive == ["Stopped"]
    assert (item.state, item.attempt, item.candidate, item.stopped_for) == ("Completed", 2, SAGEMAKER, "")
    (previous,) = item.tried
    assert (previous.candidate, previous.state, previous.failure) == (EKS, "Stopped", "capacity")
    assert previous.reason == f"No capacity on EKS in us-east-1 within {WAIT} s."
    assert time.seconds < WAIT + 120
    (line,) = log.of("next_attempt")
    assert (line["target"], line["failure"]) == (EAST, "capacity")
    assert any("Next on SageMaker in us-east-1" in message for message in log.messages)


def test_the_last_candidate_waits_without_limit(mixed: Job, ledger: Ledger) -> None:
    first, second, time = Slow(), FakeBackend(replace(PENDING, created_at=None)), FakeTime()

    def capacity_arrives() -> None:
        if time.seconds > 100 * WAIT:
            second.script = [COMPLETED]

    time.on_sleep = capacity_arrives
    item = supervisor(mixed, {EKS: first, SAGEMAKER: second}, ledger, time).run()
    assert (item.state, item.attempt, second.stopped) == ("Completed", 2, [])


def test_a_job_whose_capacity_arrives_in_time_stays(mixed: Job, ledger: Ledger) -> None:
    first, time = Slow(), FakeTime()

    def capacity_arrives() -> None:
        if time.seconds > WAIT / 2:
            first.script = [TRAINING] if time.seconds < 10 * WAIT else [COMPLETED]

    time.on_sleep = capacity_arrives
    item = supervisor(mixed, {EKS: first, SAGEMAKER: FakeBackend(COMPLETED)}, ledger, time).run()
    assert (item.state, item.attempt, first.stopped) == ("Completed", 1, [])


def test_a_job_that_a_queue_suspends_after_its_start_stays(mixed: Job, ledger: Ledger) -> None:
    began = replace(TRAINING, started_at=FIRST_MOMENT + 5.0)
    first, time = Slow(began, began), FakeTime()

    def preempted() -> None:
        if time.seconds > 100:
            first.script = [replace(PENDING, phase="Queued")] if time.seconds < 5 * WAIT else [COMPLETED]

    time.on_sleep = preempted
    item = supervisor(mixed, {EKS: first, SAGEMAKER: FakeBackend(COMPLETED)}, ledger, time).run()
    assert (item.state, item.attempt, first.stopped) == ("Completed", 1, [])


def test_a_training_job_on_sagemaker_that_stays_pending_moves_to_the_next_region(job: Job, ledger: Ledger) -> None:
    there = {"eu-west-1": JobReplica(inputs=job.inputs, output=job.output, image=job.image)}
    roaming = job.model_copy(update={"replicas": there, "capacity_wait_seconds": WAIT, "retries": 0})
    here, elsewhere = Slow(), FakeBackend(COMPLETED)
    item = supervisor(roaming, {EAST: here, "eu-west-1": elsewhere}, ledger).run()
    assert (here.stopped, elsewhere.created) == ([NAME], [NEXT])
    assert (item.state, item.region) == ("Completed", "eu-west-1")
    assert ledger.shortage(pool_of(job)) is not None, "other lines know that SageMaker has no capacity"


def test_a_restarted_child_counts_the_time_of_its_predecessor(mixed: Job, ledger: Ledger) -> None:
    first, time = Slow(), FakeTime()

    def sigterm() -> None:
        if time.seconds > WAIT - 60:
            raise LetGoError

    time.on_sleep = sigterm
    with pytest.raises(LetGoError):
        supervisor(mixed, {EKS: first}, ledger, time).run()
    time.on_sleep = lambda: None
    item = supervisor(mixed, {EKS: first, SAGEMAKER: FakeBackend(COMPLETED)}, ledger, time).run()
    assert (item.attempt, first.stopped) == (2, [NAME])
    assert time.seconds < WAIT + 120


class Dying:
    """A ledger and backends whose caller receives SIGTERM at the n-th call, once."""

    def __init__(self, dies_at: int) -> None:
        self.left = dies_at

    def around(self, target: Any) -> Any:
        return _Wrapped(target, self._call)

    def _call(self) -> None:
        self.left -= 1
        if self.left == 0:
            raise LetGoError


class _Wrapped:
    def __init__(self, target: Any, call: Callable[[], None]) -> None:
        self._target, self._call = target, call

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any, **options: Any) -> Any:
            self._call()
            answer = getattr(self._target, name)(*arguments, **options)
            self._call()
            return answer

        return called


@pytest.mark.parametrize("after", range(60))
def test_a_child_killed_at_any_call_of_a_move_moves_once(mixed: Job, ledger: Ledger, after: int) -> None:
    first, second, time = Slow(stopping=2), FakeBackend(COMPLETED), FakeTime(seconds=WAIT - 2.0)
    second.on_create = lambda: ended.append(first.script == [STOPPED])
    ended: list[bool] = []
    dying, backends = Dying(after + 1), {EKS: first, SAGEMAKER: second}
    wrapped = {place: dying.around(backend) for place, backend in backends.items()}
    try:
        supervisor(mixed, wrapped, dying.around(ledger), time).run()
    except LetGoError:
        supervisor(mixed, backends, ledger, time).run()
    item = known(ledger)
    assert (first.created, second.created) == ([NAME], [NEXT])
    assert (item.state, item.attempt, [previous.candidate for previous in item.tried]) == ("Completed", 2, [EKS])
    assert item.tried[0].failure == "capacity"
    assert ended == [True]


def test_a_cancel_during_the_wait_ends_the_job(mixed: Job, ledger: Ledger) -> None:
    first, second, time = Slow(), FakeBackend(COMPLETED), FakeTime()

    def cancel() -> None:
        if first.stopped:
            ledger.request_cancel("0123abcd", CANCEL_ALL, {"by": "Ada"})

    time.on_sleep = cancel
    item = supervisor(mixed, {EKS: first, SAGEMAKER: second}, ledger, time).run()
    assert (item.state, item.failure, item.attempt, second.created) == ("Stopped", "stopped_by_user", 1, [])
    assert exit_code(item) == 143


def test_a_cancel_of_a_job_whose_service_returns_the_reason_of_the_stop_ends_the_job(
    mixed: Job, ledger: Ledger
) -> None:
    class Explains(Slow):
        def stop(self, name: str, reason: Any = "cancel", /) -> None:
            super().stop(name, reason)
            self.script[-1] = replace(STOPPED, phase="CapacityWaitExceeded")
            ledger.request_cancel("0123abcd", CANCEL_ALL, {"by": "Ada"})

    item = supervisor(mixed, {EKS: Explains(), SAGEMAKER: FakeBackend(COMPLETED)}, ledger).run()
    assert (item.state, item.failure, item.attempt) == ("Stopped", "stopped_by_user", 1)


def test_an_event_of_the_stop_leaves_the_job_to_its_child(mixed: Job, ledger: Ledger) -> None:
    first, time = Slow(), FakeTime()

    def event() -> None:
        if first.stopped and known(ledger).attempt == 1:
            first.script = [STOPPED]
            assert record_seen("traingrid", ledger, first, NAME)
            assert known(ledger).state not in ("Stopped", "Failed")

    time.on_sleep = event
    item = supervisor(mixed, {EKS: first, SAGEMAKER: FakeBackend(COMPLETED)}, ledger, time).run()
    assert (item.state, item.attempt) == ("Completed", 2)


def test_the_end_of_a_stop_without_a_child_is_recorded_as_missing_capacity(mixed: Job, ledger: Ledger) -> None:
    ledger.open_job("0123abcd", mixed)
    ledger.record_job(job_key(), {"stopped_for": "capacity"})
    backend = FakeBackend(STOPPED)
    backend.created = [NAME]
    assert record_seen("traingrid", ledger, backend, NAME, watched=False)
    assert (known(ledger).state, known(ledger).failure) == ("Stopped", "capacity")


def test_training_that_completes_in_spite_of_the_stop_is_kept(mixed: Job, ledger: Ledger) -> None:
    class Quick(Slow):
        def stop(self, name: str, reason: Any = "cancel", /) -> None:
            super().stop(name, reason)
            self.script = [COMPLETED]

    item = supervisor(mixed, {EKS: Quick(), SAGEMAKER: FakeBackend(NO_CAPACITY)}, ledger).run()
    assert (item.state, item.attempt) == ("Completed", 1)


def test_a_child_that_watches_until_the_start_waits_for_capacity(mixed: Job, ledger: Ledger) -> None:
    first, second = Slow(), FakeBackend(TRAINING)
    item = supervisor(mixed, {EKS: first, SAGEMAKER: second}, ledger, until_started=True).run()
    assert (item.state, item.attempt, item.candidate) == ("InProgress", 2, SAGEMAKER)


def test_a_shortage_of_sagemaker_does_not_move_a_job_back_to_a_cluster_that_it_has_tried(
    mixed: Job, ledger: Ledger
) -> None:
    first, second, time = Slow(), FakeBackend(COMPLETED), FakeTime()
    recorded(ledger, short(pool_of(mixed), until=FIRST_MOMENT + 2 * WAIT))
    item = supervisor(mixed, {EKS: first, SAGEMAKER: second}, ledger, time).run()
    assert [previous.candidate for previous in item.tried] == [EKS]
    assert (item.state, first.created) == ("Completed", [NAME])


def test_a_known_shortage_of_sagemaker_moves_a_job_to_its_cluster_at_once(mixed: Job, ledger: Ledger) -> None:
    job = mixed.model_copy(update={"backends": ("sagemaker", "eks")})
    recorded(ledger, short(pool_of(job), until=FIRST_MOMENT + WAIT))
    here, cluster = FakeBackend(COMPLETED), FakeBackend(COMPLETED)
    item = supervisor(job, {SAGEMAKER: here, EKS: cluster}, ledger).run()
    assert (here.created, cluster.created) == ([], [NEXT])
    assert (item.state, item.candidate, item.tried[0].failure) == ("Completed", EKS, "shortage")
