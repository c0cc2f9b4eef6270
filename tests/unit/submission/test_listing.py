"""Listing: submissions are listed with their jobs' states, and an ended one costs no read of its jobs."""

import pytest

from tests.support.local_page import SUBMISSION, LocalGrid
from traingrid.job.state import JobState
from traingrid.ledger.damage import Damaged
from traingrid.ledger.ledger import Ledger
from traingrid.submission.listing import listed_submissions


@pytest.fixture
def local(ledger: Ledger) -> LocalGrid:
    return LocalGrid(ledger)


def only_row(local: LocalGrid) -> tuple[str, dict[JobState, int]]:
    (row,) = listed_submissions(local.ledger, lambda part: pytest.fail(str(part)))
    return row.state, dict(row.states)


def test_an_open_submission_has_the_states_of_its_jobs(local: LocalGrid) -> None:
    jobs = local.submit(["a", "b", "c"])
    assert only_row(local) == ("Pending", {JobState.PENDING: 3})
    local.open(jobs[0], state=JobState.COMPLETED)
    local.open(jobs[1], state=JobState.IN_PROGRESS)
    counts = {JobState.PENDING: 1, JobState.COMPLETED: 1, JobState.IN_PROGRESS: 1}
    assert only_row(local) == ("InProgress", counts)


def test_a_submission_whose_jobs_have_ended_has_the_worst_of_their_states(local: LocalGrid) -> None:
    for job, state in zip(local.submit(["a", "b"]), (JobState.COMPLETED, JobState.FAILED), strict=True):
        local.open(job, state=state)
    assert only_row(local) == ("Failed", {JobState.COMPLETED: 1, JobState.FAILED: 1})


def test_the_jobs_of_a_settled_submission_are_not_read(local: LocalGrid, monkeypatch: pytest.MonkeyPatch) -> None:
    local.open(local.submit(["a"])[0], state=JobState.STOPPED)
    assert local.ledger.settle(SUBMISSION, local.ledger.open_marks()[SUBMISSION], {JobState.STOPPED: 1})
    monkeypatch.setattr(Ledger, "job_states", lambda *_: pytest.fail("the jobs were read"))
    assert only_row(local) == ("Stopped", {JobState.STOPPED: 1})


def test_a_retried_submission_is_listed_as_open_although_its_end_was_recorded(local: LocalGrid) -> None:
    local.open(local.submit(["a"])[0], state=JobState.IN_PROGRESS)
    assert local.ledger.settle(SUBMISSION, local.ledger.open_marks()[SUBMISSION], {JobState.FAILED: 1})
    local.ledger.mark_open(SUBMISSION)
    assert only_row(local) == ("InProgress", {JobState.IN_PROGRESS: 1})


def test_a_submission_that_an_earlier_version_settled_keeps_its_state(local: LocalGrid) -> None:
    local.open(local.submit(["a"])[0], state=JobState.COMPLETED)
    assert local.ledger.settle(SUBMISSION, local.ledger.open_marks()[SUBMISSION], {})
    assert only_row(local) == ("Submitted", {})


def test_a_damaged_job_is_reported_and_counted_in_no_state(local: LocalGrid) -> None:
    jobs = local.submit(["a", "b"])
    local.open(jobs[0], state=JobState.COMPLETED)
    submission, item = local.open(jobs[1], state=JobState.COMPLETED).table_key
    local.ledger._table.update((submission, item), {"attempt": "x"}, "attribute_exists(attempt)", {})
    damaged: list[Damaged] = []
    (row,) = listed_submissions(local.ledger, damaged.append)
    assert (row.state, dict(row.states), len(damaged)) == ("Submitted", {JobState.COMPLETED: 1}, 1)
