"""The console that commands print to."""

from __future__ import annotations

from rich.console import Console

# Where there is no terminal, tables are not cut to 80 columns: what reads them is a file or a program.
_COLUMNS_WITHOUT_TERMINAL = 240


def printable(text: str) -> str:
    """Return text from a training or an object's key so that it cannot steer the terminal: "\\x1b" for an escape."""
    return "".join(c if c.isprintable() or c == "\t" else repr(c)[1:-1] for c in text)


def console() -> Console:
    """Return a console on standard output, as wide as the terminal."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=_COLUMNS_WITHOUT_TERMINAL)
