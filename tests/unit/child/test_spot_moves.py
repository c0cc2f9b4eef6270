"""Spot moves: a job with a deadline that waits for spot instances in vain continues in another Region of its line."""

from dataclasses import replace

import pytest

from tests.support.shortages import pool_of, recorded, short
from tests.support.supervised_job import supervisor
from tests.support.training_jobs import COMPLETED, FIRST_MOMENT, NO_CAPACITY, STOPPED, TRAINING, FakeBackend, FakeTime
from tests.unit.child.test_deadline import HOUR, long_job
from traingrid.backends.base import LaunchError
from traingrid.child.attempt import Attempt
from traingrid.child.spot_policy import Transfer
from traingrid.child.supervisor import Supervisor
from traingrid.job.failures import QUOTA
from traingrid.job.job import Job, JobReplica, job_on_demand
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.timestamps import timestamp
from traingrid.ledger.user_requests import cancel_of_region

HERE, THERE, THIRD = "us-east-1", "us-west-2", "eu-west-1"
WAITS = replace(TRAINING, phase="Starting")
RAN = replace(STOPPED, training_seconds=600, billable_seconds=300)
FREE = Transfer(0.0, 0.0)


@pytest.fixture
def line(job: Job) -> Job:
    """A spot job of 20 hours with a deadline in 24 hours, and its data in two other Regions."""
    replicas = {
        region: JobReplica(inputs=job.inputs, output=f"s3://b-{region}/o/", checkpoints=f"s3://b-{region}/c/")
        for region in (THERE, THIRD)
    }
    return long_job(job, 24, replicas=replicas)


class Place(FakeBackend):
    """A Region whose training jobs have the same description until they are stopped.

    Args:
        spot: The description of those with spot instances.
        on_demand: The description of the others.
        stopped: The description of those that were stopped.
    """

    def __init__(
        self,
        spot: TrainingJobDescription,
        on_demand: TrainingJobDescription = COMPLETED,
        stopped: TrainingJobDescription = STOPPED,
    ) -> None:
        super().__init__(spot)
        self.spot, self.on_demand, self.end = spot, on_demand, stopped

    def describe(self, name: str) -> TrainingJobDescription | None:
        if name not in self.created:
            return None
        job = self.jobs[self.created.index(name)]
        if name in self.stopped:
            return self.end
        return self.spot if job.spot else self.on_demand


