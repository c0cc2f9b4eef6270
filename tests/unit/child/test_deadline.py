"""Deadlines: a spot job that might not end by its `finish_by` continues on demand, the same for all of its children."""

from dataclasses import replace

import pytest
from botocore.exceptions import ClientError

from tests.support.shortages import pool_of, recorded, short
from tests.support.supervised_job import NAME, QUOTA_IS_USED_UP, known, supervisor
from tests.support.training_jobs import COMPLETED, FIRST_MOMENT, NO_CAPACITY, STOPPED, TRAINING, FakeBackend, FakeTime
from traingrid.child.deadline import InstanceChange
from traingrid.child.spot_policy import SpotPolicy, work_of
from traingrid.job.job import Job
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.items import JobItem, RecordedAttempt
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.timestamps import timestamp

HOUR = 3600
INTERRUPTED = replace(STOPPED, phase="MaxWaitTimeExceeded", billable_seconds=5)
NEXT = "traingrid-0123abcd-0-2"


def spot(job: Job, hours: float, **changes: object) -> Job:
    """Return the job with spot instances, an hour of training, and a deadline in a number of hours."""
    plan = {"finish_by": timestamp(FIRST_MOMENT + hours * HOUR), "estimated_runtime_seconds": HOUR, "retries": 0}
    plan |= {"hyperparameters": {"epochs": "10"}, "metrics": {"epoch": r"epoch=([0-9]+)"}, "checkpoints": "s3://b/c/"}
    return job.model_copy(update={"spot": True, "max_wait_seconds": 48 * HOUR, **plan, **changes})


def policy_of(line: Job, ledger: Ledger, time: FakeTime | None = None) -> SpotPolicy:
    """Return the decisions about a line's current attempt."""
    child = supervisor(line, FakeBackend(TRAINING), ledger, time)
    return child._policy(child._attempt(ledger.open_job("0123abcd", line, line.regions)))


def watch_of(line: Job, ledger: Ledger) -> InstanceChange:
    policy = policy_of(line, ledger)
    return InstanceChange(attempt=policy.capacity.attempt, policy=policy)


NO_EPOCHS: dict[str, object] = {"hyperparameters": {}}


@pytest.mark.parametrize(
    ("hours", "changes", "leaves"),
    [
        # Two trainings without known epochs, and two restarts of 12 minutes.
        (2.5, NO_EPOCHS, False),
        (2.3, NO_EPOCHS, True),
        (2.3, NO_EPOCHS | {"spot": False}, False),
        (2.3, NO_EPOCHS | {"finish_by": ""}, False),
        (2.3, NO_EPOCHS | {"launch": "queued"}, False),
        (12.3, NO_EPOCHS | {"estimated_runtime_seconds": 0, "max_runtime_seconds": 6 * HOUR}, True),
        (12.5, NO_EPOCHS | {"estimated_runtime_seconds": 0, "max_runtime_seconds": 6 * HOUR}, False),
        # One training, an epoch of a tenth of it, and two restarts.
        (1.55, {}, False),
        (1.45, {}, True),
        (1.55, {"checkpoints": ""}, True),
        (1.55, {"metrics": {}}, True),
        (1.55, {"hyperparameters": {"epochs": "10", "checkpoint_every": "5"}}, True),
    ],
)
def test_a_spot_job_starts_on_demand_without_time_for_an_interruption(
    job: Job, ledger: Ledger, hours: float, changes: dict[str, object], leaves: bool
) -> None:
    line = spot(job, hours, **changes)
    item = ledger.open_job("0123abcd", line, line.regions)
    assert bool(policy_of(line, ledger).change(item)) is leaves


@pytest.mark.parametrize(
    ("region", "fields", "left"),
    [
        ("us-east-1", {}, 3600),
        ("us-east-1", {"progress": {"epoch": 6.0}}, 4 * 360),
        ("us-east-1", {"progress": {"epoch": 6.0}, "epoch_seconds": 100.0}, 400),
        ("us-east-1", {"progress": {"epoch": 99.0}}, 0),
        ("us-east-1", {"tried": 6}, 4 * 100),
        ("us-east-1", {"tried": 6, "progress": {"epoch": 1.0}}, 9 * 100),  # it did not resume
        ("eu-west-1", {"tried": 6}, 10 * 100),  # checkpoints are not copied
    ],
)
def test_the_remaining_work_comes_from_the_epochs(
    job: Job, ledger: Ledger, region: str, fields: dict[str, object], left: float
) -> None:
    line = spot(job, 3)
    item, tried = ledger.open_job("0123abcd", line, line.regions), fields.pop("tried", 0)
    assert isinstance(tried, int)
    earlier = RecordedAttempt(attempt=1, region=region, state=JobState.STOPPED, epoch=tried, epoch_seconds=100.0)
    item = replace(item, **fields, tried=(earlier,) * bool(tried))  # type: ignore[arg-type]  # the fields of a row
    assert work_of(line, item).left == left


