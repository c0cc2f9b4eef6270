"""Console: functions for the output of commands."""

from __future__ import annotations

import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click
from rich.console import Console

if TYPE_CHECKING:
    from collections.abc import Iterator

PATIENCE_SECONDS = 10.0
"""The seconds after which a command reports that it is waiting for AWS."""

# Without a terminal, a file or a program reads the tables, so they are wider than 80 columns.
_COLUMNS_WITHOUT_TERMINAL = 240


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


def console() -> Console:
    """Return a console on standard output, as wide as the terminal; it does not replace names such as `:smile:`."""
    made = Console(highlight=False, emoji=False)
    return made if made.is_terminal else Console(highlight=False, emoji=False, width=_COLUMNS_WITHOUT_TERMINAL)
