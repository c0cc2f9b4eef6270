"""Ledger submissions: the ledger's items grouped by submission."""

from __future__ import annotations

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.damage import Damaged
from traingrid.ledger.items import JobItem
from traingrid.ledger.spending import ended_dollars
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.ledger.timestamps import epoch_seconds

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.ledger.ledger import LedgerItem
    from traingrid.ledger.user_requests import Cancel


@dataclass
class SubmissionState:
    """The data of a submission that a pass uses; of ended lines, only sums and two examples, because they are many.

    Attributes:
        head: Its item; None if only items of its jobs exist.
        live: The jobs that have not ended, by index.
        opened: The indexes of all jobs that a child has opened.
        cancels: The recorded cancels by scope.
        ended_dollars: The dollars of all ended attempts, as far as they are known.
        ended: The number of ended jobs by state.
        reopened: The number of attempts that users have retried.
        damaged: Its items that cannot be read. A damaged job counts as opened, and not as ended.
    """

    head: SubmissionItem | None = None
    live: dict[int, JobItem] = field(default_factory=dict)
    opened: set[int] = field(default_factory=set)
    cancels: dict[str, Cancel] = field(default_factory=dict)
    ended_dollars: float = 0.0
    ended: Counter[JobState] = field(default_factory=Counter)
    reopened: int = 0
    first_failed: JobItem | None = None
    last_ended: JobItem | None = None
    damaged: list[Damaged] = field(default_factory=list)

    @property
    def unopened(self) -> set[int]:
        """The lines that no child has opened yet."""
        return set(range(self.head.jobs)) - self.opened if self.head and self.head.is_submitted else set()

    @property
    def has_ended(self) -> bool:
        """True if all jobs have ended."""
        return self.head is not None and self.head.is_submitted and not (self.live or self.unopened or self.damaged)

    @property
    def unreadable(self) -> set[int]:
        """The indexes of damaged jobs."""
        return {part.index for part in self.damaged if part.index is not None}

    @property
    def ended_at(self) -> int:
        """The time at which the last ended job ended, in seconds since 1970; 0 if none has ended."""
        return epoch_seconds(_end_time(self.last_ended)) if self.last_ended else 0

    def add_damaged(self, part: Damaged) -> None:
        """Add an item that cannot be read."""
        self.damaged.append(part)
        self.opened |= self.unreadable

    def add(self, item: JobItem) -> None:
        """Add a job, with its earlier attempts."""
        self.opened.add(item.index)
        self.ended_dollars += ended_dollars(item)
        self.reopened += sum(bool(previous.reopened) for previous in item.tried)
        if item.state not in FINAL_STATES:
            self.live[item.index] = item
            return
        self.ended[item.state] += 1
        if self.last_ended is None or _end_time(item) > _end_time(self.last_ended):
            self.last_ended = item
        if item.state != JobState.FAILED:
            return
        if self.first_failed is None or _end_time(item) < _end_time(self.first_failed):
            self.first_failed = item


def _end_time(item: JobItem) -> str:
    """Return the timestamp of the last change of a job; timestamps sort by time as texts."""
    return max(item.updated_at, item.opened_at)


def group_by_submission(items: Iterable[LedgerItem | Damaged]) -> dict[str, SubmissionState]:
    """Group the ledger's items by submission; an unknown id has an empty submission."""
    submissions: dict[str, SubmissionState] = defaultdict(SubmissionState)
    for item in items:
        submission = submissions[item.submission]
        if isinstance(item, SubmissionItem):
            submission.head = item
        elif isinstance(item, JobItem):
            submission.add(item)
        elif isinstance(item, Damaged):
            submission.add_damaged(item)
        else:
            submission.cancels[item.scope] = item
    return submissions