@pytest.mark.parametrize(
    ("changes", "epoch", "left", "lost"),
    [
        ({}, 1, 9, 0),
        ({}, 6, 4, 0),
        ({"source": "s3://b/source.tar.gz"}, 6, 5, 0),
        ({"hyperparameters": {"epochs": "10", "checkpoint_every": "4"}}, 6, 4, 2),
        ({"hyperparameters": {"epochs": "10", "checkpoint_every": "500"}}, 6, 4, 6),
        ({"hyperparameters": {"epochs": "10", "checkpoint_every": "500"}}, 0, 10, 10),
        ({}, 99, 0, 0),
    ],
)
def test_a_running_training_loses_what_it_has_trained_since_its_checkpoint(  # noqa: PLR0917  # the columns of a table
    job: Job, ledger: Ledger, changes: dict[str, object], epoch: int, left: int, lost: int
) -> None:
    line = spot(job, 3, **changes)
    item = ledger.open_job("0123abcd", line, line.regions)
    item = replace(item, progress={"epoch": float(epoch)} if epoch else {})
    work = work_of(line, item, runs=True)
    assert (work.left, work.lost) == (left * 360, lost * 360)


class InTime:
    """A spot training that runs without an interruption.

    Args:
        epochs: The number of epochs, of an hour each.
    """

    def __init__(self, job: Job, epochs: int, hours: float) -> None:
        self.backend, self.time, self.epochs = FakeBackend(TRAINING), FakeTime(), epochs
        self.line = spot(job, hours, hyperparameters={"epochs": str(epochs)}, estimated_runtime_seconds=epochs * HOUR)
        self.time.on_sleep = self._train

    def _train(self) -> None:
        epoch = int(self.time.seconds // HOUR)
        self.backend.lines = tuple(f"epoch={complete}" for complete in range(1, epoch + 1))
        if epoch >= self.epochs:
            self.backend.script = [replace(TRAINING, phase="Uploading")]
        if self.time.seconds >= (self.epochs + 0.2) * HOUR or len(self.backend.created) > 1:
            self.backend.script = [COMPLETED]


@pytest.mark.parametrize(("epochs", "hours"), [(1, 2.6), (2, 4.2), (10, 12.45)])
def test_a_training_that_is_in_time_is_not_stopped(job: Job, ledger: Ledger, epochs: int, hours: float) -> None:
    training = InTime(job, epochs, hours)
    item = supervisor(training.line, training.backend, ledger, training.time).run()
    assert (item.state, [attempt.reason for attempt in item.tried], training.backend.stopped) == ("Completed", [], [])


def test_a_training_is_not_stopped_for_its_deadline_while_nothing_may_start(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING, lines=("epoch=1",)), FakeTime()
    seconds_of_stops: list[float] = []

    def pause() -> None:
        if time.seconds > 300 and not backend.stopped:
            ledger.set_launching({"by": "Ada"}, allowed=False)
        if time.seconds > 10 * HOUR:
            ledger.set_launching({"by": "Ada"}, allowed=True)
        if backend.stopped and not seconds_of_stops:
            seconds_of_stops.append(time.seconds)
            backend.script, backend.lines = [STOPPED, COMPLETED], ()

    time.on_sleep = pause
    item = supervisor(spot(job, 2), backend, ledger, time).run()
    assert item.state == "Completed"
    assert seconds_of_stops[0] > 10 * HOUR


def trained(
    job: Job, ledger: Ledger, hours: float, lines: tuple[str, ...], **changes: object
) -> tuple[FakeBackend, JobItem]:
    """Run a spot job whose training lasts until it is stopped; the next training job completes."""
    backend, time = FakeBackend(TRAINING, lines=lines), FakeTime()

    def complete() -> None:
        if backend.created:
            backend.script, backend.lines = [COMPLETED], ()

    backend.on_create = complete
    line = spot(job, hours, **changes)
    return backend, supervisor(line, backend, ledger, time).run()


def test_a_training_that_falls_behind_continues_on_demand(job: Job, ledger: Ledger) -> None:
    backend, item = trained(job, ledger, 2, ("epoch=3 train_loss=1.0",))
    assert (backend.stopped, backend.stop_reasons) == ([NAME], ["deadline"])
    assert [request.spot for request in backend.jobs] == [True, False]
    first = item.tried[0]
    assert (item.state, item.on_demand, first.failure, first.epoch) == ("Completed", True, "deadline", 3)
    assert first.reason.startswith("0.7 h of work left, 0.9 h until the deadline")


class NoSpotQuota(FakeBackend):
    """A service whose quota of spot instances is used up."""

    def start(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        if job.spot:
            raise QUOTA_IS_USED_UP
        return super().start(name, job, tags)


def test_a_job_that_is_refused_for_its_spot_quota_trains_on_demand_in_time(job: Job, ledger: Ledger) -> None:
    backend, time = NoSpotQuota(COMPLETED), FakeTime()
    item = supervisor(spot(job, 3), backend, ledger, time).run()
    assert (item.state, item.on_demand, [request.spot for request in backend.jobs]) == ("Completed", True, [False])
    assert HOUR < time.seconds < 2 * HOUR
    assert item.tried[0].reason.startswith("Spot instances might not end the job by its deadline.")


@pytest.mark.parametrize(("printed", "recorded_epoch"), [("1e13", 10), ("9e37", 10), ("0.5", 0), ("4.7", 4)])
def test_a_metric_with_any_value_leaves_an_item_that_can_be_read(
    job: Job, ledger: Ledger, printed: str, recorded_epoch: int
) -> None:
    """The field of a stored attempt has a range; an item with another value counts as damaged."""
    backend, time = FakeBackend(TRAINING, lines=(f"epoch={printed}",)), FakeTime()
    line = spot(job, 30, metrics={"epoch": r"epoch=(\S+)"}, retries=1)

    def interrupt() -> None:
        if time.seconds > 600:
            backend.script = [COMPLETED] if len(backend.created) > 1 else [INTERRUPTED]

    time.on_sleep = interrupt
    item = supervisor(line, backend, ledger, time).run()
    assert (item.state, [attempt.epoch for attempt in item.tried]) == ("Completed", [recorded_epoch])


def test_the_pace_of_an_attempt_is_kept_for_the_next(job: Job, ledger: Ledger) -> None:
    line = spot(job, 3)
    item = ledger.open_job("0123abcd", line, line.regions)
    ledger.record_progress(item.key, {"epoch": 4.0}, epoch_seconds=12.25)
    first = supervisor(line, FakeBackend(COMPLETED), ledger)
    stopped = replace(STOPPED, reason="")
    attempt = first._attempt(known(ledger))
    attempt.record({"stopped_for": "deadline"})
    first._conclude(attempt, stopped, first._policy(attempt))
    assert [(previous.epoch, previous.epoch_seconds) for previous in known(ledger).tried] == [(4, 12.25)]


def test_a_waiting_training_job_leaves_spot_in_time(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(replace(TRAINING, phase="Interrupted"))

    def complete() -> None:
        if backend.created:
            backend.script = [COMPLETED]

    backend.on_create = complete
    item = supervisor(spot(job, 3, hyperparameters={}), backend, ledger, FakeTime()).run()
    assert ([request.spot for request in backend.jobs], item.tried[0].failure) == ([True, False], "deadline")


def test_a_training_that_reports_no_epoch_is_not_stopped(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING), FakeTime()

    def end_at_the_deadline() -> None:
        if time.seconds > 2.9 * HOUR:
            backend.script = [COMPLETED]

    time.on_sleep = end_at_the_deadline
    item = supervisor(spot(job, 3), backend, ledger, time).run()
    assert (backend.stopped, item.state, item.attempt) == ([], "Completed", 1)


def test_a_child_that_replaces_another_stops_what_it_decided(job: Job, ledger: Ledger) -> None:
    line, backend = spot(job, 30), FakeBackend(TRAINING)
    first = supervisor(line, backend, ledger)
    item = ledger.open_job("0123abcd", line, line.regions)
    attempt = first._attempt(item)
    backend.start(NAME, line, {})
    attempt.record({"training_job": NAME, "state": JobState.STOPPING, "stopped_for": "deadline", "reason": "Late."})
    backend.on_create = lambda: setattr(backend, "script", [COMPLETED])
    ended = supervisor(line, backend, ledger, FakeTime()).run()
    assert (backend.stopped, [request.spot for request in backend.jobs]) == ([NAME], [True, False])
    assert (ended.tried[0].failure, ended.tried[0].reason) == ("deadline", "Late.")


def test_a_job_with_time_uses_spot_instances(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(COMPLETED)
    item = supervisor(spot(job, 3), backend, ledger).run()
    assert ([one.spot for one in backend.jobs], item.attempt, item.on_demand) == ([True], 1, False)


def test_a_late_job_starts_on_demand(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(COMPLETED)
    item = supervisor(spot(job, 1.4), backend, ledger).run()
    assert backend.created == [NEXT]
    assert [(one.spot, one.max_wait_seconds, one.checkpoints) for one in backend.jobs] == [(False, 0, "s3://b/c/")]
    assert (item.state, item.on_demand, [one.failure for one in item.tried]) == ("Completed", True, ["deadline"])


def test_an_interrupted_job_continues_on_demand_even_without_retries(job: Job, ledger: Ledger) -> None:
    backend, time = FakeBackend(TRAINING, INTERRUPTED), FakeTime()

    def interrupt() -> None:
        """Let the first training job end an hour and a half after its start, and the second one complete."""
        if backend.created:
            backend.script = [COMPLETED]
        else:
            time.seconds += 1.5 * HOUR

    backend.on_create = interrupt
    item = supervisor(spot(job, 3), backend, ledger, time).run()
    assert [(one.spot, name) for one, name in zip(backend.jobs, backend.created, strict=True)] == [
        (True, NAME),
        (False, NEXT),
    ]
    assert [(one.failure, one.on_demand) for one in item.attempts().values()] == [
        ("spot_interruption", False),
        ("", True),
    ]


def test_an_on_demand_attempt_that_is_retried_is_recorded_as_on_demand(job: Job, ledger: Ledger) -> None:
    """Its price in the catalog depends on it (traingrid/catalog/run_rows.py)."""
    item = supervisor(spot(job, 1.4, retries=1), FakeBackend(NO_CAPACITY), ledger).run()
    assert [(one.failure, one.on_demand) for one in item.attempts().values()] == [
        ("deadline", False),
        ("capacity", True),
        ("capacity", True),
    ]


def test_without_capacity_on_demand_the_line_fails_by_its_retries(job: Job, ledger: Ledger) -> None:
    backend = FakeBackend(NO_CAPACITY)
    item = supervisor(spot(job, 1.4), backend, ledger).run()
    assert (item.state, item.failure, [one.spot for one in backend.jobs]) == ("Failed", "capacity", [False])


def test_a_job_that_waits_for_spot_capacity_leaves_it_in_time(job: Job, ledger: Ledger) -> None:
    late = spot(job, 1.6)
    recorded(ledger, short(pool_of(late), until=FIRST_MOMENT + 600))
    backend, time = FakeBackend(COMPLETED), FakeTime()
    item = supervisor(late, backend, ledger, time).run()
    assert (backend.created, [one.spot for one in backend.jobs]) == ([NEXT], [False])
    assert item.state == "Completed"
    assert time.seconds < 0.2 * HOUR


def test_a_job_whose_wait_ends_while_its_stop_is_decided_trains_on_demand(job: Job, ledger: Ledger) -> None:
    """Without retries, it has one more attempt because it is late."""
    line, backend = spot(job, 1.4), FakeBackend(INTERRUPTED)
    attempt = supervisor(line, backend, ledger)._attempt(ledger.open_job("0123abcd", line, line.regions))
    backend.start(NAME, line, {})
    attempt.record({"training_job": NAME, "phase": "Interrupted", "state": JobState.IN_PROGRESS})
    attempt.record({"stopped_for": "deadline", "next_region": line.region, "reason": "Late."})
    backend.on_create = lambda: setattr(backend, "script", [COMPLETED])
    item = supervisor(line, backend, ledger, FakeTime()).run()
    assert (item.state, item.on_demand, item.tried[0].failure) == ("Completed", True, "spot_interruption")


def test_a_new_child_of_the_attempt_sends_the_same_request(job: Job, ledger: Ledger) -> None:
    """The second child starts with time to spare by its clock, but the ledger has the first child's decision."""
    line = spot(job, 1.4)
    first = supervisor(line, FakeBackend(TRAINING), ledger)
    item = ledger.open_job("0123abcd", line, line.regions)
    first._run_attempt(first._attempt(item), item)
    assert known(ledger).on_demand
    backend = FakeBackend(COMPLETED)
    supervisor(line, backend, ledger, FakeTime(seconds=-HOUR)).run()
    assert [one.spot for one in backend.jobs] == [False]


def test_a_retry_of_a_user_uses_spot_instances_again(job: Job, ledger: Ledger) -> None:
    line = spot(job, 1.4)
    ended = supervisor(line, FakeBackend(NO_CAPACITY), ledger).run()
    assert ledger.next_attempt(
        ended.key, {"region": ended.region, "state": ended.state}, ended.region, reopen="retry-1"
    )
    assert not known(ledger).on_demand


def long_job(job: Job, hours: float, **changes: object) -> Job:
    """Return a spot job of a hundred epochs of 12 minutes, with a deadline in a number of hours."""
    return spot(job, hours, estimated_runtime_seconds=20 * HOUR, hyperparameters={"epochs": "100"}, **changes)


def opened(line: Job, ledger: Ledger) -> JobItem:
    return ledger.open_job("0123abcd", line, line.regions)


def test_a_job_with_time_returns_from_on_demand_to_spot(job: Job, ledger: Ledger) -> None:
    line, time = long_job(job, 30), FakeTime()
    backend = FakeBackend(replace(TRAINING, started_at=FIRST_MOMENT))
    left: AttemptFacts = {"region": line.region, "state": JobState.STOPPED, "failure": "deadline"}
    assert ledger.next_attempt(opened(line, ledger).key, left, line.region, on_demand=True)

    def train() -> None:
        backend.lines = tuple(f"epoch={epoch}" for epoch in range(1, int(time.seconds / 720) + 1))

    def complete() -> None:
        if backend.created:
            backend.script, backend.lines, time.on_sleep = [COMPLETED], (), lambda: None

    time.on_sleep, backend.on_create = train, complete
    item = supervisor(line, backend, ledger, time).run()
    assert [request.spot for request in backend.jobs] == [False, True]
    assert backend.stop_reasons == ["return_to_spot"]
    assert (item.state, item.on_demand, "on_demand" in item.stored) == ("Completed", False, False)
    returned = item.tried[-1]
    assert (returned.failure, returned.on_demand, returned.epoch) == ("return_to_spot", True, 10)
    assert returned.reason.endswith("Z: there is time for spot instances.")


def test_a_job_does_not_return_while_another_job_finds_no_spot_capacity(job: Job, ledger: Ledger) -> None:
    line = long_job(job, 1000)
    watch = watch_of(line, ledger)
    item = replace(known(ledger), on_demand=True, progress={"epoch": 2.0}, training_started_at=FIRST_MOMENT - 3 * HOUR)
    assert watch.is_over(item, runs=True)
    recorded(ledger, short(pool_of(line), until=FIRST_MOMENT + 600))
    assert not watch.is_over(item, runs=True)


@pytest.mark.parametrize("on_demand", [False, True])
def test_a_shortage_that_cannot_be_read_does_not_end_the_child(
    job: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch, on_demand: bool
) -> None:
    """The child does not repeat reads of shortages, as without an answer there may be capacity."""

    def fail(_pool: object) -> None:
        raise ClientError({"Error": {"Code": "InternalServerError", "Message": ""}}, "GetItem")

    line = long_job(job, 1000 if on_demand else 19.5)
    watch = watch_of(line, ledger)
    item = replace(known(ledger), progress={"epoch": 2.0}, training_started_at=FIRST_MOMENT - 3 * HOUR)
    monkeypatch.setattr(ledger, "shortage", fail)
    assert watch.is_over(replace(item, on_demand=on_demand), runs=True)


@pytest.mark.parametrize("hours", [20.6, 1000])
def test_a_job_on_demand_stays_without_time_or_before_its_first_epoch(job: Job, ledger: Ledger, hours: float) -> None:
    line = long_job(job, hours)
    item = replace(opened(line, ledger), on_demand=True)
    assert policy_of(line, ledger, FakeTime(10 * HOUR)).change(item) is None
    trains = replace(item, progress={"epoch": 2.0}, training_started_at=FIRST_MOMENT)
    change = policy_of(line, ledger, FakeTime(3 * HOUR)).change(trains, runs=True)
    assert bool(change) is (hours == 1000)


@pytest.mark.parametrize(
    ("hours", "changes", "max_wait"),
    [
        (30, {}, 32),
        (200, {}, 48),  # of the line
        (30, {"max_runtime_seconds": 10 * HOUR}, 40),
        (-1, {}, 2),
        (30, {"finish_by": ""}, 48),
        (30, {"launch": "queued"}, 48),
    ],
)
def test_a_spot_training_job_waits_until_the_deadline_of_its_line(
    job: Job, ledger: Ledger, hours: float, changes: dict[str, object], max_wait: float
) -> None:
    """Waiting and running together: a training that begins before the deadline may run for its whole time."""
    line = spot(job, hours, **{"max_runtime_seconds": 2 * HOUR, **changes})
    item = replace(opened(line, ledger), opened_at=timestamp(FIRST_MOMENT))
    attempt = supervisor(line, FakeBackend(TRAINING), ledger)._attempt(item)
    assert attempt.job.max_wait_seconds == max_wait * HOUR
