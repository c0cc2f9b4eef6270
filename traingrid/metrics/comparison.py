"""Comparison: the jobs of some submissions, the best first, with the hyperparameters in which they differ."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.errors import UsageError
from traingrid.metrics.curves import group_by_job, last_curves
from traingrid.metrics.history import MetricHistory
from traingrid.metrics.ranking import RankedJob, explanation, is_lower_better

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traingrid.api.control_plane import ControlPlane
    from traingrid.submission.status import JobStatus

_USUAL = ("validation_top1", "validation_accuracy", "accuracy", "validation_loss", "loss")
"""The metrics that are compared by default, in this order: those of the grid's trainer, and usual names."""
_NEVER_COMPARED = {"epoch", "step", "ranks"}


@dataclass(frozen=True, kw_only=True)
class ComparedJob:
    """One job of a comparison.

    Attributes:
        submission: The submission's id.
        status: The job's status, with the last value of each metric.
        hyperparameters: Those hyperparameters in which the jobs of the comparison differ.
        values: All values of the compared metric in the last attempt, oldest first.
        exclusion: Why the job cannot be the best, as a phrase; empty if it can.
    """

    submission: str
    status: JobStatus
    hyperparameters: Mapping[str, str]
    values: Sequence[float]
    exclusion: str


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The jobs of some submissions.

    Attributes:
        metric: The name of the metric by which they are ordered; empty if no job has a metric.
        lowest: True if a lower value is better.
        jobs: The jobs: by the metric those that can be the best, then other completed ones, those that have not ended,
            and those that failed or were stopped.
        explanation: Why no job is the best, with the next step; empty if one is.
    """

    metric: str
    lowest: bool
    jobs: Sequence[ComparedJob]
    explanation: str

    @property
    def best(self) -> ComparedJob | None:
        """The completed job with the best value and a model that can be downloaded; None if there is none."""
        return next((job for job in self.jobs if not job.exclusion), None)


def compare(
    plane: ControlPlane, submissions: Iterable[str], metric: str | None = None, *, lowest: bool | None = None
) -> Comparison:
    """Compare all jobs of some submissions by a metric.

    Args:
        metric: The name of the metric; by default an accuracy or a loss that the jobs have, or their first metric.
        lowest: Whether a lower value is better; by default the name of the metric decides.

    Raises:
        UsageError: A submission does not exist, or no job has the metric.
        TraingridError: A Region does not return the history of the metric.
    """
    ids = list(dict.fromkeys(submissions))
    statuses = {submission: plane.status(submission).jobs for submission in ids}
    name = compared_metric(metric, [job for jobs in statuses.values() for job in jobs])
    lowest = is_lower_better(name) if lowest is None else lowest
    fields = {
        submission: {index: job.hyperparameters for index, job in plane.last_submitted_jobs(submission).items()}
        for submission in ids
    }
    varying = differing([hyperparameters for jobs in fields.values() for hyperparameters in jobs.values()])
    compared_jobs = [
        ComparedJob(
            submission=submission,
            status=job,
            hyperparameters={
                key: value for key, value in fields[submission].get(job.index, {}).items() if key in varying
            },
            values=values.get(job.index, ()),
            exclusion=ranked(job, name).exclusion,
        )
        for submission in ids
        for values in [_histories(plane, submission, name)]
        for job in statuses[submission]
    ]
    return Comparison(
        metric=name,
        lowest=lowest,
        jobs=sorted(compared_jobs, key=lambda job: (ranked(job.status, name).order(lowest=lowest), job.submission)),
        explanation=explanation([ranked(job.status, name) for job in compared_jobs]),
    )


def compared_metric(metric: str | None, jobs: Sequence[JobStatus]) -> str:
    """Return the metric by which jobs are compared; empty if they have none.

    Args:
        metric: The name of a metric; by default an accuracy or a loss, or the first metric, of the jobs that can be
            the best; of all jobs if those have none.

    Raises:
        UsageError: No job has the metric.
    """
    names = _names(jobs)
    if metric is None:
        can_be_best = _names([job for job in jobs if not ranked(job, None).exclusion])
        choice = can_be_best or names
        return next((name for name in (*_USUAL, *choice) if name in choice), "")
    if metric not in names:
        next_step = f"The jobs have {', '.join(names)}." if names else "The jobs have no metrics yet."
        raise UsageError(f"No job has the metric {metric}.", next_step)
    return metric


def _names(jobs: Sequence[JobStatus]) -> list[str]:
    """Return the names of the metrics by which jobs can be compared."""
    return sorted({name for job in jobs for name in job.metrics} - _NEVER_COMPARED)


def differing(lines: Sequence[Mapping[str, Any]]) -> set[str]:
    """Return the names of the values that not all lines have with the same value."""
    names = {name for line in lines for name in line}
    return {name for name in names if any(line.get(name) != lines[0].get(name) for line in lines)}


def _histories(plane: ControlPlane, submission: str, metric: str) -> dict[int, list[float]]:
    """Return the values of a metric in the last attempt of each job, oldest first."""
    if not metric:
        return {}
    points = MetricHistory(plane.deployment, plane.ledger, plane.storage, submission).read()
    return {
        index: [point.value for point in last_curves(points_of_job).get(metric, ())]
        for index, points_of_job in group_by_job(points).items()
    }


def ranked(job: JobStatus, metric: str | None) -> RankedJob:
    """Return a job with its last value of a metric, as it is ranked; None ignores metrics."""
    return RankedJob(
        state=job.state,
        has_model=bool(job.artifact),
        reason=job.reason,
        metric=metric,
        value=job.metrics.get(metric) if metric else None,
    )
