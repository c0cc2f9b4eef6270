"""Sweep jobs: damaged items of trials are reported by name once, and the sweep continues with the others."""

from types import SimpleNamespace
from typing import Any, cast

from traingrid.api.control_plane import ControlPlane
from traingrid.api.sweep_jobs import SweepJobs
from traingrid.job.state import JobState
from traingrid.ledger.errors import ItemError
from traingrid.submission.status import UNREADABLE, JobStatus

DAMAGE = "The ledger's item (submission '0a1b2c3d', item 'job#00001') has no field 'region'."
TRIALS = [
    JobStatus(index=0, region="us-east-1", name="t0", state=JobState.COMPLETED),
    JobStatus(index=1, region="", name="job 1", state=JobState.PENDING, phase=UNREADABLE, reason=DAMAGE),
]


def sweep_jobs(status: Any, announced: list[str]) -> SweepJobs:
    return SweepJobs(plane=cast("ControlPlane", SimpleNamespace(status=status)), announce=announced.append)


def test_a_damaged_job_is_reported_once() -> None:
    announced: list[str] = []
    grid = sweep_jobs(lambda _submission: SimpleNamespace(jobs=TRIALS), announced)
    assert [len(grid.jobs("0a1b2c3d")), len(grid.jobs("0a1b2c3d"))] == [2, 2]
    step = "It counts as failed; `traingrid cancel` stops its training job."
    assert announced == [f"submission 0a1b2c3d, job 1: {DAMAGE} {step}"]


def test_the_jobs_of_a_damaged_submission_are_left_out() -> None:
    def status(_submission: str) -> Any:
        raise ItemError({"submission": "0a1b2c3d", "item": "submission"}, "jobs")

    announced: list[str] = []
    grid = sweep_jobs(status, announced)
    assert [grid.jobs("0a1b2c3d"), grid.jobs("0a1b2c3d")] == [[], []]
    (sentence,) = announced
    assert "item 'submission'" in sentence
