"""Ledger view: all submissions and jobs of the ledger, read again where they can change.

It calls neither SageMaker nor Batch. A read of everything costs as much as a scan of the table, so between two of them
only the submissions with open jobs are read.
"""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid.job.state import FINAL_STATES
from traingrid.ledger.items import JobItem
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.submission.submitted_jobs import submitted_jobs
from traingrid.ui.rows import Row, key_of, recorded_row, unknown_row, unopened_row

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.api.control_plane import ControlPlane
    from traingrid.job.job import Job
    from traingrid.ledger.ledger import LedgerItem
    from traingrid.ledger.user_requests import Cancel

MOST_JOBS = 50_000
"""The most jobs on the page; those of the newest submissions."""


@dataclass
class _Known:
    """A submission as it was last read."""

    head: SubmissionItem | None = None
    jobs: dict[int, JobItem] = field(default_factory=dict)
    cancels: dict[str, Cancel] = field(default_factory=dict)

    def add(self, item: LedgerItem) -> None:
        if isinstance(item, SubmissionItem):
            self.head = item
        elif isinstance(item, JobItem):
            self.jobs[item.index] = item
        else:
            self.cancels[item.scope] = item


@dataclass
class LedgerView:
    """The rows of all jobs, and their submissions.

    Attributes:
        plane: The control plane.
        heads: The shown submissions by id, newest first.
        rows: The rows of their jobs, by submission and key.
        left_out: The number of older submissions that are not shown.
    """

    plane: ControlPlane
    heads: dict[str, SubmissionItem] = field(default_factory=dict)
    rows: dict[str, dict[str, Row]] = field(default_factory=dict)
    left_out: int = 0
    _submitted: dict[str, list[Job]] = field(default_factory=dict)

    def read_all(self) -> None:
        """Read the whole ledger."""
        found: dict[str, _Known] = defaultdict(_Known)
        for item in self.plane.ledger.everything():
            found[item.submission].add(item)
        heads = [known.head for known in found.values() if known.head]
        heads.sort(key=lambda head: (head.claimed_at, head.submission), reverse=True)
        shown = _newest(heads)
        self.left_out = len(heads) - len(shown)
        rows = {head.submission: self._rows_of(head, found[head.submission]) for head in shown}
        self.heads, self.rows = {head.submission: head for head in shown}, rows

    def read_open(self) -> None:
        """Read the submissions with jobs that have not ended."""
        ledger = self.plane.ledger
        for submission in [name for name in self.heads if self._is_open(name)]:
            known = _Known(cancels=ledger.cancels(submission))
            for item in ledger.items(submission):
                known.add(item)
            if known.head:
                self.heads[submission] = known.head
                self.rows[submission] = self._rows_of(known.head, known)

    def all_rows(self) -> dict[str, Row]:
        """Return the rows of all submissions by key, newest submission first."""
        return {key: row for submission in self.heads for key, row in self.rows[submission].items()}

    def submissions(self) -> list[dict[str, Any]]:
        """Return the shown submissions, newest first, as values that can be written as JSON."""
        return [
            {
                "id": head.submission,
                "state": head.state,
                "jobs": head.jobs,
                "claimed_at": head.claimed_at,
                "manifest": head.manifest.rpartition("/")[2],
                "budget": head.budget_dollars,
            }
            for head in self.heads.values()
        ]

    def shortages(self) -> dict[str, list[str]]:
        """Return the sentences of the current shortages of capacity, by Region."""
        found: dict[str, list[str]] = defaultdict(list)
        for shortage in self.plane.ledger.shortages():
            if not shortage.is_over(time.time()):
                found[shortage.pool.region].append(shortage.sentence())
        return dict(found)

    def _is_open(self, submission: str) -> bool:
        rows = self.rows[submission].values()
        return not self.heads[submission].is_submitted or any(row["state"] not in FINAL_STATES for row in rows)

    def _rows_of(self, head: SubmissionItem, known: _Known) -> dict[str, Row]:
        rows = {index: recorded_row(item, known.cancels) for index, item in known.jobs.items()}
        if len(rows) < head.jobs:
            unopened = {job.index: unopened_row(head.submission, job, known.cancels) for job in self._jobs_of(head)}
            unknown = {index: unknown_row(head.submission, index) for index in range(head.jobs)}
            rows = {**unknown, **unopened, **rows}
        else:
            self._submitted.pop(head.submission, None)
        return {key_of(head.submission, index): row for index, row in sorted(rows.items())}

    def _jobs_of(self, head: SubmissionItem) -> list[Job]:
        """Return the submitted jobs, whose files never change once they are complete."""
        if head.submission not in self._submitted:
            jobs = list(submitted_jobs(self.plane.storage, self.plane.deployment.manifest_bucket, head))
            if not head.is_submitted:
                return jobs
            self._submitted[head.submission] = jobs
        return self._submitted[head.submission]


def _newest(heads: Iterable[SubmissionItem]) -> list[SubmissionItem]:
    """Return the first submissions whose jobs fit on the page, but at least one."""
    shown: list[SubmissionItem] = []
    jobs = 0
    for head in heads:
        jobs += head.jobs
        if shown and jobs > MOST_JOBS:
            break
        shown.append(head)
    return shown
