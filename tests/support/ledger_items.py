"""Ledger items: keys of attempts, and items that a test knows to exist."""

from typing import TypeVar

from traingrid.ledger.items import JobKey

SUBMISSION = "0123abcd"
Stored = TypeVar("Stored")


def job_key(index: int = 0, attempt: int = 1, submission: str = SUBMISSION) -> JobKey:
    return JobKey(submission=submission, index=index, attempt=attempt)


def existing(item: Stored | None) -> Stored:
    """Return an item that the ledger must have."""
    assert item is not None
    return item
