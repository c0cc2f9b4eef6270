"""Report content: everything that a report shows, read once from the ledger and S3."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from traingrid import __version__
from traingrid.errors import TraingridError
from traingrid.job.failures import FAILURES
from traingrid.job.state import JobState
from traingrid.ledger.damage import Damaged
from traingrid.metrics.comparison import compared_metric, differing, ranked
from traingrid.metrics.curves import group_by_job, last_curves
from traingrid.metrics.history import MetricHistory
from traingrid.metrics.ranking import explanation, is_lower_better
from traingrid.submission.manifest_text import manifest_content
from traingrid.submission.status import read_submission, recorded_jobs
from traingrid.submission.submitted_jobs import last_submitted_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from traingrid.api.control_plane import ControlPlane
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.metrics.points import MetricPoint
    from traingrid.report.subject import Subject
    from traingrid.submission.status import JobStatus

MAX_CURVES = 50
"""The most jobs with curves, the best ones. Their metric histories are the only ones that are read."""
_HOUR = 3600.0
_UNKNOWN = "The class of this failure is not recorded."


@dataclass(frozen=True, kw_only=True)
class Run:
    """One job of a report.

    Attributes:
        submission: Its submission.
        status: Its state and last metrics.
        item: Its item of the ledger; None if no child has opened it.
        job: Its line with all defaults, as it was submitted last; None if it cannot be read.
        curves: The values of each metric in the last attempt, by the metric's name; only of the best jobs.
        differing: Those hyperparameters in which the jobs differ.
        exclusion: Why it cannot be the best job, as a phrase; empty if it can.
    """

    submission: str
    status: JobStatus
    item: JobItem | None
    job: Job | None
    curves: Mapping[str, Sequence[MetricPoint]]
    differing: Mapping[str, str]
    exclusion: str

    @property
    def key(self) -> tuple[str, int]:
        """Its submission and its index there."""
        return self.submission, self.status.index

    @property
    def instance_hours(self) -> float:
        """The billable hours of all instances, over all attempts that have ended."""
        if self.item is None or self.job is None:
            return 0.0
        seconds = sum(attempt.billable_seconds or 0 for attempt in self.item.attempts().values())
        return seconds / _HOUR * self.job.instance_count


@dataclass(frozen=True, kw_only=True)
class Failed:
    """The jobs that failed with one class.

    Attributes:
        name: The name of the class; empty if it is not recorded.
        next_step: The recommended action; empty if there is none.
    """

    name: str
    sentence: str
    next_step: str
    runs: Sequence[Run]


@dataclass(frozen=True, kw_only=True)
class Content:
    """The content of a report.

    Attributes:
        heads: The submissions, in the order of the subject.
        at: The time at which the ledger was read.
        version: The version of traingrid.
        metric: The metric by which the jobs are ordered; empty if they have none.
        lowest: True if a lower value is better.
        runs: The jobs, the best first, in the order of `traingrid compare`.
        explanation: Why no job is the best, with the next step; empty if one is.
        failures: The failed jobs by class, the most frequent class first.
        manifest: The manifest of a single submission as its user wrote it; None if it cannot be read.
        curves_error: Why the report has no curves; empty if it has them.
        damaged: The items of the ledger, and lines and files of the submission, that cannot be read.
    """

    grid: str
    subject: Subject
    heads: Sequence[SubmissionItem]
    at: datetime
    version: str
    metric: str
    lowest: bool
    runs: Sequence[Run]
    explanation: str
    failures: Sequence[Failed]
    manifest: bytes | None
    curves_error: str
    damaged: Sequence[Damaged]

    @property
    def open_jobs(self) -> int:
        """The number of jobs that have not ended."""
        return sum(not run.status.ended for run in self.runs)


@dataclass(frozen=True, kw_only=True)
class _Read:
    """A submission as it was read."""

    head: SubmissionItem
    items: Mapping[int, JobItem]
    statuses: Mapping[int, JobStatus]
    jobs: Mapping[int, Job]


def read_content(plane: ControlPlane, subject: Subject) -> Content:
    """Return the content of a report. It calls neither SageMaker nor Batch.

    Raises:
        UsageError: A submission does not exist.
    """
    damaged = list[Damaged]()
    parts = {submission: _read(plane, submission, damaged) for submission in subject.submissions}
    varying = differing([job.hyperparameters for part in parts.values() for job in part.jobs.values()])
    candidates = [name for name in parts if not subject.exclusion(name)] or list(parts)
    metric = compared_metric(None, [status for name in candidates for status in parts[name].statuses.values()])
    lowest = is_lower_better(metric)
    order = sorted(
        ((name, status) for name, part in parts.items() for status in part.statuses.values()),
        key=lambda job: (
            bool(subject.exclusion(job[0])),
            ranked(job[1], metric).order(lowest=lowest),
            list(parts).index(job[0]),
            job[1].index,
        ),
    )
    curves, curves_error = _curves(plane, [(name, job.index) for name, job in order if job.training_job][:MAX_CURVES])
    runs = [
        Run(
            submission=name,
            status=status,
            item=parts[name].items.get(status.index),
            job=parts[name].jobs.get(status.index),
            curves=last_curves(curves.get((name, status.index), ())),
            differing=_selected_hyperparameters(parts[name].jobs.get(status.index), varying),
            exclusion=subject.exclusion(name) or ranked(status, metric).exclusion,
        )
        for name, status in order
    ]
    heads = [part.head for part in parts.values()]
    return Content(
        grid=plane.deployment.grid.name,
        subject=subject,
        heads=heads,
        at=datetime.now(UTC),
        version=__version__,
        metric=metric,
        lowest=lowest,
        runs=runs,
        explanation=explanation([ranked(status, metric) for name, status in order if name in candidates]),
        failures=_failures(runs),
        manifest=manifest_content(plane.storage, heads[0]) if len(heads) == 1 else None,
        curves_error=curves_error,
        damaged=list(dict.fromkeys(damaged)),
    )


def _read(plane: ControlPlane, submission: str, damaged: list[Damaged]) -> _Read:
    bucket, storage = plane.deployment.manifest_bucket, plane.storage
    read = read_submission(plane.ledger, submission)
    return _Read(
        head=read.head,
        items=read.items,
        statuses=recorded_jobs(read, bucket, storage, damaged.append),
        jobs=last_submitted_jobs(storage, bucket, read.head, damaged.append),
    )


def _curves(
    plane: ControlPlane, keys: Sequence[tuple[str, int]]
) -> tuple[dict[tuple[str, int], list[MetricPoint]], str]:
    """Return the metric histories of some jobs by submission and index, or none and the error of a Region."""
    indexes: dict[str, list[int]] = defaultdict(list)
    for submission, index in keys:
        indexes[submission].append(index)
    points: dict[tuple[str, int], list[MetricPoint]] = {}
    try:
        for submission, of_submission in indexes.items():
            history = MetricHistory(plane.deployment, plane.ledger, plane.storage, submission)
            by_index = group_by_job(history.read(of_submission))
            points |= {(submission, index): values for index, values in by_index.items()}
    except TraingridError as error:
        return {}, error.what
    return points, ""


def _selected_hyperparameters(job: Job | None, names: Iterable[str]) -> dict[str, str]:
    return {name: job.hyperparameters[name] for name in sorted(names) if name in job.hyperparameters} if job else {}


def _failures(runs: Iterable[Run]) -> list[Failed]:
    """Return the failed jobs by class, the most frequent class first."""
    runs_by_failure: dict[str, list[Run]] = defaultdict(list)
    for run in runs:
        if run.status.state == JobState.FAILED:
            runs_by_failure[run.item.failure if run.item else ""].append(run)
    return [
        Failed(
            name=name,
            sentence=FAILURES[name].sentence if name in FAILURES else _UNKNOWN,
            next_step=FAILURES[name].next_step if name in FAILURES else "",
            runs=failed,
        )
        for name, failed in sorted(runs_by_failure.items(), key=lambda entry: (-len(entry[1]), entry[0]))
    ]
