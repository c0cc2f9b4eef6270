"""Prune and children: a child that starts while a copy is removed never trains on a part of the data."""

from collections.abc import Callable
from typing import Any

import pytest

from tests.support.copies import CONTENT, SOURCE, TARGET, Calls, KilledError, folders, kills, stored
from tests.support.mover import Mover
from tests.support.sample_deployment import sample_deployment
from tests.support.supervised_job import supervisor
from tests.support.training_jobs import COMPLETED, FakeBackend, FakeTime
from traingrid.audit.prune import Prune, PruneReport
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_delete import Deleter
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.job import Job
from traingrid.ledger.datasets import Datasets
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.moves import MoveItem, Moves
from traingrid.submission.files import jobs_key, normalised
from traingrid.submission.folders_in_use import FolderFinder
from verification.model.table import ModelTable

SUBMISSION = "0123abcd"


class Scene:
    """A verified copy that an ended job has made, and a second job with the same folders that may be submitted."""

    def __init__(self, s3: Any, moves: Moves, ledger: Ledger, first: Job) -> None:
        self.s3, self.moves, self.ledger, self.first = s3, moves, ledger, first
        self.second = first.model_copy(update={"index": 1})
        self.storage, self.bucket = Storage(), sample_deployment().manifest_bucket
        self.trained_on: list[dict[str, bytes]] = []
        supervisor(first, FakeBackend(COMPLETED), ledger, copy_data=Mover(s3, moves)).run()
        self.listed = self.present()

    def present(self) -> MoveItem:
        found = self.moves.find(str(TARGET))
        assert found is not None
        return found

    def submit_second(self) -> None:
        body, _ = normalised([self.first, self.second])
        self.storage.write(S3Uri(self.bucket, jobs_key(SUBMISSION)), body, "application/x")
        self.ledger.claim_submission(SUBMISSION, "test", {"manifest": "s3://m/a.csv", "jobs": 2})

    def child(self, calls: Calls | None = None) -> None:
        """Run the second job's child until its training job runs, or until it waits."""
        time, backend = FakeTime(), FakeBackend(COMPLETED)
        time.on_sleep = _end
        backend.on_create = self._train
        mover = Mover(self.s3, self.moves, calls)
        with pytest.raises(KilledError):
            supervisor(self.second, backend, self.ledger, time, copy_data=mover).run()

    def prune(self, calls: Calls | None = None) -> PruneReport:
        calls = calls or Calls()
        finder = FolderFinder(storage=self.storage, bucket=self.bucket)

        def user_now() -> str:
            return finder.find(self.ledger.everything()).user_of(str(TARGET), "eu-west-1")

        return Prune(
            item=self.listed,
            moves=calls.of(self.moves),
            datasets=Datasets("x"),
            folders=folders(calls),
            deleter=calls.of(Deleter("eu-west-1")),
            user_now=lambda: str(calls.make("user_now", user_now)),
            owner="prune-1",
        ).run()

    def _train(self) -> None:
        self.trained_on.append(stored(self.s3))
        raise KilledError


def _end() -> None:
    raise KilledError


@pytest.fixture
def scene(  # noqa: PLR0917  # fixtures
    s3: Any, moves: Moves, ledger: Ledger, moving: Job, table: ModelTable, monkeypatch: pytest.MonkeyPatch
) -> Callable[[], Scene]:
    """Returns a new scene at each call."""
    monkeypatch.setattr("traingrid.ledger.datasets.Table", lambda *_: table)

    def made() -> Scene:
        table.items.clear()
        for name in stored(s3):
            s3.delete_object(Bucket=TARGET.bucket, Key=f"{TARGET.key}/{name}")
        s3.delete_object(Bucket=sample_deployment().manifest_bucket, Key=jobs_key(SUBMISSION))
        return Scene(s3, moves, ledger, moving)

    return made


def once_before(calls: Calls, number: int, action: Callable[[], Any]) -> None:
    """Run an action before the call with a number."""

    def run(_name: str) -> None:
        if len(calls.made) == number:
            action()

    calls.before_each = run


def test_a_child_that_starts_before_any_call_of_a_prune_trains_on_all_of_the_data(scene: Callable[[], Scene]) -> None:
    counted = Calls()
    assert scene().prune(counted).result == "pruned"
    results = set()
    for number in range(1, len(counted.made) + 1):
        now = scene()
        calls = Calls()
        once_before(calls, number, lambda now=now: (now.submit_second(), now.child()))  # type: ignore[misc]  # mypy infers no type for this lambda
        results.add(now.prune(calls).result)
        if not now.trained_on:  # it waited until the copy was removed
            now.child()
        assert now.trained_on == [CONTENT], f"before call {number}, {counted.made[number - 1]}"
        assert stored(now.s3) == CONTENT, "no object was deleted after the training had begun"
        assert now.present().state == "copied"
    assert results == {"pruned", "needed"}


def test_a_prune_before_any_call_of_a_child_leaves_its_training_all_of_the_data(scene: Callable[[], Scene]) -> None:
    counted = Calls()
    first = scene()
    first.submit_second()
    first.child(counted)
    for number in range(1, len(counted.made) + 1):
        now, calls = scene(), Calls()
        now.submit_second()
        once_before(calls, number, now.prune)
        now.child(calls)
        now.child()  # a child that was waiting
        assert now.trained_on
        assert all(content == CONTENT for content in now.trained_on), f"before call {number}"
        assert stored(now.s3) == CONTENT


def test_a_prune_that_is_killed_at_any_call_is_continued_by_the_next_one(scene: Callable[[], Scene]) -> None:
    counted = Calls()
    scene().prune(counted)
    for killed in kills(counted):
        now = scene()
        with pytest.raises(KilledError):
            now.prune(killed)
        now.submit_second()
        if now.present().state == "pruning":
            now.child()
            assert now.trained_on == [], "the child waits"
            now.listed = now.present()
            assert now.prune().result == "pruned"
        now.child()
        assert now.trained_on == [CONTENT], f"killed at call {killed.kill_at}"
        assert stored(now.s3, SOURCE) == CONTENT


def test_a_child_states_that_it_waits_for_a_prune(scene: Callable[[], Scene]) -> None:
    now = scene()
    with pytest.raises(KilledError):
        now.prune(Calls(4))
    now.child()
    item = now.ledger.job(SUBMISSION, 1)
    assert item is not None
    assert (item.state, item.reason.split(",")[0]) == (
        "Waiting",
        "Waits until `traingrid data prune` has removed an earlier copy",
    )
