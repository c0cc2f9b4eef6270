"""Supervisor: a job is launched once, followed to its end and recorded, also if its supervisor restarts."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.ledger_items import existing, job_key
from tests.support.recorded_log import RecordedLog
from tests.support.supervised_job import NAME, QUOTA_IS_USED_UP, known, supervisor
from tests.support.training_jobs import COMPLETED, NO_CAPACITY, TRAINING, FakeBackend, FakeTime
from traingrid.aws.log_events import LogPosition
from traingrid.backends.base import LaunchError
from traingrid.backoff import VISIBLE_WITHIN
from traingrid.child.main import exit_code
from traingrid.child.supervisor import LetGoError
from traingrid.job.failures import CONFLICT, DELETED, INVALID_REQUEST, OTHER_REQUEST, SERVICE_ERROR, THROTTLED
from traingrid.job.job import Job
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.ownership import tags_of
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.items import JobItem
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.user_requests import CANCEL_ALL


class Dying(FakeBackend):
    """A service whose caller receives SIGTERM at the n-th call, once."""

    def __init__(self, *script: TrainingJobDescription, lines: tuple[str, ...] = (), dies_at: int) -> None:
        super().__init__(*script, lines=lines)
        self.calls_left = dies_at

    def call(self) -> None:
        self.calls_left -= 1
        if self.calls_left == 0:
            raise LetGoError

    def start(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        self.call()
        seen = super().start(name, job, tags)
        self.call()
        return seen

    def log_lines(self, name: str, position: LogPosition, **how: bool) -> Iterator[tuple[str, str]]:
        self.call()
        return super().log_lines(name, position, **how)


class DyingLedger:
    """A ledger that counts two calls for every operation: one before it and one after it."""

    def __init__(self, ledger: Ledger, backend: Dying) -> None:
        self.ledger, self.backend = ledger, backend

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any, **options: Any) -> Any:
            self.backend.call()
            answer = getattr(self.ledger, name)(*arguments, **options)
            self.backend.call()
            return answer

        return called


def test_a_job_is_launched_followed_and_recorded(job: Job, ledger: Ledger, log: RecordedLog) -> None:
    backend = FakeBackend(TRAINING, COMPLETED, lines=("hello", "epoch=1 train_loss=0.5 images_per_second=80.0"))
    item = supervisor(job, backend, ledger).run()
    assert backend.created == [NAME]
    assert item.state == "Completed"
    assert item.training_job == NAME
    assert item.batch_child == "array:0"
    assert item.artifact == "s3://out/model.tar.gz"
    assert item.metrics == {"validation_top1": 0.97}
    assert item.progress == {"epoch": 1, "train_loss": 0.5, "images_per_second": 80}
    assert [line for line in log.messages if "epoch=1" in line] == ["epoch=1 train_loss=0.5 images_per_second=80.0"]


def test_a_failures_reason_is_recorded_and_its_next_step_logged(job: Job, ledger: Ledger, log: RecordedLog) -> None:
    failed = TrainingJobDescription(state=JobState.FAILED, phase="Failed", reason="AlgorithmError: rank 1 died")
    item = supervisor(job, FakeBackend(TRAINING, failed), ledger).run()
    assert (item.state, item.reason) == ("Failed", "AlgorithmError: rank 1 died")
    assert (item.failure, exit_code(item)) == ("algorithm", 1)
    assert "traingrid logs" in log.messages[-1]


def test_after_sigterm_the_next_supervisor_attaches(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    ends = iter([None, None, LetGoError()])

    def terminate() -> None:
        if error := next(ends):
            raise error

    time.on_sleep = terminate
    first = supervisor(job, backend, ledger, time=time)
    with pytest.raises(LetGoError):
        first.run()
    assert not first.let_go()
    assert backend.stopped == []
    backend.script = [TRAINING, COMPLETED]
    assert supervisor(job, backend, ledger).run().state == "Completed"
    assert backend.created == [NAME]


@pytest.mark.parametrize("dies_at", range(1, 30))
def test_a_supervisor_killed_at_any_call_reaches_the_same_end(job: Job, ledger: Ledger, dies_at: int) -> None:
    backend = Dying(TRAINING, TRAINING, COMPLETED, lines=("epoch=1 train_loss=0.5",), dies_at=dies_at)
    with pytest.raises(LetGoError):
        supervisor(job, backend, DyingLedger(ledger, backend)).run()
    item = supervisor(job, backend, ledger).run()
    assert (item.state, item.training_job, item.artifact) == ("Completed", NAME, COMPLETED.artifact)
    assert item.progress == {"epoch": 1, "train_loss": 0.5}
    assert backend.created == [NAME]


@pytest.mark.parametrize("dies_at", range(1, 40))
def test_a_supervisor_killed_during_a_move_moves_once(roaming: Job, ledger: Ledger, dies_at: int) -> None:
    here, there = Dying(NO_CAPACITY, dies_at=dies_at), FakeBackend(COMPLETED)
    backends = {"us-east-1": here, "eu-west-1": there}
    with pytest.raises(LetGoError):
        supervisor(roaming, backends, DyingLedger(ledger, here)).run()
    item = supervisor(roaming, backends, ledger).run()
    assert (here.created, there.created) == ([NAME], ["traingrid-0123abcd-0-2"])
    assert (item.state, item.attempt, item.region) == ("Completed", 2, "eu-west-1")
    assert [previous.region for previous in item.tried] == ["us-east-1"]


def test_without_capacity_every_region_with_the_data_is_tried_once(
    roaming: Job, ledger: Ledger, log: RecordedLog
) -> None:
    backends = {region: FakeBackend(NO_CAPACITY) for region in roaming.regions}
    time = FakeTime()
    item = supervisor(roaming, backends, ledger, time).run()
    assert [backend.created for backend in backends.values()] == [[f"traingrid-0123abcd-0-{n}"] for n in (1, 2, 3)]
    assert [previous.region for previous in item.tried] == ["us-east-1", "eu-west-1"]
    assert {previous.failure for previous in item.tried} == {"capacity"}
    assert (item.state, item.region, item.failure, exit_code(item)) == ("Failed", "us-west-2", "capacity", 1)
    assert any("Next in eu-west-1" in line for line in log.messages)
    assert [(line["attempt"], line["region"]) for line in log.of("launching")] == [
        (number, region) for number, region in enumerate(roaming.regions, start=1)
    ]


def test_without_replicas_the_same_region_is_retried_as_configured(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(NO_CAPACITY)
    item = supervisor(job.model_copy(update={"retries": 3}), backend, ledger).run()
    assert backend.created == [f"traingrid-0123abcd-0-{n}" for n in (1, 2, 3, 4)]
    assert (item.state, len(item.tried)) == ("Failed", 3)


def test_a_job_of_an_older_version_is_retried_in_its_region(
    job: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = ledger.open_job

    def without_regions(*arguments: Any) -> JobItem:
        opened(*arguments)
        item = existing(ledger._table.get("0123abcd", "job#00000"))
        ledger._table.put({name: value for name, value in item.items() if name != "regions"})
        return known(ledger)

    monkeypatch.setattr(ledger, "open_job", without_regions)
    backend = FakeBackend(NO_CAPACITY)
    item = supervisor(job.model_copy(update={"retries": 1}), backend, ledger).run()
    assert [previous.region for previous in item.tried] == ["us-east-1"]
    assert len(backend.created) == 2


def test_a_quota_is_waited_for_without_a_limit_and_shown(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(COMPLETED), FakeTime()
    backend.refusals = [QUOTA_IS_USED_UP] * 40
    seen_meanwhile = []
    time.on_sleep = lambda: seen_meanwhile.append(known(ledger))
    item = supervisor(job, backend, ledger, time=time).run()
    assert {(item.state, item.reason, item.attempt) for item in seen_meanwhile[:40]} == {
        ("Waiting", QUOTA_IS_USED_UP.what, 1)
    }
    assert (item.state, item.reason, item.failure, item.tried) == ("Completed", "", "", ())
    assert time.seconds > 3600


@pytest.mark.parametrize("failure", [THROTTLED, SERVICE_ERROR])
def test_temporary_errors_are_waited_out_and_not_counted(job: Job, ledger: Ledger, failure: Any) -> None:
    backend = FakeBackend(COMPLETED)
    backend.refusals = [LaunchError(failure, "not now")] * 30
    item = supervisor(job.model_copy(update={"retries": 0}), backend, ledger).run()
    assert (item.state, item.attempt) == ("Completed", 1)


def test_a_refused_launch_fails_the_job_with_the_reason(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(TRAINING)
    backend.refusals = [LaunchError(INVALID_REQUEST, "ValidationException: no such role.")]
    item = supervisor(job, backend, ledger).run()
    assert (item.state, item.reason) == ("Failed", "ValidationException: no such role.")
    assert exit_code(item) == 2


def test_a_foreign_job_with_our_name_fails_the_job_and_is_not_stopped(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(TRAINING)
    backend.theirs = "somebody's"
    item = supervisor(job, backend, ledger).run()
    assert (item.state, item.failure, exit_code(item)) == ("Failed", CONFLICT.name, 1)
    ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    supervisor(job, backend, ledger).run()
    assert (backend.created, backend.stopped) == ([], [])


def test_our_job_with_another_request_fails_the_job_and_is_cancellable(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(TRAINING)
    backend.theirs, backend.their_tags = "other", tags_of("traingrid", "0123abcd", 0, "other")
    item = supervisor(job, backend, ledger).run()
    assert (item.state, item.failure, exit_code(item)) == ("Failed", OTHER_REQUEST.name, 1)
    assert "its fingerprint is other, and this job's is ours" in item.reason
    failed: AttemptFacts = {"region": job.region, "state": JobState.FAILED}
    ledger.next_attempt(job_key(), failed, job.region, reopen="again")
    ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    child = supervisor(job, backend, ledger)
    child._current = child._attempt(known(ledger))
    assert child.let_go()
    assert (backend.created, backend.stopped) == ([], ["traingrid-0123abcd-0-2"])


def test_recognising_a_job_only_by_its_tag_is_logged_once(job: Job, ledger: Ledger, log: RecordedLog) -> None:
    class Rewording(FakeBackend):
        def start(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
            return super().start(name, job, tags) or replace(TRAINING, identified_by_tag=True)

    assert supervisor(job, Rewording(TRAINING, TRAINING, COMPLETED), ledger).run().state == "Completed"
    assert len([line for line in log.messages if "its tag shows that it is ours" in line]) == 1


@pytest.mark.parametrize("loses_reply", [False, True])
@pytest.mark.parametrize("unseen", [0, 1, 7])
def test_a_training_job_that_is_not_visible_yet_is_not_created_again(
    job: Job, ledger: Ledger, unseen: int, loses_reply: bool
) -> None:
    backend = FakeBackend(TRAINING, COMPLETED)
    backend.unseen, backend.loses_reply = unseen, loses_reply
    item = supervisor(job, backend, ledger).run()
    assert backend.created == [NAME]
    assert (item.state, item.attempt) == ("Completed", 1)


def test_two_children_of_one_index_come_to_the_same_end_and_create_nothing_twice(roaming: Job, ledger: Ledger) -> None:
    here, there = FakeBackend(TRAINING, TRAINING, TRAINING, NO_CAPACITY), FakeBackend(TRAINING, TRAINING, COMPLETED)
    backends = {"us-east-1": here, "eu-west-1": there}
    time, ends = FakeTime(), list[Any]()
    other = supervisor(roaming, backends, ledger)

    def the_other_one_runs_meanwhile() -> None:
        if not ends:
            ends.append(None)
            ends[0] = other.run().state

    time.on_sleep = the_other_one_runs_meanwhile
    item = supervisor(roaming, backends, ledger, time=time).run()
    assert (item.state, ends, item.attempt) == ("Completed", ["Completed"], 2)
    assert (here.created, there.created) == ([NAME], ["traingrid-0123abcd-0-2"])


@pytest.mark.parametrize("is_first", [True, False])
def test_a_child_leaves_a_retried_line_to_the_new_array(
    job: Job, ledger: Ledger, log: RecordedLog, is_first: bool
) -> None:
    corrected = job.model_copy(update={"hyperparameters": {"epochs": "2"}})
    backend, time, ends = FakeBackend(TRAINING), FakeTime(), list[JobItem]()

    def the_new_child_runs() -> None:
        ends.append(supervisor(corrected, backend, ledger, array_file="retry-1").run())

    def failed_and_tried_again_while_the_old_child_sleeps() -> None:
        ledger.record_job(job_key(), {"state": JobState.FAILED, "failure": "algorithm"})
        failed: AttemptFacts = {"region": job.region, "state": JobState.FAILED, "failure": "algorithm"}
        assert ledger.next_attempt(job_key(), failed, job.region, reopen="again", array_file="retry-1")
        backend.script = [COMPLETED]
        if not is_first:
            the_new_child_runs()

    time.on_sleep = failed_and_tried_again_while_the_old_child_sleeps
    item = supervisor(job, backend, ledger, time, array_file="jobs").run()
    assert log.messages[-1] == "line 1 was submitted again as retry-1; the child of that array continues"
    assert exit_code(item, "jobs") == 0
    if is_first:
        the_new_child_runs()
    assert [end.state for end in ends] == ["Completed"]
    assert (backend.created, backend.jobs) == ([NAME, "traingrid-0123abcd-0-2"], [job, corrected])


def test_a_line_that_failed_in_another_array_does_not_fail_this_child(job: Job, ledger: Ledger) -> None:
    ledger.open_job("0123abcd", job, array_file="retry-1")
    ledger.record_job(job_key(), {"state": JobState.FAILED, "failure": "algorithm"})
    item = supervisor(job, FakeBackend(TRAINING), ledger, array_file="jobs").run()
    assert (exit_code(item, "jobs"), exit_code(item, "retry-1")) == (0, 1)


def test_two_children_of_one_array_continue_with_the_next_attempt(roaming: Job, ledger: Ledger) -> None:
    here, there = FakeBackend(NO_CAPACITY), FakeBackend(TRAINING, COMPLETED)
    backends, time = {"us-east-1": here, "eu-west-1": there}, FakeTime()
    other, ends = supervisor(roaming, backends, ledger, array_file="jobs"), list[JobItem]()
    time.on_sleep = lambda: None if ends else ends.append(other.run())
    item = supervisor(roaming, backends, ledger, time=time, array_file="jobs").run()
    assert ({end.state for end in (item, *ends)}, len(ends)) == ({"Completed"}, 1)
    assert there.created == ["traingrid-0123abcd-0-2"]


def let_go_of(job: Job, backend: FakeBackend, ledger: Ledger) -> None:
    """Run a child until it sleeps."""
    time = FakeTime()

    def terminate() -> None:
        raise LetGoError

    time.on_sleep = terminate
    with pytest.raises(LetGoError):
        supervisor(job, backend, ledger, time=time).run()


@pytest.mark.parametrize("seen_by", ["child", "event"])
def test_a_job_deleted_before_its_end_was_recorded_is_not_recreated(
    job: Job, ledger: Ledger, log: RecordedLog, seen_by: str
) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    if seen_by == "child":
        let_go_of(job, backend, ledger)
    else:
        ledger.open_job("0123abcd", job)
        ledger.record_job(job_key(), {"training_job": NAME, "training_job_arn": "arn:x", "phase": "Failed"})
    backend.created.clear()
    item = supervisor(job, backend, ledger, time).run()
    assert backend.created == []
    assert (item.state, item.failure, exit_code(item)) == ("Failed", DELETED.name, 1)
    assert VISIBLE_WITHIN <= time.seconds <= VISIBLE_WITHIN + 30
    assert (
        "The training job traingrid-0123abcd-0-1 no longer exists in SageMaker. The training job was deleted before"
        in log.messages[-1]
    )


def test_deleting_a_watched_job_ends_the_watch(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    time.on_sleep = lambda: backend.created.clear() if time.seconds > 600 else None
    item = supervisor(job, backend, ledger, time=time).run()
    assert (item.state, item.failure) == ("Failed", DELETED.name)
    assert time.seconds < 1200


@pytest.mark.parametrize("unseen", [1, 5])
def test_a_recorded_job_that_is_not_visible_yet_is_waited_for(job: Job, ledger: Ledger, unseen: int) -> None:
    backend = FakeBackend(TRAINING, COMPLETED)
    let_go_of(job, backend, ledger)
    backend.unseen = unseen
    assert supervisor(job, backend, ledger).run().state == "Completed"
    assert backend.created == [NAME]


def test_a_recorded_job_stays_recorded_during_an_outage(job: Job, ledger: Ledger) -> None:
    class Silent(FakeBackend):
        def attach(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
            if self.refusals:
                raise self.refusals.pop(0)
            return super().attach(name, job, tags)

    backend, time = Silent(TRAINING), FakeTime()
    let_go_of(job, backend, ledger)
    backend.created.clear()
    backend.refusals = [LaunchError(SERVICE_ERROR, "no answer", unresolved=True)]
    states = []
    time.on_sleep = lambda: states.append(known(ledger).state)
    item = supervisor(job, backend, ledger, time=time).run()
    assert (item.failure, backend.created, set(states)) == (DELETED.name, [], {"InProgress"})


def test_a_supervisor_that_runs_after_the_end_launches_nothing(job: Job, ledger: Ledger) -> None:
    supervisor(job, FakeBackend(COMPLETED), ledger).run()
    late = FakeBackend(TRAINING)
    assert supervisor(job, late, ledger).run().state == "Completed"
    assert late.created == []


def test_the_ledger_has_the_residency_of_the_launched_attempt(job: Job, ledger: Ledger) -> None:
    first = job.model_copy(update={"residency": ("us",)})
    assert supervisor(first, FakeBackend(TRAINING, COMPLETED), ledger).run().residency == ("us",)


def test_a_retry_without_a_residency_forgets_that_of_the_previous_attempt(job: Job, ledger: Ledger) -> None:
    ledger.open_job("0123abcd", job)
    ledger.record_job(job_key(), {"state": JobState.FAILED, "residency": ("us",)})
    failed: AttemptFacts = {"region": job.region, "state": JobState.FAILED}
    assert ledger.next_attempt(job_key(), failed, job.region, reopen="again")
    assert existing(ledger.job("0123abcd", 0)).residency == ()
