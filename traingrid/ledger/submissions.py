"""Ledger submissions: the ledger's items grouped by submission."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.job.state import FINAL_STATES
from traingrid.ledger.items import JobItem
from traingrid.ledger.spending import ended_dollars
from traingrid.ledger.submission_item import SubmissionItem

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.ledger.ledger import LedgerItem
    from traingrid.ledger.user_requests import Cancel


@dataclass
class Submission:
    """The data of a submission that a sweep uses; for ended lines, only the index and the sum of their dollars."""

    head: SubmissionItem | None = None
    live: dict[int, JobItem] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)
    cancels: dict[str, Cancel] = field(default_factory=dict)
    ended_dollars: float = 0.0

    @property
    def unopened(self) -> set[int]:
        """The lines that no child has opened yet."""
        return set(range(self.head.jobs)) - self.opened if self.head and self.head.is_submitted else set()


def by_submission(items: Iterable[LedgerItem]) -> dict[str, Submission]:
    """Group the ledger's items by submission; an unknown id has an empty submission."""
    found: dict[str, Submission] = defaultdict(Submission)
    for item in items:
        submission = found[item.submission]
        if isinstance(item, SubmissionItem):
            submission.head = item
        elif isinstance(item, JobItem):
            submission.opened.add(item.index)
            submission.ended_dollars += ended_dollars(item)
            if item.state not in FINAL_STATES:
                submission.live[item.index] = item
        else:
            submission.cancels[item.scope] = item
    return found
