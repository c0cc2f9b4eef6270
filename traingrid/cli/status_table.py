"""Status table: formats the jobs of a submission as a table and as rows for export."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rich.table import Table
from rich.text import Text

from traingrid.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator

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


def status_table(status: SubmissionStatus) -> Table:
    """Return the table of all jobs of a submission, one row each."""
    table = Table(title=f"submission {status.submission}", title_justify="left", box=None, pad_edge=False)
    for heading in ("Region", "job", "state"):
        table.add_column(heading, no_wrap=True)
    for heading in ("ranks", "epoch", "images/s", "top-1", "seconds"):
        table.add_column(heading, justify="right", no_wrap=True)
    tried = any(job.tried for job in status.jobs)
    if tried:
        table.add_column("previous attempts", overflow="fold")
    for job in status.jobs:
        table.add_row(*_row(job), *[Text(", ".join(job.tried))] * tried)
    return table


def status_rows(status: SubmissionStatus) -> Iterator[dict[str, str | float]]:
    """Yield all fields of each job for an export; every row has the same columns."""
    metrics = sorted({name for job in status.jobs for name in job.metrics})
    for job in status.jobs:
        yield {
            "submission": status.submission,
            **{name: getattr(job, name) for name in _EXPORTED},
            "cancelled": str(job.cancelled).lower(),
            "tried": ", ".join(job.tried),
            **{f"metric.{name}": job.metrics.get(name, "") for name in metrics},
        }


_EXPORTED = (
    *("index", "region", "name", "state", "phase", "attempt", "ranks", "seconds", "training_job", "artifact", "reason"),
)


def _row(job: JobStatus) -> list[Text]:
    state = f"{job.state}: {job.phase}" if job.phase and job.phase != job.state and not job.ended else job.state
    state += ", cancelled" if job.cancelled and not job.ended else ""
    return [
        Text(job.region),
        Text(job.name),
        Text(state, style=_STYLES.get(job.state, "")),
        Text(str(job.ranks)),
        _metric(job, "epoch", "{:.0f}"),
        _metric(job, "images_per_second", "{:,.0f}"),
        _metric(job, "validation_top1", "{:.4f}"),
        Text(str(job.seconds) if job.ended else ""),
    ]


def _metric(job: JobStatus, name: str, form: str) -> Text:
    return Text(form.format(job.metrics[name]) if name in job.metrics else "")


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