class SlowPlace(Place):
    """A Region whose training jobs get their instances 300 s after the request.

    Args:
        refuses_until: The time until which the quota is used up.
    """

    def __init__(self, time: FakeTime, refuses_until: float = 0.0) -> None:
        super().__init__(WAITS)
        self.time, self.refuses_until = time, refuses_until
        self.requested: dict[str, float] = {}

    def start(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        if self.time.seconds < self.refuses_until:
            raise LaunchError(QUOTA, "ResourceLimitExceeded")
        self.requested.setdefault(name, self.time.seconds)
        return super().start(name, job, tags)

    def describe(self, name: str) -> TrainingJobDescription | None:
        description = super().describe(name)
        if name in self.stopped or description is None:
            return description
        return COMPLETED if self.time.seconds - self.requested[name] >= 300 else WAITS


class World:
    """The Regions of a line, and its children. The ledger has their clock."""

    def __init__(self, line: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
        self.line, self.ledger, self.time = line, ledger, FakeTime()
        self.places = {HERE: Place(WAITS), THERE: Place(COMPLETED), THIRD: Place(COMPLETED)}
        self.transfers: dict[str, Transfer | None] = dict.fromkeys(self.places, FREE)
        self.asked: list[str] = []
        for module in ("ledger", "first_item"):
            monkeypatch.setattr(f"traingrid.ledger.{module}.now", lambda: timestamp(FIRST_MOMENT + self.time.seconds))

    def transfer(self, _attempt: Attempt, region: str) -> Transfer | None:
        self.asked.append(region)
        return self.transfers[region]

    def child(self) -> Supervisor:
        return supervisor(
            self.line, self.places, self.ledger, self.time, find_transfer=self.transfer, copy_data=lambda _: True
        )


@pytest.fixture
def world(line: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> World:
    """A line whose own Region has no spot instances, unlike the other two."""
    return World(line, ledger, monkeypatch)


def test_a_job_that_waits_in_vain_continues_in_another_region(world: World) -> None:
    item = world.child().run()
    assert (item.state, item.region, item.attempt, item.on_demand) == ("Completed", THERE, 2, False)
    first = item.tried[0]
    assert (first.failure, first.region) == ("spot_elsewhere", HERE)
    deadline = f"23.8 h until the deadline {world.line.finish_by}"
    assert first.reason == f"20.0 h of work left, {deadline}: {THERE} may have spot instances."
    assert world.places[HERE].stop_reasons == ["spot_elsewhere"]
    assert 600 <= world.time.seconds < 800
    assert world.ledger.shortage(pool_of(world.line, HERE)), "other jobs know that there is no capacity"


def test_a_job_whose_service_reports_missing_capacity_moves_at_once(world: World) -> None:
    world.places[HERE].spot = replace(WAITS, lacks_capacity=True)
    assert world.child().run().region == THERE
    assert world.time.seconds < 60


def test_a_job_that_is_interrupted_waits_before_it_moves(world: World) -> None:
    """SageMaker may have other instances for it in the same Region."""
    waits = replace(TRAINING, phase="Interrupted", started_at=FIRST_MOMENT - HOUR, phase_at=FIRST_MOMENT)
    world.places[HERE] = Place(waits, stopped=RAN)
    item = world.child().run()
    assert (item.region, item.tried[0].failure) == (THERE, "spot_elsewhere")
    assert 600 <= world.time.seconds < 800
    assert world.ledger.shortage(pool_of(world.line, HERE)) is None, "it had instances there"


def test_a_shortage_that_another_job_found_moves_a_job_before_its_request(world: World) -> None:
    for region in (HERE, THERE):
        recorded(world.ledger, short(pool_of(world.line, region), until=FIRST_MOMENT + 600))
    item = world.child().run()
    assert (item.region, item.attempt) == (THIRD, 2)
    assert [world.places[region].created for region in (HERE, THERE)] == [[], []]
    assert item.tried[0].reason.startswith("The Region has no spot instances at the moment. 20.0 h of work left")


@pytest.mark.parametrize(
    ("there", "third", "region"),
    [
        (None, FREE, THIRD),
        (Transfer(60.0, 1000.0), FREE, THIRD),
        (Transfer(30 * HOUR, 0.0), FREE, THIRD),
        (None, None, HERE),
    ],
)
def test_a_job_moves_only_to_where_it_can_continue_for_a_gain(
    world: World, there: Transfer | None, third: Transfer | None, region: str
) -> None:
    """Without such a Region it waits, and trains on demand in time."""
    world.transfers |= {THERE: there, THIRD: third}
    item = world.child().run()
    assert (item.state, item.region, item.on_demand) == ("Completed", region, region == HERE)
    assert world.time.seconds < 4 * HOUR - 1440


def test_a_job_does_not_go_back_and_forth(world: World) -> None:
    """Without capacity anywhere it visits each Region about once in half an hour, and ends on demand in time."""
    for place in world.places.values():
        place.spot = WAITS
    item = world.child().run()
    assert (item.state, item.on_demand) == ("Completed", True)
    moves = [attempt for attempt in item.tried if attempt.failure == "spot_elsewhere"]
    assert 2 <= len(moves) <= 3 * world.time.seconds / 1800
    assert world.time.seconds < 4 * HOUR - 1440


def test_a_job_on_demand_moves_if_its_region_has_no_instances_on_demand(world: World) -> None:
    line, ledger = world.line, world.ledger
    left: AttemptFacts = {"region": HERE, "state": JobState.STOPPED, "failure": "deadline"}
    assert ledger.next_attempt(ledger.open_job("0123abcd", line, line.regions).key, left, HERE, on_demand=True)
    recorded(ledger, short(pool_of(job_on_demand(line), HERE), until=FIRST_MOMENT + 600))
    item = world.child().run()
    assert (item.state, item.region, item.on_demand) == ("Completed", THERE, True)
    assert [(attempt.failure, attempt.on_demand) for attempt in item.tried] == [("deadline", False), ("shortage", True)]


@pytest.mark.parametrize("is_missing_here", [True, False])
def test_a_job_returns_from_on_demand_to_spot_instances_elsewhere(world: World, is_missing_here: bool) -> None:
    line, ledger = world.line, world.ledger
    left: AttemptFacts = {"region": HERE, "state": JobState.STOPPED, "failure": "deadline"}
    assert ledger.next_attempt(ledger.open_job("0123abcd", line, line.regions).key, left, HERE, on_demand=True)
    if is_missing_here:
        recorded(ledger, short(pool_of(line, HERE), until=FIRST_MOMENT + 9 * HOUR))
    world.places[HERE] = Place(COMPLETED, replace(TRAINING, started_at=FIRST_MOMENT), RAN)
    world.places[HERE].lines = ("epoch=1",)
    item = world.child().run()
    assert (item.state, item.region, item.on_demand) == ("Completed", THERE if is_missing_here else HERE, False)
    assert item.tried[-1].failure == "return_to_spot"


@pytest.mark.parametrize("is_stopped", [False, True])
def test_a_child_that_replaces_another_moves_to_the_region_that_was_decided(world: World, is_stopped: bool) -> None:
    first = world.child()
    attempt = first._attempt(world.ledger.open_job("0123abcd", world.line, world.line.regions))
    world.places[HERE].start(attempt.name, world.line, {})
    attempt.record({"training_job": attempt.name, "phase": "Stopping", "state": JobState.STOPPING})
    attempt.record({"stopped_for": "spot_elsewhere", "next_region": THIRD, "reason": "It may have some."})
    if is_stopped:
        world.places[HERE].stop(attempt.name)
    item = world.child().run()
    assert (item.state, item.region, item.next_region) == ("Completed", THIRD, "")
    assert (item.tried[0].failure, item.tried[0].reason) == ("spot_elsewhere", "It may have some.")
    assert world.asked == [], "nothing is decided again"


def test_a_paused_grid_moves_no_job(world: World) -> None:
    pause_for_an_hour(world)
    world.places[HERE].spot = COMPLETED
    item = world.child().run()
    assert (item.state, item.region, item.attempt, world.time.seconds > HOUR) == ("Completed", HERE, 1, True)


@pytest.mark.parametrize("changes", [{"finish_by": ""}, {"replicas": {}}, {"launch": "queued"}])
def test_other_lines_stay(world: World, changes: dict[str, object]) -> None:
    world.line = world.line.model_copy(update=changes)

    def complete() -> None:
        if world.time.seconds > HOUR / 2:
            world.places[HERE].spot = COMPLETED

    world.time.on_sleep = complete
    item = world.child().run()
    assert (item.state, item.region, item.attempt) == ("Completed", HERE, 1)


def pause_for_an_hour(world: World) -> None:
    world.ledger.set_launching({"by": "Ada"}, allowed=False)

    def resume() -> None:
        if world.time.seconds > HOUR:
            world.ledger.set_launching({"by": "Ada"}, allowed=True)

    world.time.on_sleep = resume


@pytest.mark.parametrize("delay", ["pause", "quota", "shortage"])
def test_time_before_the_request_is_no_wait_for_instances(world: World, delay: str) -> None:
    world.places = {region: SlowPlace(world.time, 580 if delay == "quota" else 0) for region in world.places}
    if delay == "pause":
        pause_for_an_hour(world)
    if delay == "shortage":
        for region in world.places:
            recorded(world.ledger, short(pool_of(world.line, region), until=FIRST_MOMENT + 640))
    item = world.child().run()
    assert (item.state, item.region, item.attempt) == ("Completed", HERE, 1)
    assert world.places[HERE].stopped == []


def test_a_quota_in_every_region_moves_no_job(world: World) -> None:
    """The job uses instances on demand in time, because they have another quota."""
    world.places = {region: SlowPlace(world.time, 3 * HOUR) for region in world.places}
    item = world.child().run()
    assert (item.state, item.region, item.on_demand) == ("Completed", HERE, True)
    assert [attempt.failure for attempt in item.tried] == ["deadline"]


def test_the_copy_of_a_checkpoint_is_no_wait_for_instances(world: World) -> None:
    world.places = {region: SlowPlace(world.time) for region in world.places}
    world.places[HERE] = Place(replace(WAITS, lacks_capacity=True))
    child = world.child()

    def copy(attempt: Attempt) -> bool:
        world.time.clock.sleep(750.0)
        return attempt.record({"checkpoint_note": "Continues from it.", "checkpoint_from": HERE})

    ran: AttemptFacts = {"region": HERE, "state": JobState.STOPPED, "failure": "internal_error"}
    ran |= {"training_job": "traingrid-0123abcd-0-1", "billable_seconds": 300}
    line = world.line
    assert world.ledger.next_attempt(world.ledger.open_job("0123abcd", line, line.regions).key, ran, HERE)
    child.copy_data = copy
    item = child.run()
    assert (item.state, item.region, item.attempt) == ("Completed", THERE, 3)


def test_a_refused_transfer_is_asked_for_once_in_an_attempt(world: World) -> None:
    world.transfers = dict.fromkeys(world.places, None)
    item = world.child().run()
    assert (item.state, item.region, item.attempt, item.on_demand) == ("Completed", HERE, 2, True)
    assert sorted(world.asked) == [THIRD, THERE]


def test_a_job_tests_the_region_to_which_it_has_moved(world: World) -> None:
    """Its checkpoint may have been copied to there."""
    world.places = {region: SlowPlace(world.time) for region in world.places}
    world.places[HERE] = Place(replace(WAITS, lacks_capacity=True))
    for region in (THERE, THIRD):
        recorded(world.ledger, short(pool_of(world.line, region), until=FIRST_MOMENT))
    item = world.child().run()
    assert (item.state, item.region, item.attempt) == ("Completed", THERE, 2)


@pytest.mark.parametrize("failure", ["spot_elsewhere", "shortage", "capacity"])
def test_no_job_moves_into_a_region_that_is_cancelled(world: World, failure: str) -> None:
    world.ledger.request_cancel("0123abcd", cancel_of_region(THERE), {"by": "Ada"})
    world.places[HERE] = Place(replace(WAITS, lacks_capacity=True))
    if failure != "spot_elsewhere":
        world.line = world.line.model_copy(update={"finish_by": ""})
        world.places[HERE] = Place(NO_CAPACITY)
    if failure == "shortage":
        recorded(world.ledger, short(pool_of(world.line, HERE), until=FIRST_MOMENT + 600))
    item = world.child().run()
    assert (item.state, item.region, item.attempt) == ("Completed", THIRD, 2)
    assert item.tried[0].failure == failure


def test_the_attempts_of_a_job_without_capacity_anywhere_are_bounded(world: World) -> None:
    world.line = world.line.model_copy(update={"finish_by": timestamp(FIRST_MOMENT + 21 * 24 * HOUR)})
    world.places = {region: Place(replace(WAITS, lacks_capacity=True)) for region in world.places}

    def complete() -> None:
        if world.time.seconds > 24 * HOUR:
            for place in world.places.values():
                place.spot = COMPLETED

    world.time.on_sleep = complete
    item = world.child().run()
    assert (item.state, item.on_demand) == ("Completed", False)
    assert 9 <= item.attempt <= 30, "at first each half an hour, at last each four hours"
