"""Ranking: the jobs that can be the best, why the others cannot, and the order of all."""

import math

import pytest

from traingrid.job.state import JobState
from traingrid.metrics.ranking import RankedJob, explanation


def job(
    state: str = JobState.COMPLETED, value: float | None = 0.5, *, model: bool = True, reason: str = ""
) -> RankedJob:
    return RankedJob(state=state, has_model=model, reason=reason, metric="loss", value=value)


@pytest.mark.parametrize(
    ("excluded", "text"),
    [
        (job(), ""),
        (job(JobState.FAILED, reason="AlgorithmError: no GPU\nexit code: 1"), "failed: AlgorithmError: no GPU"),
        (job(JobState.STOPPED, reason="Cancelled by me: slow"), "stopped: Cancelled by me: slow"),
        (job(JobState.STOPPED), "stopped"),
        (job(JobState.IN_PROGRESS), "has not ended"),
        (job("Hibernating"), "has not ended"),
        (job(model=False), "has no model"),
        (job(value=None), "has not reported loss"),
        (job(value=math.nan), "its loss is nan"),
        (RankedJob(state=JobState.COMPLETED, has_model=True, metric=""), "has not reported a metric"),
        (RankedJob(state=JobState.COMPLETED, has_model=True), ""),
    ],
)
def test_only_a_completed_job_with_a_model_and_a_value_can_be_the_best(excluded: RankedJob, text: str) -> None:
    assert excluded.exclusion == text


@pytest.mark.parametrize("lowest", [True, False])
def test_completed_jobs_precede_running_ones_and_those_precede_ended_ones(lowest: bool) -> None:
    best = 0.1 if lowest else 0.9
    expected = [
        job(value=best),
        job(value=0.5),
        job(value=best, model=False),
        job(value=math.nan),
        job(JobState.IN_PROGRESS, best),
        job(JobState.WAITING, None),
        job(JobState.STOPPED, best),
        job(JobState.FAILED, None),
    ]
    jobs = [*expected]
    jobs.reverse()
    jobs.sort(key=lambda ranked: ranked.order(lowest=lowest))
    assert jobs == expected


def test_jobs_with_equal_values_keep_their_order() -> None:
    jobs = [job(reason=str(number)) for number in range(5)]
    assert sorted(jobs, key=lambda ranked: ranked.order(lowest=False)) == jobs


@pytest.mark.parametrize(
    ("jobs", "text"),
    [
        ([job(), job(JobState.FAILED)], ""),
        ([job(JobState.IN_PROGRESS), job(JobState.FAILED)], "No job has completed yet. Wait until one has"),
        ([job(JobState.STOPPED), job(JobState.FAILED)], "No job has completed. `traingrid status` shows the reasons"),
        ([job(model=False), job(JobState.FAILED)], "No completed job has a model. A script must write it to"),
        ([job(value=None)], "No completed job with a model has reported a finite loss. Compare by another metric"),
        (
            [RankedJob(state=JobState.COMPLETED, has_model=True, metric="")],
            "No completed job with a model has reported",
        ),
    ],
)
def test_without_a_best_job_the_reason_and_the_next_step_are_explained(jobs: list[RankedJob], text: str) -> None:
    assert explanation(jobs).startswith(text)
    assert bool(explanation(jobs)) == bool(text)
