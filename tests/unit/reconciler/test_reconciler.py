"""Passes: a pass continues after errors, stops training jobs first, and leaves the rest to the next pass."""

import time
from collections.abc import Callable
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from tests.support.ledger_items import job_key
from tests.support.reconciler_world import DENIED, SILENT, SLOW, Region, World, open_lines
from traingrid import names
from traingrid.aws import clients
from traingrid.aws.s3_uri import S3Uri
from traingrid.backends.inventory import ALL, Window
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.damage import Damaged, intact
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submission_item import Array
from traingrid.ledger.user_requests import CANCEL_ALL
from traingrid.reconciler import active_jobs, stops
from traingrid.reconciler import line_closer as closing
from traingrid.reconciler import reconciler as reconciling
from traingrid.reconciler import unwatched_lines as looking
from traingrid.reconciler.pass_order import rotated
from traingrid.reconciler.reach import UnreachedError
from traingrid.reconciler.reconciler import Reconciler
from traingrid.submission.files import jobs_key, normalised

pytestmark = pytest.mark.usefixtures("aws")

HOME, NEAR, FAR, GONE = "us-east-1", "us-west-2", "eu-west-1", "sa-east-1"
"""The last one is no Region of the grid any more."""
SUBMISSION = "0123abcd"


class Clock:
    """A clock that advances only when a test advances it."""

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
    for module in (reconciling, active_jobs, stops, looking, closing):
        monkeypatch.setattr(module, "time", SimpleNamespace(time=clock.time))
    return clock


def unreached(reconciler: Reconciler, within: float = 3600.0) -> UnreachedError:
    with pytest.raises(UnreachedError) as raised:
        reconciler.run_pass(within)
    return raised.value


def states(ledger: Ledger, submission: str = SUBMISSION) -> list[str]:
    return [item.state for item in intact(ledger.jobs(submission))]


def test_a_line_in_a_service_queue_is_counted_as_waiting(
    reconciler: Reconciler, world: World, ledger: Ledger, job: Job
) -> None:
    for index, name in enumerate(open_lines(ledger, job, ["us-east-1", "us-west-2"])):
        world.runs(SUBMISSION, index, ("us-east-1", "us-west-2")[index])
        ledger.record_job(job_key(index), {"phase": ("Queued", "Training")[index], "training_job": name})
    assert reconciler.run_pass().lines == {"Waiting": 1, "InProgress": 1}


