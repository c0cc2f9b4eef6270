"""A sweep goes on after what fails, stops before it looks, and leaves to the next one what it has no time for."""

import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from tests.domain.sweeping import DENIED, SILENT, SLOW, Region, World, a_reconciler, open_lines
from traingrid import clients, closing, names, reconciling
from traingrid.deployment import Deployment
from traingrid.job import Job
from traingrid.ledger import CANCEL_ALL, Ledger
from traingrid.reach import UnreachedError
from traingrid.reconciling import Reconciler
from traingrid.rotation import rotated
from traingrid.s3_uri import S3Uri
from traingrid.submission import jobs_key, normalised

HOME, NEAR, FAR, GONE = "us-east-1", "us-west-2", "eu-west-1", "sa-east-1"
"""The last one is no Region of the grid any more."""
SUBMISSION = "0123abcd"


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture
def reconciler(world: World, deployment: Deployment, ledger: Ledger) -> Reconciler:
    return a_reconciler(world, deployment, ledger)


class Clock:
    """A clock that goes on only when a test says so."""

    def __init__(self, start: float) -> None:
        self.now = start

    def time(self) -> float:
        return self.now

    def goes_on(self, seconds: float) -> Callable[[], None]:
        def on() -> None:
            self.now += seconds

        return on


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(time.time())
    for module in (reconciling, closing):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=clock.time))
    return clock


def unreached(reconciler: Reconciler, within: float = 3600.0) -> UnreachedError:
    with pytest.raises(UnreachedError) as raised:
        reconciler.sweep(within)
    return raised.value


def states(ledger: Ledger, submission: str = SUBMISSION) -> list[str]:
    return [item["state"] for item in ledger.items(submission) if item["item"].startswith("job#")]


def test_a_line_in_a_service_queue_is_counted_as_one_that_waits(
    reconciler: Reconciler, world: World, ledger: Ledger, job: Job
) -> None:
    for index, name in enumerate(open_lines(ledger, job, ["us-east-1", "us-west-2"])):
        world.runs(SUBMISSION, index, ("us-east-1", "us-west-2")[index])
        ledger.record_job(SUBMISSION, index, 1, {"phase": ("Queued", "Training")[index], "training_job": name})
    assert reconciler.sweep().lines == {"Waiting": 1, "InProgress": 1}


