"""Open work: reads the submissions that have not ended, without the history of the grid.

An index in the ledger has a mark for each submission with open work. Its claimant and each retry write a mark before
work begins, and a pass removes the mark that it has read before the submission's jobs, once all of them have ended and
the mark is so old that its work has begun or never will (`traingrid/late_request.py`). So a pass reads open
submissions only, and those that ended within minutes of their mark, however many jobs have ended.

Once a day a scan of the whole table adds missing submissions to the index: those of versions without it, and those of
which such a version has reopened jobs. The scan takes a share of each pass, and continues where the last one stopped.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from traingrid.backends.inventory import MAX_ACTIVE_SECONDS
from traingrid.backoff import PASS_SECONDS
from traingrid.late_request import CREATES_END_SECONDS
from traingrid.ledger.grid_items import HistoryScan
from traingrid.ledger.open_marks import OpenMark
from traingrid.ledger.submissions import SubmissionState, group_by_submission
from traingrid.ledger.timestamps import epoch_seconds, timestamp
from traingrid.reconciler.notifications import is_told
from traingrid.reconciler.pass_order import rotated

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.ledger.ledger import Ledger
    from traingrid.reconciler.pass_report import PassReport
    from traingrid.reconciler.reach import Reach

RECENT_SECONDS = 2 * 24 * 3600
"""The age up to which each pass finds training jobs of lines that have ended; older ones once a day."""
_CLOCK_SECONDS = 3600
"""The tolerated difference between the clocks of a child and of SageMaker."""
SCAN_SECONDS = 24 * 3600
"""The time between the ends of two scans of the whole table."""
_ABANDONED_SECONDS = 24 * 3600
"""The age of a mark without a submission, whose claimant has ended before it claimed it, at which it is removed."""


@dataclass(kw_only=True)
class OpenWork:
    """The submissions with open work.

    Attributes:
        notifies: True if the grid has notifications, which a submission needs until they are published.
    """

    ledger: Ledger
    notifies: bool

    def continue_scan(self, deadline: float, reach: Reach, done: PassReport) -> None:
        """Begin or continue the daily scan of the whole table.

        Args:
            deadline: The time at which it reads no more pages; it reads at least one.
            reach: Records a progress or a pause that cannot be read.
            done: The pass, which gets the progress.
        """
        progress, pause = self.ledger.grid_items()
        for part in (progress.damage, pause and pause.damage):
            if part:
                reach.record_damage(part)
        if not progress.after:
            if abs(time.time() - progress.completed_at) < SCAN_SECONDS:
                return
            progress = HistoryScan(began_at=int(time.time()), completed_at=progress.completed_at)
        progress = self._scanned(progress, deadline)
        self.ledger.record_history_scan(progress)
        state = "in progress" if progress.after else "complete"
        began = timestamp(progress.began_at)
        done.history = f"{state}: {progress.pages} pages, {progress.added} submissions added, begun at {began}"

    def _scanned(self, progress: HistoryScan, deadline: float) -> HistoryScan:
        marked_submissions = set(self.ledger.open_marks())
        after = dict(progress.after) or None
        pages = added_marks = 0
        while True:
            unsettled, after = self.ledger.unsettled(after)
            for submission in sorted(unsettled - marked_submissions):
                self.ledger.mark_unsettled(submission)
            pages = pages + 1
            added_marks = added_marks + len(unsettled - marked_submissions)
            marked_submissions = marked_submissions | unsettled
            if after is None or time.time() >= deadline:
                break
        totals = replace(progress, pages=progress.pages + pages, added=progress.added + added_marks, after=after or {})
        return totals if after else replace(totals, completed_at=int(time.time()))

    def read(self, deadline: float, reach: Reach) -> tuple[dict[str, SubmissionState], Mapping[str, OpenMark]]:
        """Return the submissions with open work, and the marks that were read before them.

        Each pass begins with another submission, so that those without time are read by the next ones.

        Args:
            deadline: The time at which no more submissions are read, after at least one.
            reach: Records submissions for which there was no time, and damaged marks, which are written again.
        """
        marks = self.ledger.open_marks()
        submissions = dict[str, SubmissionState]()
        for name, mark in marks.items():
            if mark.damage:
                reach.record_damage(mark.damage)
                self.ledger.mark_open(name)
        order = rotated(marks, str, int(time.time() // PASS_SECONDS))
        for number, name in enumerate(order):
            if number and time.time() >= deadline:
                reach.record_unread(len(order) - number)
                break
            submissions[name] = group_by_submission(self.ledger.whole(name)).get(name, SubmissionState())
        return submissions, marks

    def settle(
        self, submissions: Mapping[str, SubmissionState], marks: Mapping[str, OpenMark], deadline: float
    ) -> None:
        """Remove submissions from the index that have ended, and for which nothing is left to be published.

        Args:
            submissions: The submissions, as they were read.
            marks: The marks that were read before them.
            deadline: The time at which the rest is left to the next pass.
        """
        now = time.time()
        newest = timestamp(now - CREATES_END_SECONDS)
        for name, submission in submissions.items():
            if time.time() >= deadline:
                return
            if marks[name].damage or marks[name].at > newest:
                continue  # a retry may have written the mark, and reopen a job now
            is_over = submission.has_ended and (not self.notifies or is_told(submission, now))
            if is_over or _is_abandoned(submission, marks[name], now):
                self.ledger.settle(name, marks[name], submission.ended)


def listed_since(submissions: Iterable[SubmissionState], now: float) -> float:
    """Return the time since which a pass lists training jobs: the begin of the oldest attempt that has not ended.

    Older training jobs are listed by the daily scan.

    Args:
        submissions: The submissions with open work; a damaged line may be of any age.
        now: The time in seconds since 1970.
    """
    oldest = now - RECENT_SECONDS
    for submission in submissions:
        if submission.damaged:
            return now - MAX_ACTIVE_SECONDS
        for item in submission.live.values():
            oldest = min(oldest, epoch_seconds(item.opened_at) - _CLOCK_SECONDS)
    return max(oldest, now - MAX_ACTIVE_SECONDS)


def _is_abandoned(submission: SubmissionState, mark: OpenMark, now: float) -> bool:
    """Return True if a mark is old and the ledger has no item of its submission."""
    is_empty = submission.head is None and not (submission.opened or submission.damaged)
    return is_empty and mark.at < timestamp(now - _ABANDONED_SECONDS)
