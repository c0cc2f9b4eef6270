"""Overview: prints the numbers of jobs of a large submission by Region and state, and its failed and running jobs."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, NamedTuple

from traingrid.cli.columns import Column
from traingrid.cli.fitted_table import fitted_table
from traingrid.cli.status_table import STYLES, state_of
from traingrid.job.state import JobState
from traingrid.text import duration, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from traingrid.cli.fitted_table import FittedTable
    from traingrid.submission.overview import SubmissionOverview
    from traingrid.submission.status import JobStatus

_TOTAL, _NOT_STARTED = "all Regions", "not started"


class _Numbers(NamedTuple):
    """The numbers of jobs of a row by state."""

    heading: str
    by_state: Mapping[str, int]


def overview_tables(overview: SubmissionOverview, width: int) -> Iterator[tuple[str, FittedTable]]:
    """Yield the tables of an overview with their titles: the numbers of jobs, the failed jobs and the running jobs.

    Args:
        width: The width of the terminal in characters.
    """
    yield f"submission {overview.submission}: {overview.total:,} jobs", numbers_table(overview, width)
    if overview.failed:
        classes = ", ".join(f"{number:,} {name or 'unknown'}" for name, number in overview.failures.items())
        yield f"failed jobs: {classes}", fitted_table("", _failed_columns(), overview.failed, width, min_columns=2)
    if overview.running:
        title = f"running jobs: {len(overview.running):,}"
        yield title, fitted_table("", _running_columns(time.time()), overview.running, width, min_columns=2)


def numbers_table(overview: SubmissionOverview, width: int) -> FittedTable:
    """Return the table of the numbers of jobs by Region and state."""
    rows = _numbers(overview)
    return fitted_table("", list(_number_columns(rows)), rows, width, min_columns=2)


def numbers_line(overview: SubmissionOverview) -> str:
    """Return the numbers of jobs in each state in one line."""
    _, total = _numbers(overview)[-1]
    return ", ".join(f"{count:,} {state}" for state, count in sorted(total.items()))


def more_sentence(overview: SubmissionOverview) -> str:
    """Return the sentence that names the command for all jobs."""
    return f"All jobs, with their metrics: traingrid status {overview.submission} --all"


def _numbers(overview: SubmissionOverview) -> list[_Numbers]:
    """Return the numbers of jobs of each row by heading."""
    rows = [
        _Numbers(region, {str(state): count for state, count in states.items()})
        for region, states in overview.states.items()
    ]
    if overview.unopened:
        rows.append(_Numbers(_NOT_STARTED, {JobState.PENDING: overview.unopened}))
    total: dict[str, int] = {}
    for _, numbers in rows:
        for state, count in numbers.items():
            total[state] = total.get(state, 0) + count
    return [*rows, _Numbers(_TOTAL, total)]


def _number_columns(rows: list[_Numbers]) -> Iterator[Column[_Numbers]]:
    states = dict.fromkeys([*JobState, *(state for _, numbers in rows for state in numbers)])
    yield Column(heading="Region", render=lambda row: row.heading, rank=0)
    for position, state in enumerate(states):
        if any(state in numbers for _, numbers in rows):
            yield Column(heading=str(state), render=_count(state), rank=1 + position, right=True)
    yield Column(heading="all", render=lambda row: f"{sum(row.by_state.values()):,}", rank=100, right=True)


def _count(state: str) -> Callable[[_Numbers], str]:
    return lambda row: f"{row.by_state[state]:,}" if state in row.by_state else ""


def _job_columns() -> list[Column[JobStatus]]:
    return [
        Column(heading="index", render=lambda job: str(job.index), rank=0, right=True),
        Column(heading="Region", render=lambda job: job.region, rank=3),
        Column(heading="job", render=lambda job: job.name, rank=1, max_width=24),
    ]


def _failed_columns() -> list[Column[JobStatus]]:
    return [*_job_columns(), Column(heading="reason", render=_first_line, rank=2, max_width=24)]


def _first_line(job: JobStatus) -> str:
    return printable((job.reason.splitlines() or [""])[0])


def _running_columns(now: float) -> list[Column[JobStatus]]:
    return [
        *_job_columns(),
        Column(heading="state", render=state_of, rank=2, style=lambda job: STYLES.get(job.state, "")),
        Column(
            heading="time", render=lambda job: duration(job.elapsed(now)) if job.started_at else "", rank=4, right=True
        ),
    ]
