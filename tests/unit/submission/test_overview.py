"""Submission overview: numbers of jobs by Region and state, and the running and failed jobs, from the ledger alone."""

import io

import pytest
from rich.console import Console

from tests.support.ledger_indexes import add_index, deny_indexes
from tests.support.ledger_items import SUBMISSION, job_key
from traingrid.cli.overview_table import overview_tables
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.user_requests import CANCEL_ALL
from traingrid.names import LEDGER_STATES
from traingrid.submission.overview import SubmissionOverview, submission_overview

_ENDED = {1: JobState.FAILED, 2: JobState.COMPLETED, 3: JobState.STOPPED}


def overview(ledger: Ledger, job: Job) -> SubmissionOverview:
    """Return the overview of six jobs, of which no child has opened the last one."""
    ledger.claim_submission(SUBMISSION, "request-1", {"jobs": 6, "manifest": "s3://bucket/manifests/x.csv"})
    for index in range(5):
        region = "eu-west-1" if index == 4 else job.region
        ledger.open_job(SUBMISSION, job.model_copy(update={"index": index, "name": f"job-{index}", "region": region}))
        state = _ENDED.get(index, JobState.IN_PROGRESS)
        ledger.record_job(job_key(index), {"state": state, "phase": "Training"} if index < 4 else {})
    ledger.record_job(job_key(0), {"training_started_at": 1_790_000_000})
    head = ledger.submission(SUBMISSION)
    assert head
    return submission_overview(head, ledger)


def check(found: SubmissionOverview, region: str) -> None:
    """Check the numbers and the jobs of `overview`."""
    assert (found.total, found.unopened) == (6, 1)
    assert found.states == {
        "eu-west-1": {"Pending": 1},
        region: {"InProgress": 1, "Failed": 1, "Completed": 1, "Stopped": 1},
    }
    assert [(job.index, job.name, job.phase) for job in found.running] == [(0, "job-0", "Training")]
    assert [(job.index, job.state) for job in found.failed] == [(1, "Failed")]


def test_jobs_are_counted_by_region_and_state(ledger: Ledger, job: Job) -> None:
    found = overview(ledger, job)
    check(found, job.region)
    assert found.running[0].elapsed(1_790_000_060) == 60


def test_a_cancelled_job_that_runs_is_marked(ledger: Ledger, job: Job) -> None:
    ledger.request_cancel(SUBMISSION, CANCEL_ALL, {"by": "someone", "reason": ""})
    assert overview(ledger, job).running[0].cancelled


def test_failures_are_counted_by_class(ledger: Ledger, job: Job) -> None:
    ledger.open_job(SUBMISSION, job.model_copy(update={"index": 1}))
    ledger.record_job(job_key(1), {"failure": "ALGORITHM", "reason": "Diverged\nat step 3"})
    found = overview(ledger, job)
    assert found.failures == {"ALGORITHM": 1}
    assert found.failed[0].reason == "Diverged\nat step 3"


@pytest.fixture
def indexed(aws: None, deployment: Deployment) -> Ledger:
    """A ledger in moto whose table has the index of states."""
    add_index(deployment.table, LEDGER_STATES)
    return Ledger(deployment.table)


def test_the_index_has_everything_that_an_overview_needs(indexed: Ledger, job: Job) -> None:
    check(overview(indexed, job), job.region)


def test_a_caller_who_may_not_read_the_index_gets_the_overview_from_the_items(
    indexed: Ledger, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    deny_indexes(monkeypatch)
    check(overview(indexed, job), job.region)


def test_a_table_without_the_index_is_read_completely(aws: None, deployment: Deployment, job: Job) -> None:
    check(overview(Ledger(deployment.table), job), job.region)


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_tables_fit_the_terminal_and_name_every_failed_and_running_job(
    ledger: Ledger, job: Job, width: int
) -> None:
    found = overview(ledger, job)
    out = Console(width=width, file=io.StringIO())
    titles = []
    for title, table in overview_tables(found, width):
        titles.append(title)
        out.print(table)
    text = out.file.getvalue()  # type: ignore[attr-defined]  # a StringIO
    assert titles == ["submission 0123abcd: 6 jobs", "failed jobs: 1 unknown", "running jobs: 1"]
    assert "all Regions" in text
    assert "job-0" in text
    assert "job-1" in text
    assert "job-2" not in text
    assert max(map(len, text.splitlines())) <= width
