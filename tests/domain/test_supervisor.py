"""A job is launched once, followed to its end and recorded, also when its supervisor is run again."""

import math
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.domain.deployments import SAMPLE
from traingrid.backends.base import (
    LaunchRefusedError,
    LogPosition,
    LogUnreadableError,
    NameTakenError,
    Seen,
    TryAgainError,
)
from traingrid.deployment import Deployment
from traingrid.job import Job
from traingrid.ledger import Ledger
from traingrid.manifest import parse
from traingrid.recording import record_seen
from traingrid.submission import jobs_of_lines
from traingrid.supervisor import LetGoError, Supervisor, interval_seconds

NAME = "traingrid-0123abcd-0-1"
TRAINING = Seen(state="InProgress", phase="Training", arn="arn:x")
COMPLETED = Seen(
    state="Completed",
    phase="Completed",
    arn="arn:x",
    artifact="s3://out/model.tar.gz",
    metrics={"validation_top1": 0.97},
    training_seconds=12,
    billable_seconds=12,
)


class FakeBackend:
    """A service whose jobs follow a script, one step at each look."""

    def __init__(self, *script: Seen, lines: tuple[str, ...] = (), refusal: Exception | None = None) -> None:
        self.script = list(script)
        self.lines = lines
        self.refusal = refusal
        self.log_trouble: Exception | None = None
        self.created: list[str] = []

    def start(self, name: str, _job: Job, _tags: dict[str, str]) -> None:
        if self.refusal:
            raise self.refusal
        if name not in self.created:
            self.created.append(name)

    def describe(self, _name: str) -> Seen | None:
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def log_lines(self, _name: str, position: LogPosition) -> Iterator[tuple[str, str]]:
        start = int(position.get("stream", "0"))
        position["stream"] = str(len(self.lines))
        yield from (("algo-1", line) for line in self.lines[start:])
        if self.log_trouble:
            raise self.log_trouble


class Dying(FakeBackend):
    """A service whose caller is told to end at its n-th call of anything, once."""

    def __init__(self, *script: Seen, lines: tuple[str, ...] = (), dies_at: int) -> None:
        super().__init__(*script, lines=lines)
        self.calls_left = dies_at

    def call(self) -> None:
        self.calls_left -= 1
        if self.calls_left == 0:
            raise LetGoError

    def start(self, name: str, job: Job, tags: dict[str, str]) -> None:
        self.call()
        super().start(name, job, tags)
        self.call()

    def describe(self, name: str) -> Seen | None:
        self.call()
        return super().describe(name)

    def log_lines(self, name: str, position: LogPosition) -> Iterator[tuple[str, str]]:
        self.call()
        return super().log_lines(name, position)


class DyingLedger:
    """A ledger that counts as a call before and after every write."""

    def __init__(self, ledger: Ledger, backend: Dying) -> None:
        self.ledger, self.backend = ledger, backend

    def __getattr__(self, name: str) -> Any:
        def called(*arguments: Any) -> Any:
            self.backend.call()
            answer = getattr(self.ledger, name)(*arguments)
            self.backend.call()
            return answer

        return called


@pytest.fixture
def job(deployment: Deployment) -> Job:
    return jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")[0]


@pytest.fixture(autouse=True)
def _no_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("traingrid.supervisor.interval_seconds", lambda _age: 0.0)


def supervisor(job: Job, backend: Any, ledger: Ledger, said: list[str] | None = None) -> Supervisor:
    lines = [] if said is None else said
    return Supervisor(
        grid="traingrid", submission="0123abcd", job=job, backend=backend, ledger=ledger, say=lines.append
    )


def test_a_job_is_launched_followed_and_recorded(job: Job, ledger: Ledger) -> None:
    said: list[str] = []
    backend = FakeBackend(TRAINING, COMPLETED, lines=("hello", "epoch=1 train_loss=0.5 images_per_second=80.0"))
    item = supervisor(job, backend, ledger, said).run()
    assert backend.created == [NAME]
    assert item["state"] == "Completed"
    assert item["training_job"] == NAME
    assert item["artifact"] == "s3://out/model.tar.gz"
    assert item["metrics"] == {"validation_top1": 0.97}
    assert item["progress"] == {"epoch": 1, "train_loss": 0.5, "images_per_second": 80}
    assert [line for line in said if "epoch=1" in line] == ["epoch=1 train_loss=0.5 images_per_second=80.0"]


def test_the_reason_of_a_failure_is_in_the_ledger(job: Job, ledger: Ledger) -> None:
    failed = Seen(state="Failed", phase="Failed", reason="AlgorithmError: rank 1 died")
    item = supervisor(job, FakeBackend(TRAINING, failed), ledger).run()
    assert (item["state"], item["reason"]) == ("Failed", "AlgorithmError: rank 1 died")


