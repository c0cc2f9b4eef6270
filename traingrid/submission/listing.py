"""Listing: all submissions with the number of their jobs in each state, without a read of each job."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.job.state import JobState
from traingrid.ledger.damage import readable
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traingrid.ledger.damage import Damaged
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.submission_item import SubmissionItem

_READS = 8
"""The number of submissions that are read at once."""
_STATES = (
    *(JobState.IN_PROGRESS, JobState.STOPPING, JobState.DELETING, JobState.WAITING, JobState.PENDING),
    *(JobState.FAILED, JobState.STOPPED, JobState.COMPLETED),
)
"""The states of jobs in the order in which they are that of a submission: it runs while one of its jobs runs, and has
ended as badly as the worst of them."""


@dataclass(frozen=True, kw_only=True)
class ListedSubmission:
    """A submission of the list.

    Attributes:
        states: The number of its jobs in each state, which may lack changes of the last moments; empty if it is not
            submitted yet, or if an earlier version recorded its end.
    """

    item: SubmissionItem
    states: Mapping[JobState, int] = field(default_factory=dict)

    @property
    def state(self) -> str:
        """The state of its jobs, or that in the ledger if the states of jobs are not known.

        If they differ, the first of `_STATES` that one of them has.
        """
        if sum(self.states.values()) < self.item.jobs:
            return self.item.state
        return next((state for state in _STATES if self.states.get(state)), self.item.state)


def listed_submissions(ledger: Ledger, report: Callable[[Damaged], object]) -> list[ListedSubmission]:
    """Return all submissions, newest first.

    The end of a submission is recorded with its numbers; only for those with open work, the states of jobs are read
    from the ledger's index.

    Args:
        report: Called with each part of the ledger that cannot be read.
    """
    marks = ledger.open_marks()

    def listed(item: SubmissionItem) -> ListedSubmission:
        if item.submission in marks and item.is_submitted:
            return ListedSubmission(item=item, states=_open_states(ledger, item, report))
        return ListedSubmission(item=item, states={JobState(state): count for state, count in item.ended.items()})

    return list(map_in_order(listed, readable(ledger.submissions(marks), report), _READS))


def _open_states(ledger: Ledger, item: SubmissionItem, report: Callable[[Damaged], object]) -> Counter[JobState]:
    damaged: list[Damaged] = []
    states = Counter(job.state for job in readable(ledger.job_states(item.submission), damaged.append))
    for part in damaged:
        report(part)
    unopened = item.jobs - states.total() - len(damaged)
    return states + Counter({JobState.PENDING: unopened})
