"""Audit of open work: reads no ended submission, unless a training job of it runs."""

import time
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from tests.support.local_page import REGIONS, LocalGrid
from traingrid import names
from traingrid.audit import read_snapshot
from traingrid.audit.audit import audit, notes
from traingrid.audit.snapshot import World
from traingrid.backends.inventory import ALL, Window
from traingrid.backends.training_job import TrainingJob
from traingrid.job.state import JobState
from traingrid.ledger.damage import Damaged
from traingrid.ledger.grid_items import HistoryScan
from traingrid.ledger.ledger import Ledger, LedgerItem
from verification.model.table import ModelTable

_OPEN, _ENDED, _UNKNOWN = "00000001", "00000002", "00000003"
_DAY = 24 * 3600


def training_job(submission: str, state: JobState = JobState.IN_PROGRESS, age: float = 100.0) -> TrainingJob:
    name = names.training_job("traingrid", submission, 0, 1)
    identity = names.parse_training_job("traingrid", name)
    assert identity
    at = time.time() - age
    return TrainingJob(name=name, identity=identity, region=REGIONS[0], state=state, created_at=at, arn=f"arn:{name}")


class Inventory:
    """The training jobs of a Region.

    Attributes:
        jobs: The training jobs.
        windows: The beginnings of the lists of all submissions.
    """

    def __init__(self) -> None:
        self.jobs: list[TrainingJob] = []
        self.windows: list[float] = []

    def listed(self, submission: str = "", window: Window = ALL) -> list[TrainingJob]:
        if not submission:
            self.windows.append(window.since)
        return [job for job in self.jobs if submission in ("", job.line[0]) and job.created_at >= window.since]

    def details(self, job: TrainingJob) -> Any:
        return job

    def has_our_tag(self, _: TrainingJob) -> bool:
        return True


class Children:
    """Batch, whose children all run."""

    def __init__(self, *_: Any) -> None: ...

    def of(self, *_: Any) -> dict[int, Any]:
        return {}


@pytest.fixture
def inventory(monkeypatch: pytest.MonkeyPatch) -> Inventory:
    """The first Region's training jobs; the others have none."""
    first, others = Inventory(), Inventory()
    monkeypatch.setattr(read_snapshot, "inventory_of", lambda _, region: first if region == REGIONS[0] else others)
    monkeypatch.setattr(read_snapshot, "_batch_job_ids_by_name", lambda *_: {})
    monkeypatch.setattr(read_snapshot, "Children", Children)
    return first


@pytest.fixture
def local(ledger: Ledger, inventory: Inventory, monkeypatch: pytest.MonkeyPatch) -> LocalGrid:
    """An open submission with a job that trains, and one that has ended and is settled."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    local = LocalGrid(ledger)
    job = training_job(_OPEN)
    key = local.train(local.submit(["a"], _OPEN)[0], _OPEN)
    ledger.record_job(key, {"training_job": job.name, "training_job_arn": job.arn})
    ended = training_job(_ENDED, JobState.COMPLETED, age=60 * _DAY)
    facts = {"state": JobState.COMPLETED, "training_job": ended.name, "training_job_arn": ended.arn}
    local.open(local.submit(["b"], _ENDED)[0], _ENDED, **facts)
    assert ledger.settle(_ENDED, ledger.open_marks()[_ENDED], {})
    ledger.record_history_scan(HistoryScan(completed_at=1))
    inventory.jobs = [job, ended]
    return local


def world(local: LocalGrid) -> World:
    return read_snapshot.read_world(local.deployment, is_complete=False)


def test_ended_submissions_and_their_training_jobs_are_not_read(
    local: LocalGrid, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ModelTable, "everything", lambda _: pytest.fail("the whole table was read"))
    seen = world(local)
    assert (set(seen.submissions), [job.line[0] for job in seen.training_jobs]) == ({_OPEN}, [_OPEN])
    assert audit(seen) == []
    assert [round((time.time() - since) / _DAY) for since in inventory.windows] == [2]


def test_training_jobs_are_listed_since_the_claim_of_the_oldest_open_submission(
    local: LocalGrid, inventory: Inventory, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("traingrid.ledger.ledger.now", lambda: "2026-01-01T00:00:00Z")
    local.submit(["c"], _UNKNOWN)
    world(local)
    assert inventory.windows == [1767225600.0 - 3600]


def test_a_running_training_job_of_an_ended_submission_is_an_orphan(local: LocalGrid, inventory: Inventory) -> None:
    inventory.jobs.append(replace(training_job(_ENDED), arn="arn:again", name="traingrid-00000002-0-2"))
    seen = world(local)
    (orphan,) = [violation for violation in audit(seen) if violation.kind == "orphan"]
    assert (orphan.submission, set(seen.submissions)) == (_ENDED, {_OPEN, _ENDED})
    assert len(seen.training_jobs) == 3, "also the one that has ended long ago"


def test_a_running_training_job_of_an_unknown_submission_is_an_orphan(local: LocalGrid, inventory: Inventory) -> None:
    inventory.jobs.append(training_job(_UNKNOWN))
    (orphan,) = audit(world(local))
    assert (orphan.submission, orphan.kind) == (_UNKNOWN, "orphan")


def test_a_submission_that_is_retried_during_the_audit_is_read_with_its_earlier_training_jobs(
    local: LocalGrid, monkeypatch: pytest.MonkeyPatch
) -> None:
    local.ledger._table.items[_ENDED, "submission"]["claimed_at"] = "2026-01-01T00:00:00Z"  # type: ignore[attr-defined]  # in memory
    open_items, reads = Ledger.open_items, list[int]()

    def retried(ledger: Ledger) -> Iterator[LedgerItem | Damaged]:
        if reads:
            ledger.mark_open(_ENDED)
        reads.append(1)
        return open_items(ledger)

    monkeypatch.setattr(Ledger, "open_items", retried)
    seen = world(local)
    assert (set(seen.submissions), len(seen.training_jobs)) == ({_OPEN, _ENDED}, 2)
    assert notes(seen) == []


def test_everything_is_read_before_the_index_of_open_work_is_complete(local: LocalGrid) -> None:
    local.ledger.record_history_scan(HistoryScan())
    assert set(world(local).submissions) == {_OPEN, _ENDED}
