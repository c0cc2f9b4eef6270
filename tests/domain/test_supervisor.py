"""A job is launched once, followed to its end and recorded, also when its supervisor is run again."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.domain.deployments import SAMPLE
from tests.domain.training import COMPLETED, NO_CAPACITY, TRAINING, FakeBackend, FakeTime
from traingrid.backends.base import LaunchError, LogPosition, LogUnreadableError, Seen
from traingrid.deployment import Deployment
from traingrid.failures import CONFLICT, INVALID_REQUEST, QUOTA, SERVICE_ERROR, THROTTLED
from traingrid.job import Job, Replica
from traingrid.ledger import CANCEL_ALL, Item, Ledger
from traingrid.manifest import parse
from traingrid.orchestrator import exit_code
from traingrid.recording import record_seen
from traingrid.submission import jobs_of_lines
from traingrid.supervisor import LetGoError, Supervisor
from traingrid.waits import VISIBLE_WITHIN, backoff_seconds, describe_seconds, look_seconds

NAME = "traingrid-0123abcd-0-1"
QUOTA_IS_USED_UP = LaunchError(QUOTA, "ResourceLimitExceeded: the limit of ml.p4d.24xlarge is 2 Instances.")


class Dying(FakeBackend):
    """A service whose caller is told to end at its n-th call of anything, once."""

    def __init__(self, *script: Seen, lines: tuple[str, ...] = (), dies_at: int) -> None:
        super().__init__(*script, lines=lines)
        self.calls_left = dies_at

    def call(self) -> None:
        self.calls_left -= 1
        if self.calls_left == 0:
            raise LetGoError

    def start(self, name: str, job: Job, tags: dict[str, str]) -> Seen | None:
        self.call()
        seen = super().start(name, job, tags)
        self.call()
        return seen

    def log_lines(self, name: str, position: LogPosition) -> Iterator[tuple[str, str]]:
        self.call()
        return super().log_lines(name, position)


class DyingLedger:
    """A ledger that counts as a call before and after everything."""

    def __init__(self, ledger: Ledger, backend: Dying) -> None:
        self.ledger, self.backend = ledger, backend

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any, **options: Any) -> Any:
            self.backend.call()
            answer = getattr(self.ledger, name)(*arguments, **options)
            self.backend.call()
            return answer

        return called


@pytest.fixture
def job(deployment: Deployment) -> Job:
    return jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")[0]


@pytest.fixture
def roaming(job: Job) -> Job:
    """The job with its data in two more Regions."""
    there = Replica(inputs=job.inputs, output=job.output, image=job.image)
    return job.model_copy(update={"replicas": {"eu-west-1": there, "us-west-2": there}, "retries": 0})


def supervisor(
    job: Job,
    backend: Any,
    ledger: Any,
    said: list[str] | None = None,
    time: FakeTime | None = None,
    **more: Any,
) -> Supervisor:
    lines = [] if said is None else said
    return Supervisor(
        grid="traingrid",
        submission="0123abcd",
        job=job,
        backend_in=lambda region: backend[region] if isinstance(backend, dict) else backend,
        ledger=ledger,
        say=lines.append,
        batch_child="array:0",
        clock=(time or FakeTime()).clock,
        **more,
    )


def assert_that(holds: bool) -> None:
    assert holds


def known(ledger: Ledger) -> Item:
    item = ledger.job("0123abcd", 0)
    assert item is not None
    return item


def test_a_job_is_launched_followed_and_recorded(job: Job, ledger: Ledger) -> None:
    said: list[str] = []
    backend = FakeBackend(TRAINING, COMPLETED, lines=("hello", "epoch=1 train_loss=0.5 images_per_second=80.0"))
    item = supervisor(job, backend, ledger, said).run()
    assert backend.created == [NAME]
    assert item["state"] == "Completed"
    assert item["training_job"] == NAME
    assert item["batch_child"] == "array:0"
    assert item["artifact"] == "s3://out/model.tar.gz"
    assert item["metrics"] == {"validation_top1": 0.97}
    assert item["progress"] == {"epoch": 1, "train_loss": 0.5, "images_per_second": 80}
    assert [line for line in said if "epoch=1" in line] == ["epoch=1 train_loss=0.5 images_per_second=80.0"]


def test_the_reason_of_a_failure_is_in_the_ledger_and_what_to_do_is_said(job: Job, ledger: Ledger) -> None:
    failed = Seen(state="Failed", phase="Failed", reason="AlgorithmError: rank 1 died")
    said: list[str] = []
    item = supervisor(job, FakeBackend(TRAINING, failed), ledger, said).run()
    assert (item["state"], item["reason"]) == ("Failed", "AlgorithmError: rank 1 died")
    assert (item["failure"], exit_code(item)) == ("algorithm", 1)
    assert "traingrid logs" in said[-1]


def test_a_supervisor_that_is_told_to_end_lets_go_and_the_next_one_attaches(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    ends = iter([None, None, LetGoError()])

    def told() -> None:
        if error := next(ends):
            raise error

    time.on_sleep = told
    first = supervisor(job, backend, ledger, time=time)
    with pytest.raises(LetGoError):
        first.run()
    assert not first.let_go()
    assert backend.stopped == []
    backend.script = [TRAINING, COMPLETED]
    assert supervisor(job, backend, ledger).run()["state"] == "Completed"
    assert backend.created == [NAME]


def test_a_supervisor_that_is_told_to_end_after_a_cancel_stops_the_training_job_once(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    told = supervisor(job, backend, ledger, time=time)

    def cancel_and_terminate() -> None:
        ledger.request_cancel("0123abcd", CANCEL_ALL, {})
        raise LetGoError

    time.on_sleep = cancel_and_terminate
    with pytest.raises(LetGoError):
        told.run()
    assert told.let_go()
    assert backend.stopped == [NAME]
    assert known(ledger)["state"] == "Stopping"


@pytest.mark.parametrize("dies_at", range(1, 30))
def test_a_supervisor_that_is_killed_at_any_call_and_run_again_comes_to_the_same_end(
    job: Job, ledger: Ledger, dies_at: int
) -> None:
    backend = Dying(TRAINING, TRAINING, COMPLETED, lines=("epoch=1 train_loss=0.5",), dies_at=dies_at)
    with pytest.raises(LetGoError):
        supervisor(job, backend, DyingLedger(ledger, backend)).run()
    item = supervisor(job, backend, ledger).run()
    assert (item["state"], item["training_job"], item["artifact"]) == ("Completed", NAME, COMPLETED.artifact)
    assert item["progress"] == {"epoch": 1, "train_loss": 0.5}
    assert backend.created == [NAME]


@pytest.mark.parametrize("dies_at", range(1, 40))
def test_a_supervisor_that_is_killed_while_it_moves_to_another_region_moves_once(
    roaming: Job, ledger: Ledger, dies_at: int
) -> None:
    here, there = Dying(NO_CAPACITY, dies_at=dies_at), FakeBackend(COMPLETED)
    backends = {"us-east-1": here, "eu-west-1": there}
    with pytest.raises(LetGoError):
        supervisor(roaming, backends, DyingLedger(ledger, here)).run()
    item = supervisor(roaming, backends, ledger).run()
    assert (here.created, there.created) == ([NAME], ["traingrid-0123abcd-0-2"])
    assert (item["state"], item["attempt"], item["region"]) == ("Completed", 2, "eu-west-1")
    assert [former["region"] for former in item["tried"]] == ["us-east-1"]


def test_without_capacity_every_region_that_has_the_data_is_tried_once(roaming: Job, ledger: Ledger) -> None:
    backends = {region: FakeBackend(NO_CAPACITY) for region in roaming.regions}
    time, said = FakeTime(), list[str]()
    item = supervisor(roaming, backends, ledger, said, time).run()
    assert [backend.created for backend in backends.values()] == [[f"traingrid-0123abcd-0-{n}"] for n in (1, 2, 3)]
    assert [former["region"] for former in item["tried"]] == ["us-east-1", "eu-west-1"]
    assert {former["failure"] for former in item["tried"]} == {"capacity"}
    assert (item["state"], item["region"], item["failure"], exit_code(item)) == ("Failed", "us-west-2", "capacity", 1)
    assert any("Next in eu-west-1" in line for line in said)


def test_without_capacity_and_without_replicas_the_same_region_is_tried_as_often_as_the_line_says(
    job: Job, ledger: Ledger
) -> None:
    backend = FakeBackend(NO_CAPACITY)
    item = supervisor(job.model_copy(update={"retries": 3}), backend, ledger).run()
    assert backend.created == [f"traingrid-0123abcd-0-{n}" for n in (1, 2, 3, 4)]
    assert (item["state"], len(item["tried"])) == ("Failed", 3)


def test_a_job_that_an_older_version_opened_is_tried_again_where_it_is(
    job: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = ledger.open_job

    def without_regions(*arguments: Any) -> Item:
        item = opened(*arguments)
        ledger._table.put({name: value for name, value in item.items() if name != "regions"})
        return known(ledger)

    monkeypatch.setattr(ledger, "open_job", without_regions)
    backend = FakeBackend(NO_CAPACITY)
    item = supervisor(job.model_copy(update={"retries": 1}), backend, ledger).run()
    assert [former["region"] for former in item["tried"]] == ["us-east-1"]
    assert len(backend.created) == 2


def test_a_quota_is_waited_for_however_long_it_takes_and_seen_meanwhile(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(COMPLETED), FakeTime()
    backend.refusals = [QUOTA_IS_USED_UP] * 40
    seen_meanwhile = []
    time.on_sleep = lambda: seen_meanwhile.append(known(ledger))
    item = supervisor(job, backend, ledger, time=time).run()
    assert {(item["state"], item["reason"], item["attempt"]) for item in seen_meanwhile[:40]} == {
        ("Waiting", QUOTA_IS_USED_UP.what, 1)
    }
    assert (item["state"], item["reason"], item["failure"], item.get("tried")) == ("Completed", "", "", None)
    assert time.seconds > 3600


@pytest.mark.parametrize("failure", [THROTTLED, SERVICE_ERROR])
def test_what_passes_by_itself_is_waited_for_and_not_counted(job: Job, ledger: Ledger, failure: Any) -> None:
    backend = FakeBackend(COMPLETED)
    backend.refusals = [LaunchError(failure, "not now")] * 30
    item = supervisor(job.model_copy(update={"retries": 0}), backend, ledger).run()
    assert (item["state"], item["attempt"]) == ("Completed", 1)


def test_a_refused_launch_fails_the_job_and_says_why(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(TRAINING)
    backend.refusals = [LaunchError(INVALID_REQUEST, "ValidationException: no such role.")]
    item = supervisor(job, backend, ledger).run()
    assert (item["state"], item["reason"]) == ("Failed", "ValidationException: no such role.")
    assert exit_code(item) == 2


def test_a_strangers_training_job_of_our_name_fails_the_job_and_is_left_alone(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(TRAINING)
    backend.theirs = "somebody's"
    item = supervisor(job, backend, ledger).run()
    assert (item["state"], item["failure"], exit_code(item)) == ("Failed", CONFLICT.name, 1)
    ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    supervisor(job, backend, ledger).run()
    assert (backend.created, backend.stopped) == ([], [])


@pytest.mark.parametrize("loses_reply", [False, True])
@pytest.mark.parametrize("unseen", [0, 1, 7])
def test_a_training_job_that_is_not_visible_yet_is_not_created_again(
    job: Job, ledger: Ledger, unseen: int, loses_reply: bool
) -> None:
    backend = FakeBackend(TRAINING, COMPLETED)
    backend.unseen, backend.loses_reply = unseen, loses_reply
    item = supervisor(job, backend, ledger).run()
    assert backend.created == [NAME]
    assert (item["state"], item["attempt"]) == ("Completed", 1)


def test_a_cancelled_job_is_never_created(job: Job, ledger: Ledger) -> None:
    ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    backend, time = FakeBackend(TRAINING), FakeTime()
    item = supervisor(job, backend, ledger, time=time).run()
    assert (item["state"], exit_code(item), backend.created) == ("Stopped", 143, [])
    assert time.seconds == 0


def test_a_cancel_of_another_region_or_job_does_not_matter(job: Job, ledger: Ledger) -> None:
    ledger.request_cancel("0123abcd", "region#eu-west-1", {})
    ledger.request_cancel("0123abcd", "job#00001", {})
    assert supervisor(job, FakeBackend(COMPLETED), ledger).run()["state"] == "Completed"


@pytest.mark.parametrize("unseen", [0, 3])
def test_a_training_job_whose_creation_a_cancel_raced_is_stopped_right_after(
    job: Job, ledger: Ledger, unseen: int
) -> None:
    backend = FakeBackend(TRAINING)
    backend.unseen = unseen
    backend.on_create = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    item = supervisor(job, backend, ledger).run()
    assert (backend.created, backend.stopped) == ([NAME], [NAME])
    assert (item["state"], exit_code(item)) == ("Stopped", 143)


@pytest.mark.parametrize("unseen", [0, 3])
def test_a_cancelled_job_whose_former_child_died_while_it_created_it_is_stopped(
    job: Job, ledger: Ledger, unseen: int
) -> None:
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
    assert (item["state"], backend.stopped) == ("Stopped", [NAME])


def test_a_cancelled_job_that_may_have_been_created_and_was_not_is_stopped_in_time(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    backend.loses_reply = True
    backend.on_create = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    backend.unseen = 1000
    item = supervisor(job, backend, ledger, time=time).run()
    assert item["state"] == "Stopped"
    assert VISIBLE_WITHIN <= time.seconds <= VISIBLE_WITHIN + 10


def test_a_training_job_whose_attempt_was_ended_while_it_was_created_is_stopped(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(TRAINING)
    backend.on_create = lambda: assert_that(ledger.record_job("0123abcd", 0, 1, {"state": "Failed"}))
    item = supervisor(job, backend, ledger).run()
    assert (item["state"], backend.stopped) == ("Failed", [NAME])


def test_a_cancelled_waiting_job_ends_at_its_next_try(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    backend.refusals = [QUOTA_IS_USED_UP] * 1000
    time.on_sleep = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    item = supervisor(job, backend, ledger, time=time).run()
    assert (item["state"], backend.created, len(time.naps)) == ("Stopped", [], 1)


def test_a_training_job_that_completes_although_it_was_cancelled_has_completed(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING, COMPLETED), FakeTime()
    time.on_sleep = lambda: ledger.request_cancel("0123abcd", CANCEL_ALL, {})
    assert supervisor(job, backend, ledger, time=time).run()["state"] == "Completed"


def test_a_training_job_without_capacity_is_not_tried_again_after_a_cancel(roaming: Job, ledger: Ledger) -> None:
    here = FakeBackend(TRAINING)

    def cancelled() -> None:
        ledger.request_cancel("0123abcd", CANCEL_ALL, {})
        here.script = [NO_CAPACITY]

    here.on_create = cancelled
    item = supervisor(roaming, {"us-east-1": here}, ledger).run()
    assert (item["state"], item["failure"], item["attempt"]) == ("Failed", "capacity", 1)


def test_two_children_of_one_index_come_to_the_same_end_and_create_nothing_twice(roaming: Job, ledger: Ledger) -> None:
    here, there = FakeBackend(TRAINING, TRAINING, TRAINING, NO_CAPACITY), FakeBackend(TRAINING, TRAINING, COMPLETED)
    backends = {"us-east-1": here, "eu-west-1": there}
    time, ends = FakeTime(), list[Any]()
    other = supervisor(roaming, backends, ledger)

    def the_other_one_runs_meanwhile() -> None:
        if not ends:
            ends.append(None)
            ends[0] = other.run()["state"]

    time.on_sleep = the_other_one_runs_meanwhile
    item = supervisor(roaming, backends, ledger, time=time).run()
    assert (item["state"], ends, item["attempt"]) == ("Completed", ["Completed"], 2)
    assert (here.created, there.created) == ([NAME], ["traingrid-0123abcd-0-2"])


def test_what_events_have_brought_to_the_ledger_is_enough(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()

    def event() -> None:
        if time.seconds > 1000 and known(ledger)["state"] != "Completed":
            backend.script = [COMPLETED]
            assert record_seen("traingrid", ledger, backend, NAME)

    looks = 0
    describe = backend.describe

    def counted(name: str) -> Seen | None:
        nonlocal looks
        looks += 1
        return describe(name)

    time.on_sleep = event
    backend.describe = counted  # type: ignore[method-assign]
    item = supervisor(job, backend, ledger, time=time).run()
    assert (item["state"], item["artifact"]) == ("Completed", COMPLETED.artifact)
    assert looks < 30


def test_an_event_of_a_failure_that_is_tried_again_leaves_that_to_the_child_and_wakes_it(
    roaming: Job, ledger: Ledger
) -> None:
    here, there, time = FakeBackend(TRAINING), FakeBackend(COMPLETED), FakeTime()

    def event() -> None:
        if time.seconds > 3000 and known(ledger)["attempt"] == 1:
            here.script = [NO_CAPACITY]
            record_seen("traingrid", ledger, here, NAME)
            assert known(ledger)["state"] == "InProgress"

    time.on_sleep = event
    item = supervisor(roaming, {"us-east-1": here, "eu-west-1": there}, ledger, time=time).run()
    assert (item["state"], item["attempt"]) == ("Completed", 2)
    assert time.seconds < 3200


def test_an_event_of_a_failure_ends_a_job_that_nobody_watches(job: Job, ledger: Ledger) -> None:
    ledger.open_job("0123abcd", job)
    backend = FakeBackend(NO_CAPACITY)
    backend.created = [NAME]
    ledger.record_job("0123abcd", 0, 1, {"batch_child": "array:0"})
    assert record_seen("traingrid", ledger, backend, NAME)
    assert (known(ledger)["state"], known(ledger)["failure"]) == ("Pending", "capacity")
    assert record_seen("traingrid", ledger, backend, NAME, watched=False)
    assert (known(ledger)["state"], known(ledger)["failure"]) == ("Failed", "capacity")


def test_a_child_that_watches_until_it_runs_ends_then_and_events_do_the_rest(job: Job, ledger: Ledger) -> None:
    starting = replace(TRAINING, phase="Starting")
    backend = FakeBackend(starting, starting, TRAINING)
    item = supervisor(job, backend, ledger, until_started=True).run()
    assert (item["state"], item["batch_child"], exit_code(item)) == ("InProgress", "", 0)
    backend.script = [NO_CAPACITY]
    assert record_seen("traingrid", ledger, backend, NAME)
    assert known(ledger)["state"] == "Failed"


def test_a_job_that_ends_while_its_child_lets_go_of_it_is_not_lost(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(TRAINING, COMPLETED)
    assert supervisor(job, backend, ledger, until_started=True).run()["state"] == "Completed"


def test_progress_is_written_now_and_then_and_at_the_end(job: Job, ledger: Ledger) -> None:
    backend, time, written = FakeBackend(TRAINING), FakeTime(), []
    record = ledger.record_progress

    def counted(*arguments: Any) -> bool:
        written.append(time.seconds)
        return record(*arguments)

    def trains() -> None:
        backend.lines += (f"epoch={len(backend.lines)}",)
        if time.seconds > 120:
            backend.script = [COMPLETED]

    ledger.record_progress = counted  # type: ignore[assignment, method-assign]
    time.on_sleep = trains
    item = supervisor(job, backend, ledger, time=time).run()
    assert item["progress"]["epoch"] == len(backend.lines) - 1
    assert len(written) <= 120 / 15 + 2


def test_a_log_that_cannot_be_read_is_said_once_and_the_job_is_followed_to_its_end(job: Job, ledger: Ledger) -> None:
    said: list[str] = []
    trouble = LogUnreadableError("ThrottlingException", "The training job goes on.")
    backend = FakeBackend(TRAINING, TRAINING, TRAINING, COMPLETED)
    backend.log_trouble = trouble
    assert supervisor(job, backend, ledger, said).run()["state"] == "Completed"
    assert said.count(str(trouble)) == 1


@pytest.mark.parametrize("value", ["1e999", "-1e999", "1e200", "1e-200"])
def test_a_metric_that_dynamodb_cannot_hold_does_not_end_the_child(job: Job, ledger: Ledger, value: str) -> None:
    completed = replace(COMPLETED, metrics={"validation_top1": math.nan, "train_loss": math.inf, "epoch": 1.0})
    backend = FakeBackend(TRAINING, completed, lines=(f"epoch=1 train_loss={value}",))
    item = supervisor(job, backend, ledger).run()
    assert (item["state"], item["progress"], item["metrics"]) == ("Completed", {"epoch": 1}, {"epoch": 1})


def test_a_supervisor_that_runs_after_the_end_launches_nothing(job: Job, ledger: Ledger) -> None:
    supervisor(job, FakeBackend(COMPLETED), ledger).run()
    late = FakeBackend(TRAINING)
    assert supervisor(job, late, ledger).run()["state"] == "Completed"
    assert late.created == []


def test_log_lines_are_said_once_and_name_their_host_where_there_are_several(job: Job, ledger: Ledger) -> None:
    said: list[str] = []
    backend = FakeBackend(TRAINING, TRAINING, COMPLETED, lines=("one", "two"))
    supervisor(job.model_copy(update={"instance_count": 2}), backend, ledger, said).run()
    assert [line for line in said if line.startswith("[")] == ["[algo-1] one", "[algo-1] two"]


def test_an_event_records_what_the_service_says_and_not_what_the_event_says(job: Job, ledger: Ledger) -> None:
    ledger.open_job("0123abcd", job)
    completed, training = FakeBackend(COMPLETED), FakeBackend(TRAINING)
    completed.created = training.created = [NAME]
    assert record_seen("traingrid", ledger, completed, NAME)
    assert not record_seen("traingrid", ledger, training, NAME)
    assert (known(ledger)["state"], known(ledger)["training_job"]) == ("Completed", NAME)


@pytest.mark.parametrize("name", ["somebody-elses-job", "traingrid-canvas-0-1", "traingrid-0123abcd-00-1"])
def test_an_event_of_a_training_job_that_is_not_ours_is_left_alone(ledger: Ledger, name: str) -> None:
    backend = FakeBackend(COMPLETED)
    backend.created = [name]
    assert not record_seen("traingrid", ledger, backend, name)


def test_looks_are_frequent_at_first_and_rare_later_and_describes_rarer() -> None:
    assert [look_seconds(age) for age in (0, 600, 100_000)] == [1.0, 10.0, 60.0]
    assert [describe_seconds(age) for age in (0, 600, 100_000)] == [5.0, 150.0, 600.0]


def test_waits_double_up_to_a_cap_and_differ_by_chance() -> None:
    for tries in (1, 3, 10, 10_000):
        waits = {backoff_seconds(tries, 60.0) for _ in range(50)}
        assert all(min(2.0**tries if tries < 100 else 60, 60) / 2 <= wait <= 60 for wait in waits)
        assert len(waits) > 1
