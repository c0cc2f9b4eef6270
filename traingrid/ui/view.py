"""Ledger view: the newest submissions and their jobs, read again where they can change.

It calls neither SageMaker nor Batch. Submissions with open jobs are read again, from the first open job on. Each claim
and each retry of a submission writes a new mark into the index of open work, so the marks show which others to read.
From time to time all submissions are listed, without their jobs: a submission that begins and ends between two reads
of the marks is found by this, and every one of a grid whose deployed version writes no marks.
"""

from __future__ import annotations

import math
import time
from collections import defaultdict
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import Damaged, readable
from traingrid.ledger.items import JobItem
from traingrid.ledger.rejections import REJECTIONS, unresolved
from traingrid.ledger.shortages import SHORTAGES
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.submission.series import Series
from traingrid.submission.submitted_jobs import submitted_jobs
from traingrid.threads import map_in_order
from traingrid.ui.rows import Row, key_of, recorded_row, unknown_row, unopened_row, unreadable_row

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from traingrid.api.control_plane import ControlPlane
    from traingrid.job.job import Job
    from traingrid.ledger.ledger import LedgerItem
    from traingrid.ledger.open_marks import OpenMark
    from traingrid.ledger.user_requests import Cancel

MOST_JOBS, MOST_SUBMISSIONS = 50_000, 500
"""The most jobs and submissions on the page: the newest ones."""
SETTLING_SECONDS = 120.0
"""A submission is read for this time after its last job has ended, because the last metrics may follow, and after a new
mark."""
_READS = 8
"""The number of submissions that are read at once."""


@dataclass
class _Known:
    """The items of a submission that were read."""

    first: int = 0
    head: SubmissionItem | None = None
    jobs: dict[int, JobItem] = field(default_factory=dict)
    cancels: dict[str, Cancel] = field(default_factory=dict)
    damaged: list[Damaged] = field(default_factory=list)

    def add(self, item: LedgerItem | Damaged) -> None:
        if isinstance(item, Damaged):
            self.damaged.append(item)
        elif isinstance(item, SubmissionItem):
            self.head = item
        elif isinstance(item, JobItem):
            self.jobs[item.index] = item
        else:
            self.cancels[item.scope] = item


