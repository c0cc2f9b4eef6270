"""Damage: parts of a grid's record that cannot be read, beside the readable ones.

A reader of many items returns `Damaged` values among the items, so that one damaged item neither ends the reader nor
disappears: the type of its result makes each caller decide, as a rule by `readable`. A reader of a single item raises
`ItemError` instead.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar

from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

logger = logging.getLogger(__name__)
Part = TypeVar("Part")


@dataclass(frozen=True, kw_only=True, slots=True)
class Damaged:
    """An item of the ledger, or a line or file of a submission, that cannot be read.

    Attributes:
        place: Its name, as the beginning of a sentence.
        problem: The reason, as the rest of that sentence, without a full stop.
        next_step: The action that repairs it.
        submission: Its submission, or another partition key of the ledger; empty if unknown.
        index: The index of its job; None if it is no job, or all jobs of a file.
        array_file: The name of the damaged file of an array (`traingrid.submission.files.array_file`); empty for an
            item of the ledger.
    """

    place: str
    problem: str
    next_step: str
    submission: str = ""
    index: int | None = None
    array_file: str = ""

    @property
    def sentence(self) -> str:
        """The place and the reason."""
        return f"{self.place} {self.problem}."

    def __str__(self) -> str:
        return f"{self.sentence} {self.next_step}"


def readable(parts: Iterable[Part | Damaged], report: Callable[[Damaged], object]) -> Iterator[Part]:
    """Yield the readable parts.

    Args:
        parts: The result of a reader.
        report: Called with each damaged part.
    """
    for part in parts:
        if isinstance(part, Damaged):
            report(part)
        else:
            yield part


def intact(parts: Iterable[Part | Damaged]) -> Iterator[Part]:
    """Yield all parts, for a caller to which a damaged one is an error.

    Raises:
        TraingridError: A part cannot be read.
    """
    for part in parts:
        if isinstance(part, Damaged):
            raise TraingridError(part.sentence, part.next_step)
        yield part


def warn(part: Damaged) -> None:
    """Log a damaged part, for a reader whose result has no place for it."""
    logger.warning("%s", part)
