"""Status table: formats the jobs of a submission as a table that fits the terminal, and as rows for export."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from traingrid.cli.columns import Column, Schema
from traingrid.cli.fitted_table import fitted_table
from traingrid.job.state import JobState
from traingrid.text import duration, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traingrid.cli.fitted_table import FittedTable
    from traingrid.ledger.grid_items import Pause
    from traingrid.submission.status import JobStatus, SubmissionStatus

STYLES = {
    "Completed": "green",
    "Waiting": "yellow",
    "Failed": "red",
    "Stopped": "yellow",
    "Stopping": "yellow",
    "InProgress": "cyan",
}
"""The style of each state."""
_WIDE = 120
"""From this width on, states have their phases, and earlier attempts have a column."""
_MAX_NAME_LENGTH = 24
"""More characters of a job's name are shown only if no column would be omitted for them."""
_HEADINGS = {"validation_top1": "top-1", "images_per_second": "images/s"}
_FORMS = {"validation_top1": "{:.4f}", "images_per_second": "{:,.0f}"}
_SHOWN_FIRST = ("validation_top1", "images_per_second", "loss")
_NOT_SHOWN = {"epoch", "step", "ranks"}
"""Metrics that have another column, or are only of interest in the log."""
_OF_THE_TRAINER = {"input_seconds", "step_seconds"}
"""Metrics of the grid's own trainer, whose other metrics are only of interest in the log, too
(training_container/trainer/reporting/metric_lines.py)."""
_MAX_METRICS = 4


def status_table(status: SubmissionStatus, width: int = _WIDE, now: float | None = None) -> FittedTable:
    """Return the table of all jobs of a submission, one row each, with the columns that fit.

    Args:
        width: The width of the terminal in characters.
        now: The time in seconds since 1970; by default the current time.
    """
    columns = _columns(status.jobs, time.time() if now is None else now, is_wide=width >= _WIDE)
    return fitted_table(f"submission {status.submission}", columns, status.jobs, width, min_columns=2)


def _columns(jobs: Sequence[JobStatus], now: float, *, is_wide: bool) -> list[Column[JobStatus]]:
    """Return all columns from left to right."""
    state = _long_state if is_wide else state_of
    metrics = (
        Column(heading=metric_heading(name), render=_metric(name), rank=4 + 3 * position, right=True)
        for position, name in enumerate(_metrics(jobs))
    )
    columns = [
        Column(heading="Region", render=lambda job: job.place, rank=5),
        Column(heading="job", render=lambda job: job.name, rank=0, max_width=_MAX_NAME_LENGTH),
        Column(heading="state", render=state, rank=1, style=lambda job: STYLES.get(job.state, "")),
        Column(heading="ranks", render=lambda job: str(job.ranks or ""), rank=9, right=True),
        Column(heading="epoch", render=_epoch, rank=2, right=True),
        Column(heading="left", render=lambda job: _time(job.remaining), rank=6, right=True),
        *metrics,
        Column(heading="time", render=lambda job: _time(job.elapsed(now)), rank=3, right=True),
        Column(heading="$", render=lambda job: f"{job.dollars:,.2f}" if job.dollars else "", rank=8, right=True),
    ]
    if is_wide:
        columns.append(Column(heading="previous attempts", render=lambda job: ", ".join(job.tried), rank=11))
    return columns


def metric_heading(name: str) -> str:
    """Return the heading of a metric's column."""
    return _HEADINGS.get(name, name)


def metric_text(name: str, value: float | None) -> str:
    """Return the text of a metric's value; empty if it has none."""
    return "" if value is None else _FORMS.get(name, "{:.4g}").format(value)


def _metrics(jobs: Sequence[JobStatus]) -> list[str]:
    """Return the names of the metrics to show: the usual ones, then those of scripts."""
    names = {name for job in jobs for name in job.metrics} - _NOT_SHOWN
    usual = [name for name in _SHOWN_FIRST if name in names]
    if names & _OF_THE_TRAINER:
        return usual
    return [*usual, *sorted(names - set(usual))][:_MAX_METRICS]


