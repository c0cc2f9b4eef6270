"""`traingrid logs`: prints the logs of training jobs, or of the child that starts and watches one."""

import contextlib
import gc
import os
import re
import sys
import time
from collections.abc import Iterator
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import click

from traingrid.api.child_log import child_log
from traingrid.api.control_plane import ControlPlane
from traingrid.api.logs import LogLine, LogReader, matching
from traingrid.cli.columns import Column, Schema
from traingrid.cli.export import Output, output_option, write_rows
from traingrid.cli.parameter_types import SUBMISSION
from traingrid.cli.status_table import state_and_phase
from traingrid.errors import TraingridError, UsageError
from traingrid.log import readable
from traingrid.submission.status import JobStatus
from traingrid.text import printable

_COLOURS = ("cyan", "green", "yellow", "magenta", "blue", "bright_cyan", "bright_green", "bright_yellow")
"""The colours of jobs, by index; red is left for errors."""
_PRINTED_TOGETHER = 5_000


def _time(line: LogLine) -> str:
    return f"{line.time:%Y-%m-%dT%H:%M:%S}.{line.milliseconds % 1000:03d}Z"


_ROWS: Schema[LogLine] = Schema(
    "line of a log",
    Column("time", "string: The time at which the host wrote it, in ISO 8601.", value=_time),
    Column("index", "integer: The array index of the job.", value=lambda line: line.job),
    Column("region", "string: The Region of the training job."),
    Column("host", "string: SageMaker's name of the host, for example algo-1."),
    Column("rank", "integer: The rank that printed it; 0 also for lines without a mark."),
    Column("text", "string: The line, with the mark of its rank."),
)
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}


class _Ago(click.ParamType[float]):
    """A time before now, such as 10m, in seconds."""

    name = "10m"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        match = re.fullmatch(r"(\d+(?:\.\d+)?)([smhd])", str(value), re.ASCII)
        if not match:
            self.fail(f"{value!r} is not a duration. Write 30s, 10m, 2h or 1d.", param, ctx)
        return float(match[1]) * _UNITS[match[2]]


class _Pattern(click.ParamType[re.Pattern[str]]):
    """A regular expression."""

    name = "regex"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> re.Pattern[str]:
        try:
            return re.compile(value)
        except re.error as error:
            self.fail(f"{value!r} is not a regular expression: {error}.", param, ctx)


@click.command()
@click.argument("submission", type=SUBMISSION)
@click.argument("index", type=click.IntRange(min=0), required=False)
@click.option("--follow", "-f", is_flag=True, help="Wait for new lines until the jobs have ended.")
@click.option("--tail", type=click.IntRange(min=0, max=100_000), help="Print only the last lines.")
@click.option("--since", type=_Ago(), help="Print only lines of the last 30s, 10m, 2h or 1d.")
@click.option("--grep", type=_Pattern(), help="Print only lines that match a regular expression.")
@click.option("--rank", type=click.IntRange(min=0), help="Print only lines of one rank.")
@click.option("--timestamps", is_flag=True, help="Print the time of each line, in UTC.")
@click.option("--child", is_flag=True, help="Print the log of the Batch child instead, to see why a job did not train.")
@output_option(_ROWS)
@click.pass_obj
def logs(  # noqa: PLR0913  # the options of the command
    grid_file: Path,
    submission: str,
    index: int | None,
    *,
    follow: bool,
    tail: int | None,
    since: float | None,
    grep: re.Pattern[str] | None,
    rank: int | None,
    timestamps: bool,
    child: bool,
    output: Output,
) -> None:
    """Print training logs, merged by time.

    Prints the logs of all jobs of SUBMISSION, or of line INDEX, counted from 0: all hosts, in all Regions. Rank 0 also
    includes the lines of the launcher, and of programs that do not mark the rank.
    """
    plane = ControlPlane.of(grid_file)
    submission = plane.submission_id(submission)
    if child:
        if follow or tail is not None or since or grep or timestamps or rank is not None or output != "table":
            text = "--child prints the whole log, with times, and takes no other option."
            raise UsageError(text, "Give SUBMISSION, INDEX and --child only.")
        _print_child_log(plane, submission, index or 0)
        return
    start = int((time.time() - since) * 1000) if since else 0
    reader = LogReader(plane=plane, submission=submission, index=index, since=start)
    is_filtered = grep is not None or rank is not None
    lines = matching(reader.lines(None if is_filtered else tail, follow=follow), grep, tail, rank)
    if output != "table":
        write_rows(lines, _ROWS, output, at_once=follow)
        return
    printed = print_lines(lines, is_one_job=index is not None, timestamps=timestamps, at_once=follow)
    if not printed and not is_filtered and not since and tail != 0:
        raise _no_log_error(submission, reader.jobs())


def print_lines(lines: Iterator[LogLine], *, is_one_job: bool, timestamps: bool, at_once: bool = False) -> int:
    """Print lines with their hosts and the indexes of their jobs, in a colour for each job; return their number.

    Args:
        is_one_job: Omit the indexes.
        timestamps: Print the times.
        at_once: Print each line when it comes, not some thousand lines together.
    """
    out = sys.stdout
    printed = 0
    coloured = out.isatty() and not os.environ.get("NO_COLOR")  # https://no-color.org
    text_of = partial(_printed_line, is_one_job=is_one_job, timestamps=timestamps, coloured=coloured)
    # One write for many lines: each write releases the GIL, and the threads that read the log would run in between.
    with contextlib.nullcontext() if at_once else _garbage_collection_disabled():
        while chunk := list(islice(lines, 1 if at_once else _PRINTED_TOGETHER)):
            out.write("".join(map(text_of, chunk)))
            printed += len(chunk)
            if at_once:
                out.flush()
    return printed


@contextlib.contextmanager
def _garbage_collection_disabled() -> Iterator[None]:
    """Switch garbage collection off: no event is part of a cycle, and looking for cycles takes a third of the time."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def _printed_line(line: LogLine, *, is_one_job: bool, timestamps: bool, coloured: bool) -> str:
    source = f"[{line.host}]" if is_one_job else f"[{line.job} {line.host}]"
    if coloured:
        source = click.style(source, fg=_COLOURS[line.job % len(_COLOURS)])
    time_of = f"{_time(line)} " if timestamps else ""
    return f"{time_of}{source} {printable(line.text)}\n"


def _print_child_log(plane: ControlPlane, submission: str, index: int) -> None:
    for _, event in child_log(plane, submission, index):
        for text in readable(event.message).split("\n"):
            click.echo(printable(text))


def _no_log_error(submission: str, jobs: list[JobStatus]) -> TraingridError:
    """Return the error for jobs without a log, with the state of the first one and the next step."""
    job = jobs[0]
    text = "The training job of job {} has printed nothing" if job.training_job else "Job {} has no training job yet"
    text = f"{text.format(job.index)}: {state_and_phase(job)}. {printable(job.reason)}".strip()
    return TraingridError(text, f"For the log of its child: traingrid logs --child {submission} {job.index}.")
