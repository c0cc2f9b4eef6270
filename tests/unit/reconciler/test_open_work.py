"""Open work: a pass reads open submissions, and a daily scan over the whole ledger adds those the index lacks."""

import math
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from tests.support.ledger_items import existing, job_key
from tests.support.module_time import replace_time
from tests.support.reconciler_world import Region, World, a_reconciler, open_lines
from traingrid.backends.inventory import ALL, ListingTimeoutError, Window
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.late_request import CREATES_END_SECONDS, late_after_minutes, refusing
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.grid_items import HistoryScan
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.timestamps import timestamp
from traingrid.reconciler.open_work import RECENT_SECONDS, SCAN_SECONDS, OpenWork, listed_since
from traingrid.reconciler.pass_report import PassReport
from traingrid.reconciler.reach import Reach, UnreachedError
from traingrid.reconciler.reconciler import Reconciler
from verification.model.table import ModelTable

pytestmark = pytest.mark.usefixtures("aws")

HOME = "us-east-1"
SUBMISSION = "0123abcd"
FAILED: AttemptFacts = {"region": HOME, "state": JobState.FAILED}


def end(ledger: Ledger, submission: str, count: int = 1, state: JobState = JobState.FAILED) -> None:
    for index in range(count):
        assert ledger.record_job(job_key(index, submission=submission), {"state": state})


def some_time_ago(table: ModelTable) -> None:
    """Let all marks be so old that the work they announce has begun."""
    for key in [key for key in table.items if key[0] == "open"]:
        table.items[key]["at"] = timestamp(time.time() - CREATES_END_SECONDS - 1)


def older_version(table: ModelTable) -> None:
    """Remove the items that versions without the index do not write."""
    for key in [key for key in table.items if key[0] == "open" or key == ("grid", "history")]:
        del table.items[key]


def test_an_ended_submission_is_not_read_again_until_a_retry(
    reconciler: Reconciler, ledger: Ledger, job: Job, table: ModelTable
) -> None:
    open_lines(ledger, job, [HOME], "aaaaaaaa")
    open_lines(ledger, job, [HOME], SUBMISSION)
    end(ledger, "aaaaaaaa")
    assert set(ledger.open_marks()) == {"aaaaaaaa", SUBMISSION}
    some_time_ago(table)
    reconciler.run_pass()
    assert set(ledger.open_marks()) == {SUBMISSION}
    assert existing(ledger.submission("aaaaaaaa")).ended == {JobState.FAILED: 1}
    ledger.claim_retry("aaaaaaaa", {"by": "Ada"})
    assert ledger.next_attempt(job_key(submission="aaaaaaaa"), FAILED, HOME, reopen="retry-1")
    assert reconciler.run_pass().lines == {JobState.IN_PROGRESS: 1, JobState.PENDING: 1}


def test_a_submission_that_is_retried_while_a_pass_ends_stays_open(
    world: World, deployment: Deployment, ledger: Ledger, job: Job
) -> None:
    open_lines(ledger, job, [HOME])
    end(ledger, SUBMISSION)
    work, done = OpenWork(ledger=ledger, notifies=False), PassReport()
    submissions, marks = work.read(float("inf"), Reach([HOME], done))
    assert submissions[SUBMISSION].has_ended
    ledger.claim_retry(SUBMISSION, {"by": "Ada"})
    work.settle(submissions, marks, float("inf"))
    assert set(ledger.open_marks()) == {SUBMISSION}


def test_a_submission_whose_retry_has_not_reopened_a_job_yet_stays_open(
    reconciler: Reconciler, ledger: Ledger, job: Job, table: ModelTable
) -> None:
    open_lines(ledger, job, [HOME])
    end(ledger, SUBMISSION)
    some_time_ago(table)
    is_late = late_after_minutes()
    ledger.claim_retry(SUBMISSION, {"by": "Ada"})
    reconciler.run_pass()
    assert set(ledger.open_marks()) == {SUBMISSION}, "it sees no open job, but the mark is new"
    with refusing(is_late):
        assert ledger.next_attempt(job_key(), FAILED, HOME, reopen="retry-1")
    assert reconciler.run_pass().lines == {JobState.PENDING: 1}


