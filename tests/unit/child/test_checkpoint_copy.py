"""Checkpoint copy: a job that moves continues from its newest checkpoint, or records why it begins without one."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.copies import Calls, KilledError, kills, stored, upload
from tests.support.recorded_log import RecordedLog
from tests.support.sample_deployment import ACCOUNT, sample_deployment
from tests.support.sample_job import sample_job
from tests.support.supervised_job import known, supervisor
from tests.support.training_jobs import COMPLETED, NO_CAPACITY, FakeBackend
from traingrid import names
from traingrid.aws.s3_copy import CopyStore
from traingrid.aws.s3_uri import S3Uri
from traingrid.child.attempt import Attempt
from traingrid.child.checkpoint_copy import CheckpointCopy
from traingrid.child.checkpoint_prune import copied_folders, prune_checkpoints
from traingrid.child.main import Copies
from traingrid.child.spot_policy import Transfer
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job, JobReplica
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.items import JobItem
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.moves import Moves
from traingrid.submission.retry import outcome_of
from verification.model.table import ModelTable

EAST, WEST, SUBMISSION = "us-east-1", "eu-west-1", "0123abcd"
PLACE = {
    region: S3Uri.parse(names.checkpoint_prefix(names.output_prefix("traingrid", ACCOUNT, region, SUBMISSION, 0)))
    for region in (EAST, WEST)
}
Objects = dict[str, bytes]
BEGINNING = "Starts from the beginning: that of us-east-1 is not copied, because"


def folder(number: int, body: bytes = b"weights", *, best: bool = False) -> Objects:
    """Return the objects of a complete checkpoint."""
    name, files = f"checkpoint-{number:06d}-step-{number:09d}", {"a": [len(body), "c"], "b": [1, "c"]}
    state = json.dumps({"files": files, "best": best}).encode()
    return {f"{name}/a": body, f"{name}/b": b"b", f"{name}/state.json": state}


def deployment(**regions: dict[str, Any]) -> Deployment:
    """Return a grid that moves data, with settings of Regions by their names with underscores."""
    made = sample_deployment()
    grid = {**made.grid.model_dump(exclude_defaults=True), "moves": True}
    for region, settings in regions.items():
        grid["regions"][region.replace("_", "-")] |= settings
    return replace(made, grid=type(made.grid).model_validate(grid))


@pytest.fixture
def s3(aws: None) -> Any:
    client: Any = boto3.client("s3", EAST)
    client.create_bucket(Bucket=PLACE[EAST].bucket)
    client.create_bucket(Bucket=PLACE[WEST].bucket, CreateBucketConfiguration={"LocationConstraint": WEST})
    return client


@pytest.fixture
def roaming() -> Job:
    """A job with checkpoints, which may move to another Region and back."""
    job = sample_job(EAST)
    there = JobReplica(inputs=job.inputs, output=job.output, image=job.image, checkpoints=f"{PLACE[WEST]}/")
    return job.model_copy(update={"checkpoints": f"{PLACE[EAST]}/", "replicas": {WEST: there}, "retries": 3})


@pytest.fixture
def datasets(table: ModelTable, monkeypatch: pytest.MonkeyPatch) -> None:
    """No registered datasets, in the table of the copies."""
    monkeypatch.setattr("traingrid.ledger.datasets.Table", lambda *_: table)


class Trip:
    """A job whose attempts write checkpoints and then lose their capacity, one Region after the other.

    Attributes:
        written: The objects that each training writes at its start, in order; the last one completes.
        begun: The objects that each training found at its start.
        after_start: Called after each start.
    """

    def __init__(self, s3: Any, job: Job, ledger: Ledger, *written: Objects) -> None:
        self.s3, self.job, self.ledger, self.written = s3, job, ledger, list(written)
        self.begun: list[Objects] = []
        self.after_start: Callable[[], None] = lambda: None
        self.backends = {region: FakeBackend(COMPLETED) for region in (EAST, WEST)}
        for region, backend in self.backends.items():
            backend.on_create = partial(self._train, region)
            backend.describe = partial(self._describe, backend)  # type: ignore[method-assign]  # ends as the trip does

    def _train(self, region: str) -> None:
        self.begun.append(stored(self.s3, PLACE[region]))
        upload(self.s3, self.written.pop(0), PLACE[region])
        self.after_start()

    def _describe(self, backend: FakeBackend, name: str) -> Any:
        last = COMPLETED if not self.written else NO_CAPACITY
        return last if name in backend.created else None

    def run(self, grid: Deployment | None = None, copied: Callable[[Attempt], bool] | None = None) -> JobItem:
        def copy(attempt: Attempt) -> bool:
            return CheckpointCopy(attempt=attempt, deployment=grid or deployment(), item=attempt.item()).run()

        return supervisor(self.job, self.backends, self.ledger, copy_data=copied or copy).run()


def test_a_job_that_moves_continues_from_its_newest_complete_checkpoint(
    s3: Any, roaming: Job, ledger: Ledger, moves: Moves, log: RecordedLog
) -> None:
    partial_one = dict(list(folder(4).items())[1:])
    trip = Trip(s3, roaming, ledger, folder(1) | folder(2, best=True) | folder(3) | partial_one, {})
    item = trip.run()
    assert (item.state, item.region, item.attempt) == ("Completed", WEST, 2)
    assert trip.begun == [{}, folder(2, best=True) | folder(3)]
    size = sum(map(len, trip.begun[1].values()))
    assert (item.checkpoint_from, item.checkpoint_bytes) == (EAST, size)
    assert item.checkpoint_note == f"Continues from checkpoint-000003-step-000000003 of us-east-1, {size} bytes."
    copied = moves.find(str(PLACE[WEST]))
    assert copied is not None
    assert (copied.state, copied.transferred) == ("copied", {f"{SUBMISSION}/0": size})
    assert item.checkpoint_note in log.messages


def test_a_child_that_is_killed_at_any_call_never_trains_on_a_part_of_a_checkpoint(
    s3: Any, roaming: Job, ledger: Ledger, table: ModelTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(calls: Calls) -> Trip:
        for place in PLACE.values():
            for name in stored(s3, place):
                s3.delete_object(Bucket=place.bucket, Key=f"{place.key}/{name}")
        table.items.clear()
        with monkeypatch.context() as patched:
            patched.setattr("traingrid.child.data_copy.store_of", lambda region: calls.of(CopyStore(region)))
            trip = Trip(s3, roaming, ledger, folder(3), {})
            if calls.kill_at:
                with pytest.raises(KilledError):
                    trip.run()
            else:
                trip.run()
        return trip

    counted = Calls()
    run(counted)
    assert counted.made.count("copy") == 3
    for killed in kills(counted):
        trip = run(killed)
        there = stored(s3, PLACE[WEST])
        assert there.keys() in (folder(3).keys(), set()) or not any(name.endswith("json") for name in there)
        assert len(trip.begun) == 1, f"killed at call {killed.kill_at}"
        assert trip.run().state == "Completed"
        assert trip.begun == [{}, folder(3)], f"killed at call {killed.kill_at}"


def test_a_job_that_moves_back_takes_the_newer_checkpoint_along(s3: Any, roaming: Job, ledger: Ledger) -> None:
    trip = Trip(s3, roaming, ledger, folder(3), folder(4) | folder(5), {})
    item = trip.run()
    assert (item.region, item.attempt) == (EAST, 3)
    assert trip.begun[2] == folder(3) | folder(5)
    assert [previous.checkpoint_from for previous in item.tried] == ["", EAST]
    assert [attempt.checkpoint_note[:14] for attempt in item.attempts().values()] == ["", *["Continues from"] * 2]


def test_a_job_that_trained_nothing_elsewhere_continues_from_its_own_checkpoint(
    s3: Any, roaming: Job, ledger: Ledger
) -> None:
    trip = Trip(s3, roaming, ledger, folder(3), {}, {})
    item = trip.run()
    assert trip.begun == [{}, folder(3), folder(3)]
    assert (item.region, item.checkpoint_from, item.checkpoint_note) == (EAST, "", "")


def test_a_conflict_leaves_the_job_with_the_checkpoint_that_its_region_has(
    s3: Any, roaming: Job, ledger: Ledger
) -> None:
    """The first Region has a part of a checkpoint of the same name, with other weights."""
    part = {"checkpoint-000005-step-000000005/a": b"WEIGHTS"}
    item = Trip(s3, roaming, ledger, folder(3) | part, folder(5), {}).run()
    assert item.state == "Completed"
    text = "Continues from checkpoint-000003-step-000000003 of us-east-1: checkpoint-000005-step-000000005 of eu-west-1"
    assert item.checkpoint_note.startswith(f"{text} is not copied: s3://")
    assert "is not a copy of the source's object" in item.checkpoint_note


SHARDS = {"step_1/__0_0.distcp": b"a", "step_1/.metadata": b"m"}


def test_a_checkpoint_of_unknown_format_is_copied_as_a_whole(s3: Any, roaming: Job, ledger: Ledger) -> None:
    trip = Trip(s3, roaming, ledger, SHARDS, {})
    assert trip.run().checkpoint_note == "Continues from the checkpoint of us-east-1, 2 bytes."
    assert trip.begun == [{}, SHARDS]


def test_checkpoints_of_unknown_format_are_not_mixed(s3: Any, roaming: Job, ledger: Ledger) -> None:
    trip = Trip(s3, roaming, ledger, SHARDS, {"step_2/.metadata": b"n"}, {})
    item = trip.run()
    assert trip.begun == [{}, SHARDS, SHARDS]
    assert item.checkpoint_note.startswith("Continues from the checkpoint of us-east-1: the checkpoint of eu-west-1 is")
    assert "could mix the two" in item.checkpoint_note


def test_a_job_fails_rather_than_train_on_a_part_of_a_checkpoint_of_unknown_format(
    s3: Any, roaming: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def change(name: str) -> None:
        if name == "page" and len(stored(s3, PLACE[WEST])) == len(SHARDS):
            upload(s3, {"step_1/__0_0.distcp": b"b"}, PLACE[EAST])

    calls = Calls()
    calls.before_each = change
    monkeypatch.setattr("traingrid.child.data_copy.store_of", lambda region: calls.of(CopyStore(region)))
    trip = Trip(s3, roaming, ledger, SHARDS, {})
    item = trip.run()
    assert (item.state, item.failure, trip.begun) == ("Failed", "copy", [{}])
    assert item.reason.startswith("A part of the checkpoint of us-east-1 was copied. s3://")
    assert "changed while it was copied" in item.reason


@pytest.mark.parametrize(
    ("regions", "areas"),
    [
        ({"us_east_1": {"residency": ["us"]}, "us_west_2": {"residency": ["us"]}}, "us"),
        ({"us_east_1": {"checkpoint_residency": [EAST]}}, EAST),
    ],
)
def test_a_checkpoint_stays_within_its_residency(
    s3: Any, roaming: Job, ledger: Ledger, regions: dict[str, Any], areas: str
) -> None:
    reason = f"grid.yaml allows the checkpoints of us-east-1 only in {areas}"
    trip = Trip(s3, roaming, ledger, folder(3), {})
    item = trip.run(deployment(**regions))
    assert trip.begun == [{}, {}]
    assert (item.state, item.checkpoint_note) == ("Completed", f"{BEGINNING} {reason}.")
    assert (item.checkpoint_from, item.checkpoint_bytes, item.checkpoint_dollars) == ("", 0, 0.0)


def pruned(moves: Moves) -> str:
    copied = moves.find(str(PLACE[WEST]))
    assert copied is not None
    return copied.state


def test_a_copy_in_which_no_training_continued_is_removed_when_the_job_has_left(
    s3: Any, roaming: Job, ledger: Ledger, moves: Moves, datasets: None
) -> None:
    item = Trip(s3, roaming, ledger, folder(3), {}, {}).run()
    assert (item.state, item.region, stored(s3, PLACE[WEST])) == ("Completed", EAST, folder(3))
    prune_checkpoints(copied_folders(item, deployment()), deployment(), "child")
    assert (stored(s3, PLACE[WEST]), pruned(moves)) == ({}, "pruned")
    assert stored(s3, PLACE[EAST]) == folder(3)


def test_a_folder_in_which_a_training_continued_stays_whole(
    s3: Any, roaming: Job, ledger: Ledger, moves: Moves, datasets: None
) -> None:
    shared = SHARDS | {"step_1/more": b"x"}
    item = Trip(s3, roaming, ledger, shared, {"step_2/.metadata": b"n"}, {}).run()
    prune_checkpoints(copied_folders(item, deployment()), deployment(), "child")
    assert stored(s3, PLACE[WEST]) == shared | {"step_2/.metadata": b"n"}
    assert pruned(moves) == "pruned", "it is not listed as a copy any more"


def test_a_removal_that_was_interrupted_ends_before_the_next_copy(
    s3: Any, roaming: Job, ledger: Ledger, moves: Moves, datasets: None
) -> None:
    def interrupt() -> None:
        copied = moves.find(str(PLACE[WEST]))
        if len(trip.begun) == 3 and copied:
            s3.delete_object(Bucket=PLACE[WEST].bucket, Key=f"{PLACE[WEST].key}/step_1/.metadata")
            assert moves.change(copied, replace(copied, state="pruning", owner="a child that was killed"))

    trip = Trip(s3, roaming, ledger, SHARDS, {}, {}, {})
    trip.after_start = interrupt
    item = trip.run()
    assert (item.state, item.region) == ("Completed", WEST)
    assert trip.begun == [{}, SHARDS, SHARDS, SHARDS]


def test_a_corrected_line_does_not_take_a_checkpoint_out_of_the_residency_of_the_earlier_line(
    s3: Any, roaming: Job, ledger: Ledger
) -> None:
    failed = replace(NO_CAPACITY, reason="AlgorithmError")
    first = Trip(s3, roaming.model_copy(update={"residency": ("us",), "replicas": {}}), ledger, folder(3))
    first.backends[EAST].describe = lambda name: failed if first.begun else None  # type: ignore[method-assign]  # fails at its start
    item = first.run()
    assert item.state == "Failed"
    assert ledger.next_attempt(item.key, outcome_of(item), WEST, reopen="retry-1")
    second = Trip(s3, roaming, ledger, {})
    assert second.run().checkpoint_note == f"{BEGINNING} its line allowed its data only in us."
    assert second.begun == [{}]


def test_the_other_engine_of_a_region_uses_the_same_folder(s3: Any, roaming: Job, ledger: Ledger) -> None:
    here = roaming.model_copy(update={"backends": ("sagemaker", "eks"), "replicas": {}})
    trip = Trip(s3, here, ledger, folder(3), {})
    item = trip.run(copied=lambda _attempt: pytest.fail("a copy began"))
    assert (item.state, item.backend, trip.begun) == ("Completed", "eks", [{}, folder(3)])


def test_checkpoints_may_be_where_data_may_not(s3: Any, roaming: Job, ledger: Ledger) -> None:
    settings = {"residency": ["us"], "checkpoint_residency": ["us", "eu"]}
    both = {"residency": ["us"], "checkpoint_residency": ["us", "eu"]}
    eu = {"residency": ["eu"]}
    grid = deployment(us_east_1=settings, us_west_2=both, eu_west_1=eu, eu_central_1=eu)
    trip = Trip(s3, roaming, ledger, folder(3), {})
    trip.run(grid)
    assert trip.begun == [{}, folder(3)]
    assert not grid.grid.may_hold(WEST, EAST)


def test_a_grid_without_moves_copies_no_checkpoint(s3: Any, roaming: Job, ledger: Ledger) -> None:
    trip = Trip(s3, roaming, ledger, folder(3), {})
    assert trip.run(sample_deployment()).checkpoint_note == f"{BEGINNING} `moves` is not set in grid.yaml."
    assert trip.begun == [{}, {}]


def test_a_job_that_moves_back_without_a_copy_continues_from_what_its_region_has(
    s3: Any, roaming: Job, ledger: Ledger
) -> None:
    trip = Trip(s3, roaming, ledger, folder(3), folder(1), {})
    text = trip.run(sample_deployment()).checkpoint_note
    assert text.startswith(
        "Continues from the checkpoints of us-east-1, if it has any: that of eu-west-1 is not copied"
    )
    assert trip.begun == [{}, {}, folder(3)]


def test_the_own_folder_of_a_line_is_used_as_it_is(s3: Any, roaming: Job, ledger: Ledger) -> None:
    own = {WEST: roaming.replicas[WEST].model_copy(update={"checkpoints": f"s3://{PLACE[WEST].bucket}/shared/"})}
    item = Trip(s3, roaming.model_copy(update={"replicas": own}), ledger, folder(3), {}).run()
    assert item.checkpoint_note.startswith(f"Uses s3://{PLACE[WEST].bucket}/shared/ as it is")


def test_a_job_without_a_complete_checkpoint_starts_from_the_beginning(s3: Any, roaming: Job, ledger: Ledger) -> None:
    trip = Trip(s3, roaming, ledger, dict(list(folder(3).items())[:2]), {})
    assert trip.run().checkpoint_note == "Starts from the beginning: no other Region has a complete checkpoint."


@pytest.mark.parametrize("changes", [{"checkpoints": ""}, {"replicas": {}}])
def test_a_job_without_checkpoints_or_without_a_move_copies_nothing(
    s3: Any, roaming: Job, ledger: Ledger, changes: dict[str, Any]
) -> None:
    bare = {WEST: roaming.replicas[WEST].model_copy(update={"checkpoints": ""})}
    trip = Trip(s3, roaming.model_copy(update={"replicas": bare, **changes}), ledger, {}, {})
    trip.run(copied=lambda _attempt: pytest.fail("a copy began"))
    assert known(ledger).checkpoint_note == ""


FREE, SIZE = Transfer(), len(b"".join(folder(3).values()))


@pytest.mark.parametrize(
    ("here", "there", "grid", "transfer"),
    [
        (folder(3), {}, {}, Transfer(SIZE / 85e6, round(SIZE / 1e9 * 0.02, 6))),
        ({}, {}, {}, FREE),
        (dict(list(folder(3).items())[:2]), {}, {}, FREE),
        (folder(3), folder(3), {}, FREE),
        (folder(3), folder(4), {}, FREE),
        (folder(3), {}, {"us_east_1": {"checkpoint_residency": [EAST]}}, None),
    ],
)
def test_the_transfer_of_a_job_that_may_move_is_known_before_it_moves(  # noqa: PLR0917  # the columns of a table
    s3: Any, roaming: Job, ledger: Ledger, here: Objects, there: Objects, grid: Any, transfer: Transfer | None
) -> None:
    trip = Trip(s3, roaming, ledger, there)
    assert transfer_to_west(trip, deployment(**grid)) == FREE, "it has not trained"
    trip.run()
    upload(s3, here, PLACE[EAST])
    upload(s3, there, PLACE[WEST])
    assert transfer_to_west(trip, deployment(**grid)) == transfer
    assert stored(s3, PLACE[WEST]) == there, "nothing is copied"


def test_a_checkpoint_that_cannot_be_read_now_is_not_waited_for(
    s3: Any, roaming: Job, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object) -> None:
        raise EndpointConnectionError(endpoint_url="https://s3.us-east-1.amazonaws.com")

    trip = Trip(s3, roaming, ledger, folder(3))
    trip.run()
    monkeypatch.setattr(CopyStore, "page", fail)
    assert transfer_to_west(trip, deployment()) is None


@pytest.mark.parametrize("is_own_folder", [True, False])
def test_a_job_that_has_only_waited_moves_without_a_checkpoint(
    s3: Any, roaming: Job, ledger: Ledger, is_own_folder: bool
) -> None:
    """Only the checkpoints of a job that has trained are kept back by its grid, or are in a line's own folder."""
    if is_own_folder:
        own = {"checkpoints": "s3://mine/c/"}
        replicas = {region: replica.model_copy(update=own) for region, replica in roaming.replicas.items()}
        roaming = roaming.model_copy(update={**own, "replicas": replicas})
    trip = Trip(s3, roaming, ledger, {})
    key = ledger.open_job(SUBMISSION, trip.job, trip.job.regions).key
    waited: AttemptFacts = {"region": EAST, "state": JobState.STOPPED, "training_job": "a", "billable_seconds": 0}
    assert ledger.next_attempt(key, waited, EAST)
    key = replace(key, attempt=2)
    ledger.record_job(key, {"training_job": "b", "phase": "Starting", "state": JobState.IN_PROGRESS})
    grid = deployment(**({} if is_own_folder else {"us_east_1": {"checkpoint_residency": [EAST]}}))
    upload(s3, folder(3), PLACE[EAST])
    assert transfer_to_west(trip, grid) == FREE
    ledger.record_job(key, {"training_started_at": 1})
    assert transfer_to_west(trip, grid) is None


def transfer_to_west(trip: Trip, grid: Deployment) -> Transfer | None:
    """Return the transfer of a job that is in the eastern Region, as its child asks for it."""
    child = supervisor(trip.job, trip.backends, trip.ledger)
    attempt = child._attempt(trip.ledger.open_job(SUBMISSION, trip.job, trip.job.regions))
    return Copies(deployment=grid).transfer(attempt, WEST)
