"""Budgets: records a cancel of each submission whose training jobs have cost its budget.

The prices are those of the submission's lines, so nothing reads the catalog. The ledger has the rest: the billable
seconds of ended attempts, and the start of running ones, which children and events record. Only a running training job
without a recorded start is described.

A cancel by a budget is the same ledger item as a user's, written once, so children and the reconciler carry it out in
the same way, and it does not matter if a pass ends before or after the write.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.ledger.damage import Damaged
from traingrid.ledger.record_outcome import record_seen
from traingrid.ledger.spending import is_running, running_dollars
from traingrid.ledger.user_requests import CANCEL_ALL

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from traingrid.job.backend_traits import BackendName
    from traingrid.job.observed import Describer
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.submissions import SubmissionState
    from traingrid.reconciler.pass_report import PassReport
    from traingrid.reconciler.reach import Reach

BY = "the reconciler"
"""The user of a cancel that a budget caused."""


@dataclass(frozen=True, kw_only=True)
class Budgets:
    """The budgets of all submissions.

    Attributes:
        backend: Returns a backend in a Region.
    """

    grid: str
    ledger: Ledger
    backend: Callable[[str, BackendName], Describer]

    def enforce(
        self, submissions: Mapping[str, SubmissionState], running: Container[str], reach: Reach, done: PassReport
    ) -> None:
        """Cancel the submissions that have reached their budgets.

        Args:
            submissions: All submissions; those that are cancelled get the cancel.
            running: The names of all running training jobs.
        """
        for name, submission in submissions.items():
            if not _may_reach(submission):
                continue
            with reach.record_submission_errors(name):
                self._enforce(name, submission, running, reach, done)

    def _enforce(
        self, name: str, submission: SubmissionState, running: Container[str], reach: Reach, done: PassReport
    ) -> None:
        budget = submission.head.budget_dollars if submission.head else None
        items = [self._record_start(item, running, reach) for item in submission.live.values()]
        spent = submission.ended_dollars + sum(running_dollars(item, time.time()) for item in items)
        if budget is None or spent < budget:
            return
        reason = f"the budget of ${budget:,.2f} is reached: ${spent:,.2f} spent"
        submission.cancels[CANCEL_ALL] = self.ledger.cancel_once(name, {"by": BY, "reason": reason})
        done.over_budget.append(name)

    def _record_start(self, item: JobItem, running: Container[str], reach: Reach) -> JobItem:
        """Return a job with the start of its training job, which is recorded if no child or event has recorded it."""
        name = names.training_job(self.grid, item.submission, item.index, item.attempt)
        is_known = item.training_started_at or not is_running(item) or name not in running
        label = reach.label(item.region, item.backend)
        if is_known or reach.is_given_up(label):
            return item
        with reach.record_errors(label):
            if record_seen(self.grid, self.ledger, self.backend(item.region, item.backend), name):
                current = self.ledger.look_up(item.submission, item.index)
                return item if current is None or isinstance(current, Damaged) else current
        return item


def _may_reach(submission: SubmissionState) -> bool:
    """Return True if a submission has a budget, and lines that have not ended and are not all cancelled."""
    head = submission.head
    has_budget = head is not None and head.budget_dollars is not None
    return has_budget and CANCEL_ALL not in submission.cancels and bool(submission.live or submission.unopened)
