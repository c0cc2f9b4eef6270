"""Supervised watching: a child follows events, logs and progress with few calls."""

import math
from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest

from tests.support.ledger_items import job_key
from tests.support.recorded_log import RecordedLog
from tests.support.supervised_job import NAME, known, supervisor
from tests.support.training_jobs import COMPLETED, NO_CAPACITY, TRAINING, FakeBackend, FakeTime
from traingrid.backends.base import LogUnreadableError
from traingrid.backoff import backoff_seconds, look_seconds
from traingrid.child.main import exit_code
from traingrid.child.polling_pace import PollingPace
from traingrid.job.job import Job
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.ownership import tags_of
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.record_outcome import record_seen


def test_states_from_events_are_sufficient(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()

    def event() -> None:
        if time.seconds > 1000 and known(ledger).state != "Completed":
            backend.script = [COMPLETED]
            assert record_seen("traingrid", ledger, backend, NAME)

    looks = 0
    describe = backend.describe

    def counted(name: str) -> TrainingJobDescription | None:
        nonlocal looks
        looks += 1
        return describe(name)

    time.on_sleep = event
    backend.describe = counted  # type: ignore[method-assign]  # replaced for the test
    item = supervisor(job, backend, ledger, time=time).run()
    assert (item.state, item.artifact) == ("Completed", COMPLETED.artifact)
    assert looks < 30


def test_an_event_of_a_retried_failure_notifies_the_child(roaming: Job, ledger: Ledger) -> None:
    here, there, time = FakeBackend(TRAINING), FakeBackend(COMPLETED), FakeTime()

    def event() -> None:
        if time.seconds > 3000 and known(ledger).attempt == 1:
            here.script = [NO_CAPACITY]
            record_seen("traingrid", ledger, here, NAME)
            assert known(ledger).state == "InProgress"

    time.on_sleep = event
    item = supervisor(roaming, {"us-east-1": here, "eu-west-1": there}, ledger, time=time).run()
    assert (item.state, item.attempt) == ("Completed", 2)
    assert time.seconds < 3200


def test_an_event_of_a_failure_ends_an_unwatched_job(job: Job, ledger: Ledger) -> None:
    ledger.open_job("0123abcd", job)
    backend = FakeBackend(NO_CAPACITY)
    backend.created = [NAME]
    ledger.record_job(job_key(), {"batch_child": "array:0"})
    assert record_seen("traingrid", ledger, backend, NAME)
    assert (known(ledger).state, known(ledger).failure) == ("Pending", "capacity")
    assert record_seen("traingrid", ledger, backend, NAME, watched=False)
    assert (known(ledger).state, known(ledger).failure) == ("Failed", "capacity")


def test_a_child_with_until_started_ends_when_the_job_runs(job: Job, ledger: Ledger) -> None:
    starting = replace(TRAINING, phase="Starting")
    backend = FakeBackend(starting, starting, TRAINING)
    item = supervisor(job, backend, ledger, until_started=True).run()
    assert (item.state, item.batch_child, exit_code(item)) == ("InProgress", "", 0)
    backend.script = [NO_CAPACITY]
    assert record_seen("traingrid", ledger, backend, NAME)
    assert known(ledger).state == "Failed"


def test_a_job_that_ends_during_the_hand_over_is_not_lost(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(TRAINING, COMPLETED)
    assert supervisor(job, backend, ledger, until_started=True).run().state == "Completed"


def test_progress_is_written_at_intervals_and_at_the_end(job: Job, ledger: Ledger) -> None:
    backend, time, written = FakeBackend(TRAINING), FakeTime(), []
    record = ledger.record_progress

    def counted(*arguments: Any) -> bool:
        written.append(time.seconds)
        return record(*arguments)

    def trains() -> None:
        backend.lines += (f"epoch={len(backend.lines)}",)
        if time.seconds > 120:
            backend.script = [COMPLETED]

    ledger.record_progress = counted  # type: ignore[assignment, method-assign]  # replaced for the test
    time.on_sleep = trains
    item = supervisor(job, backend, ledger, time=time).run()
    assert item.progress["epoch"] == len(backend.lines) - 1
    assert item.epoch_seconds == pytest.approx(time.seconds / len(backend.lines), rel=0.3)
    intervals = [later - earlier for earlier, later in pairwise(written[:-1])]  # the last one is written at the end
    assert len(intervals) >= 3
    assert min(intervals) >= 15


def test_an_unreadable_log_is_reported_once_and_the_watch_continues(job: Job, ledger: Ledger, log: RecordedLog) -> None:
    trouble = LogUnreadableError("ThrottlingException", "The training job continues.")
    backend = FakeBackend(TRAINING, TRAINING, TRAINING, COMPLETED)
    backend.log_trouble = trouble
    assert supervisor(job, backend, ledger).run().state == "Completed"
    assert log.messages.count(str(trouble)) == 1


def test_an_unexpected_error_of_a_log_does_not_end_the_child(job: Job, ledger: Ledger, log: RecordedLog) -> None:
    backend = FakeBackend(TRAINING, TRAINING, TRAINING, COMPLETED, lines=("one", "two"))
    backend.log_trouble = ValueError("Invalid isoformat string")
    item = supervisor(job, backend, ledger).run()
    assert (item.state, item.failure) == ("Completed", "")
    assert [line for line in log.messages if line in ("one", "two")] == ["one", "two"]
    reported = "The log cannot be read: ValueError('Invalid isoformat string'). The training job continues."
    assert log.messages.count(reported) == 1


@pytest.mark.parametrize("value", ["1e999", "-1e999", "1e200", "1e-200"])
def test_a_metric_that_dynamodb_cannot_hold_does_not_end_the_child(job: Job, ledger: Ledger, value: str) -> None:
    completed = replace(COMPLETED, metrics={"validation_top1": math.nan, "train_loss": math.inf, "epoch": 1.0})
    backend = FakeBackend(TRAINING, completed, lines=(f"epoch=1 train_loss={value}",))
    item = supervisor(job, backend, ledger).run()
    assert (item.state, item.progress, item.metrics) == ("Completed", {"epoch": 1}, {"epoch": 1})


def test_the_log_of_an_interrupted_training_job_is_listed_again_after_its_start(
    job: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()
    phases = {0: "Training", 60: "Interrupted", 120: "Starting", 180: "Training"}
    looks: list[tuple[float, str, bool]] = []

    def described(_name: str) -> TrainingJobDescription | None:
        phase = [phase for begin, phase in phases.items() if begin <= time.seconds][-1]
        return replace(TRAINING, phase=phase) if time.seconds < 300 else COMPLETED

    def read(_name: str, position: dict[str, str], **how: bool) -> Iterator[tuple[str, str]]:
        looks.append((time.seconds, known(ledger).phase, how.get("discover", True)))
        position["stream"] = "token"
        return iter(())

    monkeypatch.setattr(backend, "describe", described)
    monkeypatch.setattr(backend, "log_lines", read)
    item = supervisor(job, backend, ledger, time=time).run()
    assert (item.state, item.attempt) == ("Completed", 1)
    assert {phase for _, phase, _ in looks[:-1]} == {"Training"}
    assert [discover for at, _, discover in looks if at < 60].count(True) == 1
    assert all(discover for at, _, discover in looks if at >= 180)


def test_log_lines_are_printed_once_with_their_host_if_several(job: Job, ledger: Ledger, log: RecordedLog) -> None:
    backend = FakeBackend(TRAINING, TRAINING, COMPLETED, lines=("one", "two"))
    supervisor(job.model_copy(update={"instance_count": 2}), backend, ledger).run()
    assert [line for line in log.messages if line.startswith("[")] == ["[algo-1] one", "[algo-1] two"]


def test_an_event_records_the_state_of_the_service_not_of_the_event(job: Job, ledger: Ledger) -> None:
    ledger.open_job("0123abcd", job)
    completed, training = FakeBackend(COMPLETED), FakeBackend(TRAINING)
    completed.created = training.created = [NAME]
    assert record_seen("traingrid", ledger, completed, NAME)
    assert not record_seen("traingrid", ledger, training, NAME)
    assert (known(ledger).state, known(ledger).training_job) == ("Completed", NAME)


@pytest.mark.parametrize(
    ("tags", "recorded"),
    [
        (tags_of("traingrid", "0123abcd", 0, "asked for"), True),
        (tags_of("traingrid", "0123abcd", 0, "other"), False),
        (tags_of("traingrid", "0123abcd", 1, "asked for"), False),
        (tags_of("other", "0123abcd", 0, "asked for"), False),
        ({}, False),
        (None, False),
    ],
)
def test_an_event_of_a_job_in_another_form_is_recorded_by_its_tag(
    job: Job, ledger: Ledger, tags: dict[str, str] | None, recorded: bool
) -> None:
    ledger.open_job("0123abcd", job)
    ledger.record_job(job_key(), {"fingerprint": "asked for"})
    backend = FakeBackend(replace(COMPLETED, fingerprint="in other words"))
    backend.created, backend.their_tags = [NAME], tags
    assert record_seen("traingrid", ledger, backend, NAME) is recorded
    assert known(ledger).state == ("Completed" if recorded else "Pending")


@pytest.mark.parametrize("name", ["somebody-elses-job", "traingrid-canvas-0-1", "traingrid-0123abcd-00-1"])
def test_an_event_of_a_foreign_training_job_is_ignored(ledger: Ledger, name: str) -> None:
    backend = FakeBackend(COMPLETED)
    backend.created = [name]
    assert not record_seen("traingrid", ledger, backend, name)


def test_reads_become_rarer_with_age_and_describes_are_rarer() -> None:
    assert [look_seconds(age) for age in (0, 600, 100_000)] == [1.0, 10.0, 60.0]
    assert [PollingPace().describe_seconds(age) for age in (0, 600, 100_000)] == [5.0, 150.0, 600.0]


def test_waits_double_up_to_a_cap_with_jitter() -> None:
    for tries in (1, 3, 10, 10_000):
        waits = {backoff_seconds(tries, 60.0) for _ in range(50)}
        assert all(min(2.0**tries if tries < 100 else 60, 60) / 2 <= wait <= 60 for wait in waits)
        assert len(waits) > 1
