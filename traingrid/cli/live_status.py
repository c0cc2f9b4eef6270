"""Live status: the table of `status --watch`, which fits the terminal and survives an outage."""

from __future__ import annotations

import time
from collections import Counter
from contextlib import nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Generic, TypeVar

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from traingrid.aws.outage import is_outage
from traingrid.cli.overview_table import numbers_line, numbers_table
from traingrid.cli.status_table import status_table
from traingrid.job.state import JobState
from traingrid.text import duration, printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.console import RenderableType

    from traingrid.api.control_plane import ControlPlane
    from traingrid.submission.overview import SubmissionOverview
    from traingrid.submission.status import SubmissionStatus

T = TypeVar("T")
_REFRESH_SECONDS = 1.0
_SHARE = 5
"""Between two reads of a large submission, this many times the duration of a read passes."""
_FRAME = 4
"""Lines for the title, the headings, the jobs that are left out, and the line below the table."""
_ORDER = (JobState.FAILED, JobState.IN_PROGRESS, JobState.STOPPING, JobState.WAITING, JobState.PENDING)


def watch_submission(plane: ControlPlane, submission: str, out: Console) -> SubmissionStatus:
    """Show the live table of a submission until every job has ended, and return its final status.

    If the output is not a terminal, print a line for each change of a job's state, and the table at the end.
    """
    if out.is_terminal:
        return _watch_live(plane, submission, out)
    return _watch_by_lines(plane, submission, out)


def live_table(status: SubmissionStatus, width: int, height: int) -> RenderableType:
    """Return the table of a submission in the size of a terminal.

    Args:
        status: The submission. If there are more jobs than lines, failed and running jobs are shown first, and the
            others are counted.
        width: The number of columns.
        height: The number of lines.
    """
    room = max(height - _FRAME, 1)
    position_by_state = {state: position for position, state in enumerate(_ORDER)}
    ordered = sorted(status.jobs, key=lambda job: position_by_state.get(job.state, len(_ORDER)))  # stable: as the lines
    shown_jobs, hidden_jobs = (status.jobs, []) if len(status.jobs) <= room else (ordered[:room], ordered[room:])
    counts = Counter(str(job.state) for job in hidden_jobs)
    more = f"and {len(hidden_jobs)} more: {', '.join(f'{number} {state}' for state, number in counts.items())}"
    return Group(
        status_table(replace(status, jobs=shown_jobs), width), *[Text(more, style="italic")] * bool(hidden_jobs)
    )


def watch_overview(plane: ControlPlane, submission: str, out: Console) -> SubmissionOverview:
    """Show the live numbers of a large submission until every job has ended, and return its final overview.

    If the output is not a terminal, print only a line for each change of the numbers.
    """
    printed, reads = "", _Reads(lambda: plane.overview(submission))
    with Live(console=out, auto_refresh=False, transient=True) if out.is_terminal else nullcontext() as live:
        while True:
            began = time.monotonic()
            overview = reads.next()
            if live:
                live.update(Group(numbers_table(overview, out.width), *reads.silence()), refresh=True)
            elif numbers_line(overview) != printed:
                printed = numbers_line(overview)
                out.print(printed, markup=False, soft_wrap=True)
            if overview.ended:
                return overview
            time.sleep(max(_REFRESH_SECONDS, _SHARE * (time.monotonic() - began)))


def _watch_live(plane: ControlPlane, submission: str, out: Console) -> SubmissionStatus:
    reads = _Reads(lambda: plane.status(submission))
    with Live(console=out, auto_refresh=False, transient=True) as live:
        while not (status := reads.next()).ended:
            live.update(Group(live_table(status, out.width, out.height), *reads.silence()), refresh=True)
            time.sleep(_REFRESH_SECONDS)
    out.print(status_table(status, out.width))  # all jobs, which the terminal can scroll
    return status


def _watch_by_lines(plane: ControlPlane, submission: str, out: Console) -> SubmissionStatus:
    printed: dict[int, str] = {}
    reads = _Reads(lambda: plane.status(submission))
    while True:
        status = reads.next()
        for job in status.jobs:
            if printed.get(job.index) != job.state:
                printed[job.index] = job.state
                out.print(f"{job.place} {job.name}: {job.state}", markup=False, highlight=False)
        if status.ended:
            out.print(status_table(status, out.width))
            return status
        time.sleep(_REFRESH_SECONDS)


class _Reads(Generic[T]):
    """Reads a status again and again; during an outage, returns the last one.

    Args:
        read: Reads the status. An error of the first read is raised.
    """

    def __init__(self, read: Callable[[], T]) -> None:
        self._read = read
        self._last_value: T | None = None
        self._answered_at = time.monotonic()
        self._error = ""

    def next(self) -> T:
        """Return the present status, or the last one if AWS does not answer."""
        try:
            self._last_value = self._read()
            self._answered_at = time.monotonic()
            self._error = ""
        except (BotoCoreError, ClientError) as error:
            if self._last_value is None or not is_outage(error):
                raise
            self._error = printable(str(error))
        return self._last_value

    def silence(self) -> Iterator[Text]:
        """Yield the sentence about an outage, if there is one."""
        if self._error:
            silence = duration(time.monotonic() - self._answered_at)
            yield Text(f"AWS has not answered for {silence}; still trying. {self._error}", style="yellow")