def test_a_line_that_cannot_be_described_keeps_no_other_line_from_its_end(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    lines = open_lines(ledger, job, [HOME, HOME, FAR])
    world.ended = dict.fromkeys(lines, "Completed")
    world.fails[lines[1]] = SLOW
    error = unreached(reconciler)
    assert states(ledger) == ["Completed", "InProgress", "Completed"]
    assert sorted(error.done.recorded) == [lines[0], lines[2]]
    assert list(error.done.unreachable) == [HOME]
    assert "Rate exceeded" in str(error)


def test_a_line_that_another_version_has_written_keeps_no_other_line_from_its_end(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    lines = open_lines(ledger, job, [HOME, HOME, HOME])
    world.ended = dict.fromkeys(lines, "Completed")
    world.fails[lines[1]] = ValueError("no such thing")
    assert "no such thing" in str(unreached(reconciler))
    assert states(ledger) == ["Completed", "InProgress", "Completed"]


def test_a_training_job_that_cannot_be_stopped_keeps_no_other_from_being_stopped(
    world: World, reconciler: Reconciler
) -> None:
    orphans = [world.runs("ffffffff", index, HOME) for index in range(4)]
    world.fails |= {f"stop {orphans[0]}": SLOW, f"tags {orphans[1]}": SLOW}
    assert unreached(reconciler).done.stopped == world.stopped == orphans[2:]


def test_a_region_that_the_grid_has_no_more_ends_no_sweep_and_the_sweep_says_what_to_do(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    lines = open_lines(ledger, job, [HOME, GONE])
    orphan = world.runs("ffffffff", 0, NEAR)
    world.ended = {lines[0]: "Completed"}
    world.fails[f"describe {GONE}"] = DENIED
    error = unreached(reconciler)
    assert (states(ledger), world.stopped) == (["Completed", "InProgress"], [orphan])
    assert "not authorized" in error.done.unreachable[GONE]
    assert f"{GONE}, which grid.yaml no longer has" in str(error)
    assert "put it back and deploy" in str(error)


def test_what_runs_in_a_region_that_the_grid_has_no_more_is_found_while_a_line_lives_there(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    open_lines(ledger, job, [GONE])
    name = world.runs(SUBMISSION, 0, GONE)
    ledger.request_cancel(SUBMISSION, CANCEL_ALL, {"by": "Ada"})
    assert reconciler.sweep().stopped == [name]
    assert world.described == [], "what is listed as running need not be described"


def test_a_submission_that_cannot_be_read_keeps_no_other_from_its_end(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    world.children = {0: "FAILED"}
    ledger.claim_submission("aaaaaaaa", "test", {"jobs": 1, "manifest": "s3://x/y", "version": "1"})
    ledger.record_submitted("aaaaaaaa", "array")
    reconciler.storage.write(S3Uri(reconciler.bucket, jobs_key("aaaaaaaa")), b"of another version\n", "text/plain")
    (name,) = open_lines(ledger, job, [HOME])
    world.ended = {name: "Completed"}
    assert list(unreached(reconciler).done.unreachable) == ["submission aaaaaaaa"]
    assert states(ledger) == ["Completed"]


def test_a_region_is_asked_no_more_after_a_call_that_it_does_not_answer(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    open_lines(ledger, job, [FAR] * 10)
    world.fails[f"describe {FAR}"] = SILENT
    unreached(reconciler)
    assert len(world.described) == 1
    world.fails[f"describe {FAR}"] = DENIED
    world.described.clear()
    unreached(reconciler)
    assert len(world.described) == 3


def test_what_nobody_wants_is_stopped_before_any_line_is_looked_at(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, clock: Clock
) -> None:
    open_lines(ledger, job, [HOME] * 3)
    orphan = world.runs("ffffffff", 0, HOME)
    world.on_look = lambda: world.stopped.append("too late")
    assert reconciler.sweep().stopped == [orphan]
    assert world.stopped[0] == orphan


def test_lines_that_there_is_no_time_for_are_left_and_all_have_their_turn_in_the_sweeps_that_follow(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, clock: Clock
) -> None:
    lines = open_lines(ledger, job, [HOME] * 40)
    world.on_look = clock.goes_on(1.0)
    began = clock.now // 300 * 300
    for sweep in range(12):
        clock.now = began + 300 * sweep
        done = reconciler.sweep(within=13.5)  # of which three quarters are for looking
        assert (len(world.described), done.left) == (11 * (sweep + 1), 29)
    assert set(world.described) == set(lines)


def test_more_than_a_sweep_can_stop_is_stopped_by_those_that_follow(
    world: World, reconciler: Reconciler, clock: Clock
) -> None:
    orphans = [world.runs("ffffffff", index, HOME) for index in range(4)]
    world.on_stop = clock.goes_on(50.0)
    assert reconciler.sweep(within=200.0).stopped == orphans[:3]
    world.running[HOME] = world.running[HOME][3:]
    assert reconciler.sweep(within=200.0).stopped == orphans[3:]


def test_who_gives_no_time_has_all_the_time_there_is(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, clock: Clock
) -> None:
    open_lines(ledger, job, [HOME] * 40)
    world.on_look = clock.goes_on(60.0)
    assert (reconciler.sweep().left, len(world.described)) == (0, 40)


@pytest.mark.parametrize("at_once", [1, 7, 100])
def test_every_thing_has_its_turn_within_a_few_rounds(at_once: int) -> None:
    things = [f"{number:08x}-0" for number in range(1000)]
    seen: set[str] = set()
    rounds = 3 * 1000 // at_once
    for sweep in range(4_000_000, 4_000_000 + rounds + 1):
        seen.update(rotated(things, str, sweep)[:at_once])
    assert seen == set(things)


def test_submissions_that_there_is_no_time_to_ask_batch_about_are_left_as_well(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, clock: Clock
) -> None:
    for submission in ("aaaaaaaa", "bbbbbbbb", "cccccccc"):
        open_lines(ledger, job, [HOME] * 2, submission)
    world.on_ask = clock.goes_on(60.0)
    done = reconciler.sweep(within=200.0)
    assert (done.left, len(world.described)) == (2, 4), "half of the time is for Batch, the rest for what it has said"


def test_a_region_that_lists_for_ever_is_not_waited_for_and_what_it_has_said_is_used(
    world: World, reconciler: Reconciler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphans = [world.runs("ffffffff", index, FAR) for index in range(20)]
    listed = Region.listed

    def slowly(self: Region, state: str) -> Any:
        for found in listed(self, state):
            clock.now += 10.0
            yield found

    monkeypatch.setattr(Region, "listed", slowly)
    done = unreached(reconciler, within=100.0).done
    assert done.stopped == orphans[:5]
    assert "5 training jobs were seen" in done.unreachable[FAR]


def test_a_line_that_waits_for_a_quota_is_not_asked_about_while_its_child_lives(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    waiting, lost = open_lines(ledger, job, [HOME] * 2, state="Waiting")
    for index, name in enumerate((waiting, lost)):
        ledger.record_job(SUBMISSION, index, 1, {"training_job": name})
    world.children = {1: "FAILED"}
    assert reconciler.sweep().closed == [lost]
    assert waiting not in world.described
    assert states(ledger) == ["Waiting", "Failed"]


def test_a_child_that_writes_into_its_line_while_the_sweep_looks_at_it_wins(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    open_lines(ledger, job, [HOME], state="Pending")
    world.children = {0: "FAILED"}

    def child_goes_on() -> None:
        ledger.record_job(SUBMISSION, 0, 1, {"batch_child": "array:0", "state": "InProgress"})

    world.on_look = child_goes_on
    assert reconciler.sweep().closed == []
    assert states(ledger) == ["InProgress"]


def test_a_child_that_opens_its_line_while_the_sweep_is_about_to_close_it_wins(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    ledger.claim_submission(SUBMISSION, "test", {"jobs": 1, "manifest": "s3://x/y", "version": "1"})
    ledger.record_submitted(SUBMISSION, "array")
    (body, _) = normalised([job])
    reconciler.storage.write(S3Uri(reconciler.bucket, jobs_key(SUBMISSION)), body, "application/jsonl")
    world.children = {0: "FAILED"}
    end = reconciler.ledger.end_unopened

    def opened_just_now(*arguments: Any) -> bool:
        ledger.open_job(SUBMISSION, job)
        return end(*arguments)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(reconciler.ledger, "end_unopened", opened_just_now)
        done = reconciler.sweep()
    assert (done.closed, states(ledger)) == ([], ["Pending"])
    assert names.training_job("traingrid", SUBMISSION, 0, 1) in reconciler.sweep().closed


def test_a_reconciler_gives_every_call_up_within_a_minute(
    aws: None, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, float]] = []

    def kept(service: str, _region: str | None, _role: object, config: Any) -> None:
        sends = config.retries["total_max_attempts"]
        if sends > 1:  # else it is for submitting, which a reconciler never does
            made.append((service, sends * (config.connect_timeout + config.read_timeout)))

    monkeypatch.setattr(clients, "_client", kept)
    reconciler = Reconciler.of(deployment)
    for region in deployment.grid.regions:
        reconciler.training_jobs(region)
        reconciler.backend(region)
    assert {service for service, _ in made} == {"dynamodb", "s3", "batch", "sagemaker"}
    assert max(seconds for _, seconds in made) < 60
