"""Console: functions for the output of commands."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn, TransferSpeedColumn

from traingrid.text import printable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from rich.progress import TaskID

    from traingrid.ledger.damage import Damaged
    from traingrid.submission.status import JobStatus

PATIENCE_SECONDS = 10.0
"""The seconds after which a command reports that it is waiting for AWS."""

# Without a terminal, a file or a program reads the tables, so they are wider than 80 columns.
_COLUMNS_WITHOUT_TERMINAL = 240


def print_damaged(part: Damaged) -> None:
    """Print a part of the grid's record that cannot be read, beside the output of a command."""
    click.echo(printable(str(part)), err=True)


@contextmanager
def announcing_a_wait(service: str) -> Iterator[None]:
    """Print a notice on standard error if the calls in this context take long: botocore retries silently."""
    text = f"No answer from {service} yet; still trying. Ctrl-C stops waiting."
    notice = threading.Timer(PATIENCE_SECONDS, click.echo, (text,), {"err": True})
    notice.daemon = True
    notice.start()
    try:
        yield
    finally:
        notice.cancel()


@contextmanager
def progress_bars() -> Iterator[Callable[[JobStatus, int, int], None]]:
    """Show a bar for each download on standard error if it is a terminal.

    Yields:
        A function that receives a job, the number of bytes that have arrived, and the number of all bytes.
    """
    out = Console(stderr=True, highlight=False, emoji=False)
    columns = (TextColumn("{task.description}", markup=False), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    bars: dict[int, TaskID] = {}
    lock = threading.Lock()
    with Progress(
        *columns, TimeRemainingColumn(), console=out, disable=not out.is_terminal, transient=True
    ) as progress:

        def update(job: JobStatus, done: int, size: int) -> None:
            with lock:
                if job.index not in bars:
                    bars[job.index] = progress.add_task(printable(f"{job.region} {job.name}"), total=size)
            progress.update(bars[job.index], completed=done)

        yield update


def console() -> Console:
    """Return a console on standard output, as wide as the terminal; it does not replace names such as `:smile:`."""
    terminal = Console(highlight=False, emoji=False)
    return terminal if terminal.is_terminal else Console(highlight=False, emoji=False, width=_COLUMNS_WITHOUT_TERMINAL)
