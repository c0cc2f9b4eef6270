"""Status table: formats the jobs of a submission as a table that fits the terminal, and as rows for export."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rich.table import Table
from rich.text import Text

from traingrid.job.state import JobState
from traingrid.text import duration, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traingrid.ledger.user_requests import Pause
    from traingrid.submission.status import JobStatus, SubmissionStatus

_STYLES = {
    "Completed": "green",
    "Waiting": "yellow",
    "Failed": "red",
    "Stopped": "yellow",
    "Stopping": "yellow",
    "InProgress": "cyan",
}
_WIDE = 120
"""From this width on, states have their phases, and earlier attempts have a column."""
_GAP = 2
_LONGEST_NAME = 24
"""More characters of a job's name are shown only if no column would be omitted for them."""
_HEADINGS = {"validation_top1": "top-1", "images_per_second": "images/s"}
_FORMS = {"validation_top1": "{:.4f}", "images_per_second": "{:,.0f}"}
_SHOWN_FIRST = ("validation_top1", "images_per_second", "loss")
_NOT_SHOWN = {"epoch", "step", "ranks"}
"""Metrics that have another column, or are only of interest in the log."""
_MOST_METRICS = 4


@dataclass(frozen=True, kw_only=True)
class _Column:
    """A column of the table.

    Attributes:
        heading: Its heading.
        cell: Returns the text of a job's cell.
        rank: Its importance; columns with the highest numbers are omitted first.
        right: Whether its cells are aligned to the right.
    """

    heading: str
    cell: Callable[[JobStatus], str]
    rank: int
    right: bool = True


def status_table(status: SubmissionStatus, width: int = _WIDE, now: float | None = None) -> Table:
    """Return the table of all jobs of a submission, one row each, with the columns that fit.

    Args:
        status: The submission.
        width: The width of the terminal in characters.
        now: The time in seconds since 1970; by default the current time.
    """
    table = Table(title=f"submission {status.submission}", title_justify="left", box=None, pad_edge=False)
    found = _columns(status.jobs, time.time() if now is None else now, is_wide=width >= _WIDE)
    columns = _fitting(found, status.jobs, width)
    for column in columns:
        justify = "right" if column.right else "left"
        table.add_column(column.heading, justify=justify, no_wrap=True, overflow="ellipsis")  # type: ignore[arg-type]  # one of two literals
    for job in status.jobs:
        cells = ((column, printable(column.cell(job))) for column in columns)
        table.add_row(
            *(Text(text, _STYLES.get(job.state, "") if column.heading == "state" else "") for column, text in cells)
        )
    return table


def _columns(jobs: Sequence[JobStatus], now: float, *, is_wide: bool) -> list[_Column]:
    """Return all columns in which some job has a value, from left to right."""
    metrics = (
        _Column(heading=_HEADINGS.get(name, name), cell=_metric(name), rank=4 + 3 * place)
        for place, name in enumerate(_metrics(jobs))
    )
    found = [
        _Column(heading="Region", cell=lambda job: job.region, rank=5, right=False),
        _Column(heading="job", cell=lambda job: job.name, rank=0, right=False),
        _Column(heading="state", cell=_long_state if is_wide else _state, rank=1, right=False),
        _Column(heading="ranks", cell=lambda job: str(job.ranks or ""), rank=9),
        _Column(heading="epoch", cell=_epoch, rank=2),
        _Column(heading="left", cell=lambda job: _time(job.remaining(now)), rank=6),
        *metrics,
        _Column(heading="time", cell=lambda job: _time(job.elapsed(now)), rank=3),
        _Column(heading="$", cell=lambda job: f"{job.dollars:,.2f}" if job.dollars else "", rank=8),
    ]
    if is_wide:
        tried = lambda job: ", ".join(job.tried)  # noqa: E731  # as the other cells
        found.append(_Column(heading="previous attempts", cell=tried, rank=11, right=False))
    return [column for column in found if column.rank <= 1 or any(column.cell(job) for job in jobs)]


def _fitting(columns: Sequence[_Column], jobs: Sequence[JobStatus], width: int) -> list[_Column]:
    """Return the most important columns that fit into a width."""
    kept, left = set(), width + _GAP
    for column in sorted(columns, key=lambda column: column.rank):
        needed = max(len(text) for text in (column.heading, *(printable(column.cell(job)) for job in jobs)))
        left -= (min(needed, _LONGEST_NAME) if column.heading == "job" else needed) + _GAP
        if left < 0:
            break
        kept.add(column.rank)
    return [column for column in columns if column.rank in kept or column.rank <= 1]


def _metrics(jobs: Sequence[JobStatus]) -> list[str]:
    """Return the names of the metrics to show: the usual ones, then those of scripts."""
    names = {name for job in jobs for name in job.metrics} - _NOT_SHOWN
    usual = [name for name in _SHOWN_FIRST if name in names]
    return [*usual, *sorted(names - set(usual))][:_MOST_METRICS]


def _metric(name: str) -> Callable[[JobStatus], str]:
    return lambda job: _FORMS.get(name, "{:.4g}").format(job.metrics[name]) if name in job.metrics else ""


def _state(job: JobStatus) -> str:
    """Return the state; for a running job SageMaker's secondary status, for example Training."""
    state = job.phase if job.state == JobState.IN_PROGRESS and job.phase else str(job.state)
    return "Cancelling" if job.cancelled and not job.ended else state


def _long_state(job: JobStatus) -> str:
    state = f"{job.state}: {job.phase}" if job.phase and job.phase != job.state and not job.ended else str(job.state)
    return f"{state}, cancelled" if job.cancelled and not job.ended else state


def _epoch(job: JobStatus) -> str:
    if "epoch" not in job.metrics:
        return ""
    return f"{job.metrics['epoch']:.0f}" + (f"/{job.epochs}" if job.epochs else "")


def _time(seconds: float | None) -> str:
    return duration(seconds) if seconds else ""


_EXPORTED = (
    *("index", "region", "name", "state", "phase", "attempt", "ranks", "started_at", "seconds", "epochs", "dollars"),
    *("training_job", "artifact", "reason", "cancelled", "tried"),
)


def status_rows(status: SubmissionStatus) -> Iterator[dict[str, Any]]:
    """Yield all fields of each job for an export; every row has the same keys, also in its metrics."""
    metrics = sorted({name for job in status.jobs for name in job.metrics})
    for job in status.jobs:
        fields = {name: getattr(job, name) for name in _EXPORTED}
        yield {"submission": status.submission, **fields, "metrics": {name: job.metrics.get(name) for name in metrics}}


def reasons(status: SubmissionStatus) -> list[str]:
    """Return the first line of the reason of each job that failed or cannot start, with the command for its log."""
    return [
        f"{job.region or 'unknown Region'} {job.name}: {printable(job.reason.splitlines()[0])}"
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
    why = f"by {pause.by}: {pause.reason}"
    return printable(f"Launching has been paused since {pause.at} {why}. Start waiting jobs with: traingrid resume")
