"""Ledger errors: a submission that does not exist, and an item that cannot be read."""

from __future__ import annotations

import re
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVar

from traingrid.errors import TraingridError, UsageError
from traingrid.job.sizes import MAX_JOBS
from traingrid.ledger.damage import Damaged

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

JOB_PREFIX = "job#"
"""The prefix of the sort keys of jobs."""
_JOB_KEY = re.compile(rf"{JOB_PREFIX}(\d{{5}})", re.ASCII)
_RESTORE = "Restore the item from the table's point-in-time recovery."
Read = TypeVar("Read")


class UnknownSubmissionError(UsageError):
    """The ledger has no submission with the id that the user gave."""

    def __init__(self, submission: str) -> None:
        super().__init__(f"There is no submission {submission}.", "`traingrid status` lists all submissions.")


class ItemError(TraingridError):
    """A stored item lacks a field that every version of traingrid writes, or has a field of another type or range.

    Args:
        problem: The error; by default the field is missing.

    Attributes:
        damaged: The item, for readers of many items.
    """

    def __init__(self, item: Mapping[str, Any], field: str, problem: str = "") -> None:
        submission, name = item.get("submission"), item.get("item")
        self.damaged = Damaged(
            place=f"The ledger's item (submission {submission!r}, item {name!r})",
            problem=problem or f"has no field {field!r}, which every version of traingrid writes",
            next_step=_RESTORE,
            submission=str(submission),
            index=job_index(str(name)),
        )
        super().__init__(self.damaged.sentence, _RESTORE)


@contextmanager
def errors_with_next_step(next_step: str) -> Iterator[None]:
    """Give the errors of items in the block another next step than to restore the item."""
    try:
        yield
    except ItemError as error:
        error.next_step = next_step
        error.damaged = replace(error.damaged, next_step=next_step)
        raise


def job_index(key: str) -> int | None:
    """Return the index of a job from its sort key; None for a key of no job."""
    match = _JOB_KEY.fullmatch(key)
    return int(match[1]) if match and int(match[1]) < MAX_JOBS else None


def each(read: Callable[[Mapping[str, Any]], Read], items: Iterable[Mapping[str, Any]]) -> Iterator[Read | Damaged]:
    """Read stored items one after the other.

    Args:
        read: Reads an item, or raises ItemError.
    """
    for item in items:
        try:
            yield read(item)
        except ItemError as error:
            yield error.damaged
