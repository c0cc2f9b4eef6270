"""Errors: exceptions for a person, with the cause and the next step."""

from __future__ import annotations

INTERRUPTED = 130
"""Exit code of an interrupted command: the shell's exit code for SIGINT."""


class TraingridError(Exception):
    """An error whose text is meant for the person at the terminal or in the log.

    Args:
        what: The error, its place and its cause, as a sentence.
        next_step: The next step, as a sentence; empty if nothing can be done.
    """

    exit_code = 1

    def __init__(self, what: str, next_step: str = "") -> None:
        super().__init__(f"{what} {next_step}".strip())
        self.what = what
        self.next_step = next_step


class CallError(TraingridError):
    """A call of a service failed, which is no end of the training job that a child watches."""


class OutageError(CallError):
    """A service does not answer or is overloaded; the same call may succeed later without intervention."""


class UsageError(TraingridError):
    """The caller's input is invalid."""

    exit_code = 2


def interrupted(next_step: str, text: str = "Interrupted.") -> TraingridError:
    """Return the error of an interrupted command, with a next step."""
    error = TraingridError(text, next_step)
    error.exit_code = INTERRUPTED
    return error