def test_a_ledger_of_a_version_without_the_index_is_completed_by_the_first_pass(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, table: ModelTable
) -> None:
    lines = open_lines(ledger, job, [HOME, HOME])
    open_lines(ledger, job, [HOME] * 3, "aaaaaaaa")
    end(ledger, "aaaaaaaa", 3)
    older_version(table)
    before = {key: dict(item) for key, item in table.items.items()}
    world.ended = {lines[0]: "Completed"}
    done = reconciler.run_pass()
    assert done.recorded == [lines[0]]
    assert done.history.startswith("complete: 1 pages, 2 submissions added")
    assert set(ledger.open_marks()) == {SUBMISSION}, "the other one has ended"
    kept = {key: table.items[key] for key in before}
    end_fields = {"settled": 0, "ended": 0}
    changed = {key for key in before if kept[key] | end_fields != before[key] | end_fields}
    assert changed == {(SUBMISSION, "job#00000")}, "no other item has changed, and none is lost"
    assert reconciler.run_pass().history == ""


def test_a_job_that_an_older_version_has_reopened_is_found_within_a_day(
    reconciler: Reconciler, ledger: Ledger, job: Job, table: ModelTable
) -> None:
    open_lines(ledger, job, [HOME])
    end(ledger, SUBMISSION)
    some_time_ago(table)
    reconciler.run_pass()
    assert ledger.open_marks() == {}
    ledger.next_attempt(job_key(), FAILED, HOME, reopen="retry-1")
    assert reconciler.run_pass().lines == {}
    ledger.record_history_scan(HistoryScan(completed_at=ledger.history_scan().completed_at - SCAN_SECONDS))
    assert reconciler.run_pass().lines == {JobState.PENDING: 1}