def _metric(name: str) -> Callable[[JobStatus], str]:
    return lambda job: metric_text(name, job.metrics.get(name))


def state_of(job: JobStatus) -> str:
    """Return the state; for a running job SageMaker's secondary status, for example Training."""
    state = job.phase if job.state == JobState.IN_PROGRESS and job.phase else str(job.state)
    return "Cancelling" if job.cancelled and not job.ended else state


def state_and_phase(job: JobStatus) -> str:
    """Return the state and SageMaker's secondary status; once if they are the same word."""
    return " ".join(dict.fromkeys(filter(None, [job.state, job.phase])))


def _long_state(job: JobStatus) -> str:
    state = f"{job.state}: {job.phase}" if job.phase and job.phase != job.state and not job.ended else str(job.state)
    return f"{state}, cancelled" if job.cancelled and not job.ended else state


def _epoch(job: JobStatus) -> str:
    if "epoch" not in job.metrics:
        return ""
    return f"{job.metrics['epoch']:.0f}" + (f"/{job.epochs}" if job.epochs else "")


def _time(seconds: float | None) -> str:
    return duration(seconds) if seconds else ""


JOB_ROWS: Schema[Any] = Schema(
    "job, with a submission",
    Column("submission", "string: The submission's id."),
    Column("index", "integer: The array index."),
    Column("region", "string: The training Region."),
    Column("backend", "string: The service that runs the job there: sagemaker or eks."),
    Column("name", "string: The job's name in the manifest."),
    Column(
        "state", "string: SageMaker's status; Pending before a training job exists, Waiting while a quota prevents it."
    ),
    Column("phase", "string: SageMaker's secondary status, or Batch's status of the child."),
    Column("attempt", "integer: The number of the attempt."),
    Column("ranks", "integer: The world size; null before it is known."),
    Column("started_at", "integer: The start of the training in seconds since 1970; null before it."),
    Column("seconds", "integer: Seconds of training; null until it has ended."),
    Column("epochs", "integer: The epochs that the training runs; null if its hyperparameters do not have it."),
    Column("dollars", "number: The cost of the training so far; null for a submission without a budget."),
    Column("training_job", "string: The training job's name; empty before it is requested."),
    Column("artifact", "string: The S3 URI of the model."),
    Column("reason", "string: Why it failed, or why it cannot start yet."),
    Column("cancelled", "boolean: Whether a user has cancelled it."),
    Column("tried", "array of strings: The previous attempts: the Region and, in brackets, the outcome."),
    Column("metrics", "object of numbers: The last value of each metric."),
)


_UNKNOWN_IF_ZERO = ("ranks", "started_at", "seconds", "epochs", "dollars")


def status_rows(status: SubmissionStatus) -> Iterator[dict[str, Any]]:
    """Yield all fields of each job for an export; every row has the same keys, also in its metrics."""
    metrics = sorted({name for job in status.jobs for name in job.metrics})
    for job in status.jobs:
        yield {
            **vars(job),
            **{name: getattr(job, name) or None for name in _UNKNOWN_IF_ZERO},
            "submission": status.submission,
            "metrics": {name: job.metrics.get(name) for name in metrics},
        }


def reasons(status: SubmissionStatus) -> list[str]:
    """Return the first line of the reason of each job that failed or cannot start, with the command for its log."""
    return [
        f"{job.place or 'unknown Region'} {job.name}: {printable(job.reason.splitlines()[0])}"
        f"{_where_the_rest_is(status.submission, job)}"
        for job in status.jobs
        if job.reason
    ]


def _where_the_rest_is(submission: str, job: JobStatus) -> str:
    if job.created:
        return f"\n  complete log: traingrid logs {submission} {job.index}"
    return f"\n  log of its child: traingrid logs --child {submission} {job.index}" if job.training_job else ""


def paused_sentence(pause: Pause) -> str:
    """Return the message that launching is paused, with the time, user, reason and the command that resumes it."""
    return printable(f"{pause.sentence}. Start waiting jobs with: traingrid resume")
