"""Live status: the table of `status --watch`, which fits the terminal and survives an outage."""

from __future__ import annotations

import time
from collections import Counter
from dataclasses import replace
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from traingrid.aws.outage import is_outage
from traingrid.cli.status_table import status_table
from traingrid.job.state import JobState
from traingrid.text import duration, printable

if TYPE_CHECKING:
    from rich.console import RenderableType

    from traingrid.api.control_plane import ControlPlane
    from traingrid.submission.status import SubmissionStatus

_REFRESH_SECONDS = 1.0
_FRAME = 4
"""Lines for the title, the headings, the jobs that are left out, and the line below the table."""
_ORDER = (JobState.FAILED, JobState.IN_PROGRESS, JobState.STOPPING, JobState.WAITING, JobState.PENDING)


def watch_submission(plane: ControlPlane, submission: str, out: Console) -> SubmissionStatus:
    """Show the live table of a submission until every job has ended, and return its final status.

    If the output is not a terminal, print a line for each change of a job's state, and the table at the end.
    """
    return (_watch_live if out.is_terminal else _watch_by_lines)(plane, submission, out)


def live_table(seen: SubmissionStatus, width: int, height: int, silence: str = "") -> RenderableType:
    """Return the table of a submission in the size of a terminal.

    Args:
        seen: The submission. If there are more jobs than lines, failed and running jobs are shown first, and the
            others are counted.
        width: The number of columns.
        height: The number of lines.
        silence: A sentence below the table; empty for none.
    """
    room = max(height - _FRAME, 1)
    places = {state: place for place, state in enumerate(_ORDER)}
    ordered = sorted(seen.jobs, key=lambda job: places.get(job.state, len(_ORDER)))  # stable: the order of the lines
    shown, left = (seen.jobs, []) if len(seen.jobs) <= room else (ordered[:room], ordered[room:])
    counts = Counter(str(job.state) for job in left)
    more = f"and {len(left)} more: {', '.join(f'{number} {state}' for state, number in counts.items())}"
    lines = [Text(more, style="italic")] * bool(left) + [Text(silence, style="yellow")] * bool(silence)
    return Group(status_table(replace(seen, jobs=shown), width), *lines)


def _watch_live(plane: ControlPlane, submission: str, out: Console) -> SubmissionStatus:
    seen = plane.status(submission)
    answered = time.monotonic()
    with Live(live_table(seen, out.width, out.height), console=out, auto_refresh=False, transient=True) as live:
        while not seen.ended:
            time.sleep(_REFRESH_SECONDS)
            silence = ""
            try:
                seen = plane.status(submission)
                answered = time.monotonic()
            except (BotoCoreError, ClientError) as error:
                if not is_outage(error):
                    raise
                since = duration(time.monotonic() - answered)
                silence = f"AWS has not answered for {since}; still trying. {printable(str(error))}"
            live.update(live_table(seen, out.width, out.height, silence), refresh=True)
    out.print(status_table(seen, out.width))  # all jobs, which the terminal can scroll
    return seen


def _watch_by_lines(plane: ControlPlane, submission: str, out: Console) -> SubmissionStatus:
    printed: dict[int, str] = {}
    while True:
        seen = plane.status(submission)
        for job in seen.jobs:
            if printed.get(job.index) != job.state:
                printed[job.index] = job.state
                out.print(f"{job.region} {job.name}: {job.state}", markup=False, highlight=False)
        if seen.ended:
            out.print(status_table(seen, out.width))
            return seen
        time.sleep(_REFRESH_SECONDS)