def test_a_line_that_cannot_be_described_does_not_block_others(
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


def test_a_line_of_another_version_does_not_block_others(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    lines = open_lines(ledger, job, [HOME, HOME, HOME])
    world.ended = dict.fromkeys(lines, "Completed")
    world.fails[lines[1]] = ValueError("no such thing")
    assert "no such thing" in str(unreached(reconciler))
    assert states(ledger) == ["Completed", "InProgress", "Completed"]


def test_a_job_that_cannot_be_stopped_does_not_block_others(world: World, reconciler: Reconciler) -> None:
    orphans = [world.runs("ffffffff", index, HOME) for index in range(4)]
    world.fails |= {f"stop {orphans[0]}": SLOW, f"tags {orphans[1]}": SLOW}
    assert unreached(reconciler).done.stopped == world.stopped == orphans[2:]


def test_a_damaged_training_job_is_reported_and_others_are_stopped(world: World, reconciler: Reconciler) -> None:
    world.runs("abababab", 0, HOME)
    orphans = [world.runs("cdcdcdcd", 0, HOME), world.runs("cdcdcdcd", 1, FAR)]
    part = Damaged(place="The Job training/x", problem="has no valid request", next_step="Delete it.")
    first, *others = world.running[HOME]
    world.running[HOME] = [replace(first, damaged=part), *others]
    error = unreached(reconciler)
    assert error.done.unreachable == {"The Job training/x": "has no valid request"}
    assert "Delete it." in str(error)
    assert set(orphans) <= set(world.stopped)


def test_an_unreachable_removed_region_is_reported_with_the_next_step(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    lines = open_lines(ledger, job, [HOME, GONE])
    orphan = world.runs("ffffffff", 0, NEAR)
    world.ended = {lines[0]: "Completed"}
    world.fails[f"describe {GONE}"] = DENIED
    error = unreached(reconciler)
    assert (states(ledger), world.stopped) == (["Completed", "InProgress"], [orphan])
    assert "not authorized" in error.done.unreachable[GONE]
    assert f"{GONE}, which is no longer in grid.yaml" in str(error)
    assert "add it again and deploy" in str(error)


def test_jobs_in_a_removed_region_are_found_while_lines_are_open(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    open_lines(ledger, job, [GONE])
    name = world.runs(SUBMISSION, 0, GONE)
    ledger.request_cancel(SUBMISSION, CANCEL_ALL, {"by": "Ada"})
    assert reconciler.run_pass().stopped == [name]
    assert world.described == [], "a job that is listed as running need not be described"


def test_an_unreadable_submission_does_not_block_others(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    world.children = {0: "FAILED"}
    ledger.claim_submission("aaaaaaaa", "test", {"jobs": 1, "manifest": "s3://x/y", "version": "1"})
    ledger.record_submitted("aaaaaaaa", "array")
    reconciler.storage.write(S3Uri(reconciler.bucket, jobs_key("aaaaaaaa")), b"of another version\n", "text/plain")
    (name,) = open_lines(ledger, job, [HOME])
    world.ended = {name: "Completed"}
    file = S3Uri(reconciler.bucket, jobs_key("aaaaaaaa"))
    assert unreached(reconciler).done.unreachable == {f"Line 1 of {file}": "is not a job"}
    assert states(ledger) == ["Completed"]
    assert reconciler.run_pass().unreachable == {}, "its line has ended"


@pytest.mark.parametrize("content", [None, b""])
def test_lines_whose_file_is_gone_end_with_that_reason(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, content: bytes | None
) -> None:
    world.children = {0: "FAILED", 1: "RUNNING"}
    ledger.claim_submission(SUBMISSION, "test", {"jobs": 2, "manifest": "s3://x/y", "version": "1"})
    ledger.record_submitted(SUBMISSION, "array", [Array(batch_job="array", file="jobs.jsonl", count=2)])
    file = S3Uri(reconciler.bucket, jobs_key(SUBMISSION))
    if content is not None:
        reconciler.storage.write(file, content, "text/plain")
    problem = "does not exist" if content is None else "has 0 lines instead of 2"
    done = unreached(reconciler).done
    assert done.unreachable == {str(file): problem}
    assert done.closed == [names.training_job("traingrid", SUBMISSION, 0, 1)]
    assert states(ledger) == ["Failed"], "the child of the other line may still read it"
    reason = f"Its Batch child array:0 is FAILED: {file} {problem}."
    assert [(item.region, item.reason) for item in intact(ledger.jobs(SUBMISSION))] == [("", reason)]


def test_an_unreadable_submission_of_s3_is_an_error_and_ends_nothing(
    world: World, reconciler: Reconciler, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.children = {0: "FAILED"}
    ledger.claim_submission(SUBMISSION, "test", {"jobs": 1, "manifest": "s3://x/y", "version": "1"})
    ledger.record_submitted(SUBMISSION, "array", [Array(batch_job="array", file="jobs.jsonl", count=1)])

    def denied(*_: object) -> None:
        raise DENIED

    monkeypatch.setattr(reconciler.storage, "read_pinned", denied)
    assert list(unreached(reconciler).done.unreachable) == [f"submission {SUBMISSION}"]
    assert states(ledger) == []


def test_a_training_job_of_a_damaged_line_is_stopped_only_by_a_cancel(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    open_lines(ledger, job, [HOME, HOME])
    ledger._table.update((SUBMISSION, "job#00000"), {"region": 7}, "attribute_exists(region)", {})
    kept, orphan = world.runs(SUBMISSION, 0, HOME), world.runs("ffffffff", 0, HOME)
    assert unreached(reconciler).done.stopped == [orphan], "others are stopped as ever"
    world.running[HOME] = world.running[HOME][:1]
    ledger.request_cancel(SUBMISSION, CANCEL_ALL, {"by": "Ada"})
    error = unreached(reconciler)
    assert error.done.stopped == [kept]
    assert "item 'job#00000'" in str(error)
    assert "point-in-time recovery" in str(error)


def test_a_region_is_skipped_after_an_unanswered_call(
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


def test_unwanted_jobs_are_stopped_before_lines_are_checked(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, clock: Clock
) -> None:
    open_lines(ledger, job, [HOME] * 3)
    orphan = world.runs("ffffffff", 0, HOME)
    world.on_look = lambda: world.stopped.append("too late")
    assert reconciler.run_pass().stopped == [orphan]
    assert world.stopped[0] == orphan


def test_lines_without_time_are_checked_by_the_next_passes(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, clock: Clock
) -> None:
    lines = open_lines(ledger, job, [HOME] * 40)
    world.on_look = clock.goes_on(1.0)
    began = clock.now // 300 * 300
    for number in range(12):
        clock.now = began + 300 * number
        done = reconciler.run_pass(within=13.5)  # three quarters are for checking lines
        assert (len(world.described), done.left) == (11 * (number + 1), 29)
    assert set(world.described) == set(lines)


def test_jobs_that_one_pass_cannot_stop_are_stopped_by_the_next(
    world: World, reconciler: Reconciler, clock: Clock
) -> None:
    orphans = [world.runs("ffffffff", index, HOME) for index in range(4)]
    world.on_stop = clock.goes_on(50.0)
    assert reconciler.run_pass(within=200.0).stopped == orphans[:3]
    world.running[HOME] = world.running[HOME][3:]
    assert reconciler.run_pass(within=200.0).stopped == orphans[3:]


def test_a_pass_without_a_time_limit_checks_everything(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, clock: Clock
) -> None:
    open_lines(ledger, job, [HOME] * 40)
    world.on_look = clock.goes_on(60.0)
    assert (reconciler.run_pass().left, len(world.described)) == (0, 40)


@pytest.mark.parametrize("at_once", [1, 2, 7, 100])
def test_rotation_reaches_everything_within_a_few_rounds(at_once: int) -> None:
    things = [f"{number:08x}-0" for number in range(1000)]
    seen: set[str] = set()
    rounds = 3 * 1000 // at_once
    for number in range(4_000_000, 4_000_000 + rounds + 1):
        seen.update(rotated(things, str, number)[:at_once])
    assert seen == set(things)


def test_submissions_without_time_for_batch_calls_are_left(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, clock: Clock
) -> None:
    for submission in ("aaaaaaaa", "bbbbbbbb", "cccccccc"):
        open_lines(ledger, job, [HOME] * 2, submission)
    world.on_ask = clock.goes_on(60.0)
    done = reconciler.run_pass(within=200.0)
    assert (done.left, len(world.described)) == (2, 4), "half of the time is for Batch, the rest for the lines"


def test_endless_listing_is_cut_off_and_its_results_are_used(
    world: World, reconciler: Reconciler, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    orphans = [world.runs("ffffffff", index, FAR) for index in range(20)]
    listed = Region.listed

    def slowly(self: Region, state: str = "", window: Window = ALL) -> Any:
        if window.before < ALL.before:
            return
        for found in listed(self, state):
            clock.now += 10.0
            yield found

    monkeypatch.setattr(Region, "listed", slowly)
    done = unreached(reconciler, within=100.0).done
    assert done.stopped == orphans[:5]
    assert "5 training jobs were listed" in done.unreachable[FAR]


def test_a_waiting_line_with_a_live_child_is_not_described(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    waiting, lost = open_lines(ledger, job, [HOME] * 2, state=JobState.WAITING)
    for index, name in enumerate((waiting, lost)):
        ledger.record_job(job_key(index), {"training_job": name})
    world.children = {1: "FAILED"}
    assert reconciler.run_pass().closed == [lost]
    assert waiting not in world.described
    assert states(ledger) == ["Waiting", "Failed"]


def test_a_childs_write_during_a_check_wins(world: World, reconciler: Reconciler, ledger: Ledger, job: Job) -> None:
    open_lines(ledger, job, [HOME], state=JobState.PENDING)
    world.children = {0: "FAILED"}

    def child_goes_on() -> None:
        ledger.record_job(job_key(), {"batch_child": "array:0", "state": JobState.IN_PROGRESS})

    world.on_look = child_goes_on
    assert reconciler.run_pass().closed == []
    assert states(ledger) == ["InProgress"]


def test_a_child_that_opens_its_line_before_the_close_wins(
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
        done = reconciler.run_pass()
    assert (done.closed, states(ledger)) == ([], ["Pending"])
    assert names.training_job("traingrid", SUBMISSION, 0, 1) in reconciler.run_pass().closed


def test_every_call_of_the_reconciler_times_out_within_a_minute(
    aws: None, deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[tuple[str, float]] = []

    def kept(service: str, _region: str | None, _role: object, config: Any) -> None:
        sends = config.retries["total_max_attempts"]
        if sends > 1:  # otherwise it is for submitting, which a reconciler never does
            made.append((service, sends * (config.connect_timeout + config.read_timeout)))

    monkeypatch.setattr(clients, "_shared_client", kept)
    reconciler = Reconciler.of(deployment)
    for region in deployment.grid.regions:
        reconciler.inventory(region)
        reconciler.backend(region, "sagemaker")
    assert {service for service, _ in made} == {"dynamodb", "s3", "batch", "sagemaker"}
    assert max(seconds for _, seconds in made) < 60


def young(world: World, region: str) -> None:
    """Let the training jobs of a Region have been created just now."""
    world.running[region] = [replace(job, created_at=time.time()) for job in world.running[region]]


def test_a_training_job_of_an_attempt_that_is_over_is_stopped_however_young_it_is(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job
) -> None:
    open_lines(ledger, job, [HOME] * 3)
    late = [world.runs(SUBMISSION, index, HOME) for index in range(3)]
    orphan = world.runs("ffffffff", 0, HOME)
    young(world, HOME)
    failed: AttemptFacts = {"region": HOME, "state": JobState.FAILED}
    assert ledger.next_attempt(job_key(0), failed, HOME)
    assert ledger.record_job(job_key(1), {"state": JobState.FAILED})
    reconciler.grace_seconds = reconciling.GRACE_SECONDS
    assert reconciler.run_pass().stopped == late[:2]
    assert orphan not in world.stopped, "its line may not have been written yet"