def test_a_supervisor_that_is_told_to_end_lets_go_and_the_next_one_attaches(job: Job, ledger: Ledger) -> None:
    backend = Dying(TRAINING, dies_at=5)
    with pytest.raises(LetGoError):
        supervisor(job, backend, ledger).run()
    backend.script = [TRAINING, COMPLETED]
    assert supervisor(job, backend, ledger).run()["state"] == "Completed"
    assert backend.created == [NAME]


@pytest.mark.parametrize("dies_at", range(1, 19))
def test_a_supervisor_that_is_killed_at_any_call_and_run_again_comes_to_the_same_end(
    job: Job, ledger: Ledger, dies_at: int
) -> None:
    backend = Dying(TRAINING, TRAINING, COMPLETED, lines=("epoch=1 train_loss=0.5",), dies_at=dies_at)
    killed = supervisor(job, backend, ledger)
    killed.ledger = DyingLedger(ledger, backend)  # type: ignore[assignment]  # all that a supervisor calls of it
    with pytest.raises(LetGoError):
        killed.run()
    item = supervisor(job, backend, ledger).run()
    assert (item["state"], item["training_job"], item["artifact"]) == ("Completed", NAME, COMPLETED.artifact)
    assert item["progress"] == {"epoch": 1, "train_loss": 0.5}
    assert backend.created == [NAME]


def test_a_log_that_cannot_be_read_is_said_once_and_the_job_is_followed_to_its_end(job: Job, ledger: Ledger) -> None:
    said: list[str] = []
    trouble = LogUnreadableError("ThrottlingException", "The training job goes on.")
    backend = FakeBackend(TRAINING, TRAINING, TRAINING, COMPLETED)
    backend.log_trouble = trouble
    assert supervisor(job, backend, ledger, said).run()["state"] == "Completed"
    assert said.count(str(trouble)) == 1


def test_why_a_job_cannot_start_yet_is_in_the_ledger_until_it_starts(job: Job, ledger: Ledger) -> None:
    with pytest.raises(TryAgainError):
        supervisor(job, FakeBackend(TRAINING, refusal=TryAgainError("ResourceLimitExceeded")), ledger).run()
    item = ledger.job("0123abcd", 0)
    assert item is not None
    assert (item["state"], item["reason"]) == ("Pending", "ResourceLimitExceeded")
    item = supervisor(job, FakeBackend(TRAINING, COMPLETED), ledger).run()
    assert (item["state"], item["reason"]) == ("Completed", "")


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


@pytest.mark.parametrize("refusal", [LaunchRefusedError("no such role"), NameTakenError("a stranger's")])
def test_a_refused_launch_fails_the_job_and_says_why(job: Job, ledger: Ledger, refusal: Exception) -> None:
    with pytest.raises(type(refusal)):
        supervisor(job, FakeBackend(TRAINING, refusal=refusal), ledger).run()
    item = ledger.job("0123abcd", 0)
    assert item is not None
    assert (item["state"], item["reason"]) == ("Failed", str(refusal))


def test_log_lines_are_said_once_and_name_their_host_where_there_are_several(job: Job, ledger: Ledger) -> None:
    said: list[str] = []
    backend = FakeBackend(TRAINING, TRAINING, COMPLETED, lines=("one", "two"))
    supervisor(job.model_copy(update={"instance_count": 2}), backend, ledger, said).run()
    assert [line for line in said if line.startswith("[")] == ["[algo-1] one", "[algo-1] two"]


def test_an_event_records_what_the_service_says_and_not_what_the_event_says(job: Job, ledger: Ledger) -> None:
    ledger.open_job("0123abcd", job)
    assert record_seen("traingrid", ledger, FakeBackend(COMPLETED), NAME)
    assert not record_seen("traingrid", ledger, FakeBackend(TRAINING), NAME)
    item = ledger.job("0123abcd", 0)
    assert item is not None
    assert (item["state"], item["training_job"]) == ("Completed", NAME)


@pytest.mark.parametrize("name", ["somebody-elses-job", "traingrid-canvas-0-1", "traingrid-0123abcd-00-1"])
def test_an_event_of_a_training_job_that_is_not_ours_is_left_alone(ledger: Ledger, name: str) -> None:
    assert not record_seen("traingrid", ledger, FakeBackend(COMPLETED), name)


def test_looks_are_frequent_at_first_and_rare_later() -> None:
    assert [interval_seconds(age) for age in (0, 600, 100_000)] == [1.0, 10.0, 60.0]
