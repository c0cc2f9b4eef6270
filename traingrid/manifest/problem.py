"""Problems of manifest lines: an invalid value, its reason and the next step."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.text import shown

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator


class RefusedError(ValueError):
    """A value is invalid; gives the reason and the next step."""

    def __init__(self, reason: str, next_step: str, *, secret: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.next_step = next_step
        self.secret = secret


@dataclass(frozen=True)
class Problem:
    """One problem of a line.

    Attributes:
        value: The invalid value; empty if a value is missing, or if the problem is not about one value. None stands for
            the field's value as it is on the line.
        reason: Why it is invalid.
        next_step: A sentence that tells the user how to correct it.
        entry: The entry of a mapping, such as a hyperparameter's name; empty for the whole field.
        secret: True if the value must not be printed.
    """

    field: str
    value: object
    reason: str
    next_step: str
    entry: str = ""
    secret: bool = False


def problem_of(field: str, value: object, error: RefusedError, entry: str = "") -> Problem:
    """Return the problem of a field whose reader raised an error."""
    return Problem(field, value, error.reason, error.next_step, entry, error.secret)


def drop_repeats(problems: Iterable[Problem]) -> Iterator[Problem]:
    """Yield the first of the problems with the same field, entry and reason, such as those of several Regions."""
    reported = set()
    for problem in problems:
        if (key := (problem.field, problem.entry, problem.reason)) not in reported:
            reported.add(key)
            yield problem


def literal(value: object) -> str:
    """Return a value in the form used by error messages."""
    return shown(value if isinstance(value, str) else json.dumps(value, default=str)[:200])