def test_a_pass_continues_where_the_last_pass_has_stopped(
    ledger: Ledger, job: Job, table: ModelTable, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        open_lines(ledger, job, [HOME], f"{number:08x}")
    older_version(table)
    whole = table.scan_page

    def a_submission_each(condition: str, values: Any, after: Any) -> tuple[list[tuple[str, str]], Any]:
        keys, _ = whole(condition, values, None)
        heads = sorted(key for key in keys if key[1] == "submission")
        place = heads.index((after["submission"], after["item"])) + 1 if after else 0
        last = dict(zip(("submission", "item"), heads[place], strict=True))
        return [heads[place]], last if place < len(heads) - 1 else None

    monkeypatch.setattr(table, "scan_page", a_submission_each)
    work, progress = OpenWork(ledger=ledger, notifies=False), []
    for _ in range(5):
        done = PassReport()
        work.continue_scan(0.0, Reach([HOME], done), done)
        progress.append((len(ledger.open_marks()), done.history.partition(", begun")[0]))
    assert progress == [
        (1, "in progress: 1 pages, 1 submissions added"),
        (2, "in progress: 2 pages, 2 submissions added"),
        (3, "in progress: 3 pages, 3 submissions added"),
        (4, "complete: 4 pages, 4 submissions added"),
        (4, ""),
    ]


def test_submissions_without_time_are_reported_and_read_by_later_passes(
    world: World, reconciler: Reconciler, ledger: Ledger, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    for number in range(4):
        open_lines(ledger, job, [HOME], f"{number:08x}")
    read: Counter[str] = Counter()
    whole, now = Ledger.whole, [1_795_000_000.0]

    def slowly(ledger: Ledger, submission: str) -> Any:
        read[submission] += 1
        now[0] += 10.0
        return whole(ledger, submission)

    monkeypatch.setattr(Ledger, "whole", slowly)
    for module in ("open_work", "reconciler", "active_jobs", "stops", "unwatched_lines"):
        replace_time(monkeypatch, f"traingrid.reconciler.{module}", time=lambda: now[0])
    for number in range(12):
        now[0] = 1_795_000_000.0 + 300 * number
        with pytest.raises(
            UnreachedError, match="the ledger: Reading the open submissions took too long; 3 were not read"
        ):
            reconciler.run_pass(within=30.0)
    assert len(read) == 4


def test_a_mark_whose_claimant_died_is_removed_after_a_day(
    reconciler: Reconciler, ledger: Ledger, table: ModelTable
) -> None:
    ledger.mark_open(SUBMISSION)
    reconciler.run_pass()
    assert set(ledger.open_marks()) == {SUBMISSION}
    table.items["open", SUBMISSION]["at"] = timestamp(1_790_000_000)
    reconciler.run_pass()
    assert ledger.open_marks() == {}


@pytest.mark.parametrize("change", [{"region": 7}, {"state": None}])
def test_a_submission_with_a_damaged_item_stays_open(
    reconciler: Reconciler, ledger: Ledger, job: Job, table: ModelTable, change: dict[str, Any]
) -> None:
    open_lines(ledger, job, [HOME])
    end(ledger, SUBMISSION)
    table.items[SUBMISSION, "job#00000"] |= change
    for _ in range(2):
        with pytest.raises(UnreachedError, match="job#00000"):
            reconciler.run_pass()


def test_the_reads_of_a_pass_do_not_grow_with_the_history(
    world: World, deployment: Deployment, ledger: Ledger, job: Job, table: ModelTable
) -> None:
    reconciler, reads = a_reconciler(world, deployment, ledger), []
    open_lines(ledger, job, [HOME] * 5)
    for size in (0, 20, 200):
        for number in range(size):
            name = f"{size:04x}{number:04x}"
            ledger.claim_submission(name, "test", {"jobs": 1, "manifest": "s3://x/y"})
            ledger.record_submitted(name, "array")
            ledger.open_job(name, job)
            end(ledger, name)
        some_time_ago(table)
        reconciler.run_pass()  # settles the new history
        reads.append(items_read(table, reconciler.run_pass))
    assert reads[0] == reads[1] == reads[2]


def items_read(table: ModelTable, call: Callable[[], object]) -> int:
    """Return the number of items that a call reads."""
    count, query, everything = [0], table.query, table.everything

    def counted(items: Any) -> Any:
        for item in items:
            count[0] += 1
            yield item

    table.query = lambda *arguments: counted(query(*arguments))  # type: ignore[method-assign]  # counts
    table.everything = lambda: counted(everything())  # type: ignore[method-assign]  # counts
    call()
    table.query, table.everything = query, everything  # type: ignore[method-assign]  # as before
    return count[0]


def test_training_jobs_are_listed_back_to_the_oldest_open_attempt(ledger: Ledger, job: Job, table: ModelTable) -> None:
    now, day = 1_795_000_000.0, 24 * 3600

    def days() -> float:
        work = OpenWork(ledger=ledger, notifies=False)
        submissions, _ = work.read(float("inf"), Reach([HOME], PassReport()))
        return round((now - listed_since(submissions.values(), now)) / day, 2)

    assert days() == 2
    open_lines(ledger, job, [HOME, HOME])
    for index, age in enumerate((0, 9)):
        table.items[SUBMISSION, f"job#{index:05d}"]["opened_at"] = timestamp(now - age * day)
    assert days() == 9.04, "with an hour for the difference of two clocks"
    table.items[SUBMISSION, "job#00001"]["opened_at"] = timestamp(now - 100 * day)
    assert days() == 58, "no training job is active for longer"
    table.items[SUBMISSION, "job#00001"]["opened_at"] = 7
    assert days() == 58, "a damaged line may be of any age"


def test_an_old_training_job_of_an_ended_line_is_stopped_by_the_daily_pass(
    world: World, reconciler: Reconciler, ledger: Ledger
) -> None:
    orphan = world.runs("ffffffff", 0, HOME)
    world.older, world.running = world.running, {}
    assert reconciler.run_pass().stopped == [orphan]
    assert all(abs(time.time() - before - RECENT_SECONDS) < 60 for before in world.listed_before)
    assert len(world.listed_before) == len(reconciler.regions)
    reconciler.run_pass()
    assert len(world.listed_before) == len(reconciler.regions), "once a day"


def test_the_daily_list_of_older_training_jobs_continues_in_the_next_pass(
    world: World, reconciler: Reconciler, ledger: Ledger, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = time.time()
    name = world.runs("ffffffff", 0, HOME)
    days = [3, 10, 40]
    [job] = world.running.pop(HOME)
    jobs = [
        replace(job, created_at=now - day * 24 * 3600, arn=f"arn:aws:sagemaker:x:training-job/{name}") for day in days
    ]
    asked: list[int] = []

    def one_each(region: Region, _state: str = "", window: Window = ALL) -> Any:
        if region.name == HOME and window.before < math.inf:
            asked.append(round((now - window.before) / (24 * 3600)))
            left = [job for job in jobs if job.created_at < window.before - 1.5]
            yield from left[:1]
            if len(left) > 1:
                raise ListingTimeoutError(HOME)

    monkeypatch.setattr(Region, "listed", one_each)
    for _ in range(5):
        reconciler.run_pass()
    assert asked == [2, 3, 10]
    assert len(world.stopped) == 3