@dataclass
class LedgerView:
    """The rows of all jobs, and their submissions.

    Attributes:
        heads: The shown submissions by id, newest first.
        rows: The rows of their jobs, by submission and key.
        left_out: The number of older submissions that are not shown.
        finds_changes: False if the index of open work is not complete yet.
        damaged: The parts of the grid's record that could not be read last, by submission or partition key.
    """

    plane: ControlPlane
    heads: dict[str, SubmissionItem] = field(default_factory=dict)
    rows: dict[str, dict[str, Row]] = field(default_factory=dict)
    left_out: int = 0
    finds_changes: bool = True
    damaged: dict[str, list[Damaged]] = field(default_factory=dict)
    _submitted: dict[str, list[Job | Damaged]] = field(default_factory=dict)
    _cancels: dict[str, dict[str, Cancel]] = field(default_factory=dict)
    _marks: dict[str, OpenMark] = field(default_factory=dict)
    _watched_until: dict[str, float] = field(default_factory=dict)
    _first_open: dict[str, int] = field(default_factory=dict)

    def read_all(self) -> None:
        """List all submissions, and read the shown ones that were not read yet or have changed since."""
        ledger = self.plane.ledger
        history = ledger.history_scan()
        self.finds_changes = history.completed_at > 0
        marks = ledger.open_marks()  # before the submissions, so that later marks show later changes
        unreadable: list[Damaged] = []
        heads = {
            submission_item.submission: submission_item
            for submission_item in readable(ledger.submissions(), unreadable.append)
        }
        self.left_out = 0
        self._show(heads.values())
        changed = [name for name in self.heads if name not in self._cancels or self.heads[name] != heads[name]]
        for state in map_in_order(self._read, changed, _READS):
            self._store(state)
        self.damaged = {name: self.damaged.get(name, []) for name in self.heads}
        self.damaged |= {part.submission: [part] for part in (*unreadable, history.damage) if part}
        for name in marks.keys() & heads.keys():
            self._watch(name, marks[name])

    def read_changed(self) -> None:
        """Read the submissions that were claimed or retried since the last call."""
        marks = self.plane.ledger.open_marks()
        for submission in [name for name, mark in marks.items() if self._marks.get(name) != mark]:
            state = self._read(submission)
            if state.head is None:
                continue  # it is marked, but not claimed yet
            if submission not in self.heads:
                self._show([*self.heads.values(), state.head])
            if submission in self.heads:
                self._store(state)
            self._watch(submission, marks[submission])

    def _watch(self, submission: str, mark: OpenMark) -> None:
        """Read a submission with a new mark for some time, because a retry marks it before it reopens jobs."""
        if self._marks.get(submission) != mark:
            self._marks[submission] = mark
            until = time.monotonic() + SETTLING_SECONDS
            self._watched_until[submission] = max(self._watched_until.get(submission, 0.0), until)

    def read_open(self) -> None:
        """Read the submissions with jobs that have not ended, or have ended just now."""
        now = time.monotonic()
        for submission in [name for name in self.heads if self._watched_until.get(name, 0) > now]:
            state = self._read(submission, self._first_to_read(submission))
            if self._changed_before(state):
                state = self._read(submission)
            self._store(state)

    def all_rows(self) -> dict[str, Row]:
        """Return the rows of all submissions by key, newest submission first."""
        return {key: row for submission in self.heads for key, row in self.rows[submission].items()}

    def submissions(self) -> list[dict[str, Any]]:
        """Return the shown submissions, newest first, as values that can be written as JSON."""
        return [
            {
                "id": submission_item.submission,
                "state": submission_item.state,
                "jobs": submission_item.jobs,
                "claimed_at": submission_item.claimed_at,
                "manifest": submission_item.manifest.rpartition("/")[2],
                "series": str(Series.of_manifest(submission_item.manifest) or ""),
                "arrays": len(submission_item.arrays),
                "budget": submission_item.budget_dollars,
            }
            for submission_item in self.heads.values()
        ]

    def shortages(self) -> dict[str, list[str]]:
        """Return the sentences of the current shortages of capacity, by Region."""
        sentences_by_region: dict[str, list[str]] = defaultdict(list)
        unreadable = self.damaged[SHORTAGES] = []
        for shortage in readable(self.plane.ledger.shortages(), unreadable.append):
            if not shortage.is_over(time.time()):
                sentences_by_region[shortage.pool.region].append(shortage.sentence())
        return dict(sentences_by_region)

    def rejections(self) -> list[str]:
        """Return the sentences of the manifests that were rejected in the last week, newest first."""
        unreadable = self.damaged[REJECTIONS] = []
        recorded = readable(self.plane.ledger.rejections(), unreadable.append)
        return [rejection.sentence for rejection in unresolved(recorded, self.heads.values())]

    def _show(self, heads: Collection[SubmissionItem]) -> None:
        """Show the newest submissions; of those that are shown already, the items stay until they are read again."""
        ordered = sorted(
            heads, key=lambda submission_item: (submission_item.claimed_at, submission_item.submission), reverse=True
        )
        newest = {
            submission_item.submission: self.heads.get(submission_item.submission, submission_item)
            for submission_item in _newest(ordered)
        }
        self.heads, self.rows = newest, {name: self.rows.get(name, {}) for name in newest}
        self._cancels = {name: cancels for name, cancels in self._cancels.items() if name in newest}
        self.left_out += len(ordered) - len(newest)

    def _read(self, submission: str, first: int = 0) -> _Known:
        """Read a submission, from a job on."""
        ledger = self.plane.ledger
        state = _Known(first=first, cancels=ledger.cancels(submission))
        for item in ledger.items(submission, first):
            state.add(item)
        return state

    def _first_to_read(self, submission: str) -> int:
        """Return the index of the first job that may change; all jobs before it are shown as they ended."""
        submission_item, rows = self.heads[submission], self.rows[submission]
        is_complete = submission_item.is_submitted and len(rows) == submission_item.jobs
        return self._first_open.get(submission, 0) if is_complete else 0

    def _changed_before(self, state: _Known) -> bool:
        """Return True if jobs before the first that was read may have changed: by a retry or a cancel."""
        if not state.first or state.head is None:
            return False
        name = state.head.submission
        return state.head.arrays != self.heads[name].arrays or state.cancels != self._cancels.get(name)

    def _store(self, state: _Known) -> None:
        """Update a shown submission with the items that were read."""
        submission_item = state.head
        if submission_item is None:
            return
        name, before = submission_item.submission, self.rows[submission_item.submission] if state.first else {}
        rows = self._rows_of(submission_item, state, before)
        self._store_damaged(name, state)
        self.heads[name], self.rows[name], self._cancels[name] = submission_item, rows, state.cancels
        open_ones = (row["index"] for row in rows.values() if row["state"] not in FINAL_STATES)
        first_open = min(open_ones, default=None)
        if first_open is not None:
            self._first_open[name] = first_open
        if first_open is not None or not submission_item.is_submitted:
            self._watched_until[name] = math.inf
        elif self._watched_until.get(name) == math.inf:
            self._watched_until[name] = time.monotonic() + SETTLING_SECONDS

    def _store_damaged(self, name: str, state: _Known) -> None:
        """Keep the damaged parts of a submission; a read from a job on sees neither those before it nor the files."""
        before = self.damaged.get(name, ()) if state.first else ()
        still_damaged = [part for part in before if part.array_file or (part.index or 0) < state.first]
        self.damaged[name] = list(dict.fromkeys([*still_damaged, *state.damaged]))

    def _rows_of(self, submission_item: SubmissionItem, state: _Known, before: dict[str, Row]) -> dict[str, Row]:
        """Return the rows of a submission; `before` has those of the jobs that were not read."""
        rows = {index: recorded_row(item, state.cancels) for index, item in state.jobs.items()}
        items = {part.index: part for part in state.damaged if part.index is not None}
        if before:
            rows |= {index: unreadable_row(submission_item.submission, index, part) for index, part in items.items()}
            return before | {key_of(submission_item.submission, index): row for index, row in rows.items()}
        if len(rows) < submission_item.jobs:
            lines = readable(self._jobs_of(submission_item), state.damaged.append)
            unopened = {job.index: unopened_row(submission_item.submission, job, state.cancels) for job in lines}
            unknown = {index: unknown_row(submission_item.submission, index) for index in range(submission_item.jobs)}
            lost = {index: unreadable_row(submission_item.submission, index, part) for index, part in items.items()}
            rows = {**unknown, **unopened, **rows, **lost}
        else:
            self._submitted.pop(submission_item.submission, None)
        return {key_of(submission_item.submission, index): row for index, row in sorted(rows.items())}

    def _jobs_of(self, submission_item: SubmissionItem) -> list[Job | Damaged]:
        """Return the submitted jobs, whose files never change once they are complete."""
        if submission_item.submission not in self._submitted:
            jobs = list(submitted_jobs(self.plane.storage, self.plane.deployment.manifest_bucket, submission_item))
            if not submission_item.is_submitted:
                return jobs
            self._submitted[submission_item.submission] = jobs
        return self._submitted[submission_item.submission]


def _newest(heads: Iterable[SubmissionItem]) -> list[SubmissionItem]:
    """Return the first submissions that fit on the page, but at least one."""
    newest: list[SubmissionItem] = []
    jobs = 0
    for submission_item in heads:
        jobs += submission_item.jobs
        if newest and (jobs > MOST_JOBS or len(newest) == MOST_SUBMISSIONS):
            break
        newest.append(submission_item)
    return newest
