"""Errors that a person reads: what happened, why, and the next step."""

from __future__ import annotations

INTERRUPTED = 130
"""Exit code of a command that a person has interrupted, as the shell has it for SIGINT."""


class TraingridError(Exception):
    """An error whose text is meant for the person at the terminal or in the log.

    Args:
        what: What happened, where and why, as a sentence.
        next_step: What to do about it, as a sentence; empty where nothing can be done.
    """

    exit_code = 1

    def __init__(self, what: str, next_step: str = "") -> None:
        super().__init__(f"{what} {next_step}".strip())
        self.what = what
        self.next_step = next_step


class UsageError(TraingridError):
    """The caller asked for something that cannot be asked for."""

    exit_code = 2


def interrupted(next_step: str, what: str = "Interrupted.") -> TraingridError:
    """Return the error of a command that a person has interrupted, and that has something to say about it."""
    error = TraingridError(what, next_step)
    error.exit_code = INTERRUPTED
    return error
