"""Pass steps: a pass of the reconciler, from the list of open work to the report.

The order of the steps matters. A pass reads the open submissions first, because the oldest of their lines decides how
far back it lists training jobs. A child writes to the ledger before it creates a training job, and a listed training
job without an open line among them is looked up again. So one without an open line then has none. An unwanted
training job costs money, so the pass stops those first, and then those of submissions that have reached their budgets.
It checks the lines last, because that may take longer than the time limit.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.backends.inventory import MAX_ACTIVE_SECONDS
from traingrid.job.observed import QUEUED
from traingrid.job.state import JobState
from traingrid.ledger.items import removed_regions
from traingrid.ledger.submissions import SubmissionState
from traingrid.reconciler.active_jobs import ActiveJobs
from traingrid.reconciler.open_work import OpenWork, listed_since
from traingrid.reconciler.pass_report import PassReport
from traingrid.reconciler.reach import Reach
from traingrid.reconciler.stops import Stops
from traingrid.reconciler.unwatched_lines import UnwatchedLines

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.backends.training_job import TrainingJob
    from traingrid.ledger.open_marks import OpenMark
    from traingrid.reconciler.reconciler import Reconciler

_FOR_LOOKING = 0.75
"""After this fraction of its time a pass starts no new work, to leave time for the work in progress and its report."""
_FOR_SCANNING = 0.1
"""After this fraction of its time a pass leaves the rest of the daily scan over the ledger to the next pass."""
_FOR_READING = 0.25
"""After this fraction of its time a pass reads no more submissions; it stops training jobs of those that it has."""
_FOR_LISTING = 0.5
"""After this fraction of its time a pass stops listing training jobs in a Region and uses those listed so far."""


@dataclass(kw_only=True)
class Pass:
    """One pass of the reconciler.

    Attributes:
        within: The seconds after which the caller is terminated.
        began: The time at which the pass began.
        submissions: The submissions with open work, or those of them for which there was time.
        marks: Their marks in the index, which were read before them.
        since: The time from which training jobs are listed.
        active: The active training jobs.
    """

    reconciler: Reconciler
    within: float
    began: float
    report: PassReport = field(default_factory=PassReport)
    submissions: Mapping[str, SubmissionState] = field(init=False)
    marks: Mapping[str, OpenMark] = field(init=False)
    since: float = field(init=False)
    active: list[TrainingJob] = field(init=False)

    def __post_init__(self) -> None:
        reconciler = self.reconciler
        self._reach = Reach(reconciler.regions, self.report)
        self._looking_deadline = self._deadline(_FOR_LOOKING)
        self._work = OpenWork(ledger=reconciler.ledger, notifies=reconciler.notifications is not None)

    def run(self) -> PassReport:
        """Take all steps, in this order; see `Reconciler.run_pass`."""
        self._read_submissions()
        self._list_active()
        stops = self._stops()
        self._stop(stops)
        if self.reconciler.notifications:
            self.reconciler.notifications.send(self.submissions, self._looking_deadline, self.report)
        self._unwatched_lines().look_after(self.submissions, self._running)
        stops.release(self.reconciler.regions)
        stops.stop_older(self.reconciler.regions, self.since)
        self._work.settle(self.submissions, self.marks, self._looking_deadline)
        self._reach.raise_failures()
        return self.report

    def _deadline(self, fraction: float) -> float:
        return self.began + self.within * fraction

    def _read_submissions(self) -> None:
        """Continue the daily scan, and read the submissions with open work."""
        self._work.continue_scan(self._deadline(_FOR_SCANNING), self._reach, self.report)
        self.submissions, self.marks = self._work.read(self._deadline(_FOR_READING), self._reach)
        is_whole = len(self.submissions) == len(self.marks)
        oldest = self.began - MAX_ACTIVE_SECONDS
        self.since = listed_since(self.submissions.values(), self.began) if is_whole else oldest

    def _list_active(self) -> None:
        """List the active training jobs, also in Regions that have left the grid."""
        listing = ActiveJobs(
            inventory=self.reconciler.inventory,
            map_regions=self.reconciler.map_regions,
            reach=self._reach,
            since=self.since,
            deadline=self._deadline(_FOR_LISTING),
        )
        self.active = listing.list_jobs(self.reconciler.regions)
        for part in (part for submission in self.submissions.values() for part in submission.damaged):
            self._reach.record_damage(part)
        live = [item for submission in self.submissions.values() for item in submission.live.values()]
        self.active += listing.list_jobs(removed_regions(live, self.reconciler.regions))
        self.report.running = len(self.active)
        self.report.lines = dict(Counter(JobState.WAITING if item.phase == QUEUED else item.state for item in live))

    @property
    def _running(self) -> set[str]:
        return {job.name for job in self.active}

    def _stop(self, stops: Stops) -> None:
        """Stop unwanted training jobs, then those of submissions that have reached their budgets."""
        stops.stop_unwanted(self.active)
        self.reconciler.budgets.enforce(self.submissions, self._running, self._reach, self.report)
        stops.stop_unwanted([job for job in self.active if job.identity.submission in self.report.over_budget])
        stops.complete(self.active)

    def _stops(self) -> Stops:
        return Stops(
            ledger=self.reconciler.ledger,
            inventory=self.reconciler.inventory,
            closer=self.reconciler.closer,
            submissions=self.submissions,
            reach=self._reach,
            deadline=self._looking_deadline,
            done=self.report,
        )

    def _unwatched_lines(self) -> UnwatchedLines:
        return UnwatchedLines(
            bucket=self.reconciler.bucket,
            ledger=self.reconciler.ledger,
            storage=self.reconciler.storage,
            children=self.reconciler.children,
            batch=self.reconciler.batch,
            closer=self.reconciler.closer,
            reach=self._reach,
            deadline=self._looking_deadline,
            done=self.report,
        )
