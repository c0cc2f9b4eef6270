"""Rounds timeline: reads the rounds of a name, and their jobs from the ledger."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.catalog.list_prices import dollars_per_hour, transfer_prices
from traingrid.deploy.prices import GIGABYTE
from traingrid.ledger.errors import ItemError, UnknownSubmissionError
from traingrid.rounds.journal import rounds_journal
from traingrid.rounds.state import RoundsState, state_of
from traingrid.rounds.timeline import ObservedJob, RoundView, round_views
from traingrid.submission.series import Series

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.api.control_plane import ControlPlane
    from traingrid.job.job import Job
    from traingrid.rounds.borders import Crossing
    from traingrid.submission.status import JobStatus

_HOUR = 3600.0


def rounds_state(plane: ControlPlane, name: str) -> RoundsState:
    """Return the rounds of a name, as their journal has them.

    Raises:
        UsageError: There are none.
    """
    entries = rounds_journal(plane.storage, plane.deployment.manifest_bucket, name).refresh()
    Series("rounds", name).check_begun(entries)
    return state_of(entries)


def timeline(plane: ControlPlane, state: RoundsState) -> list[RoundView]:
    """Return rounds with the jobs of the ledger and the prices of the snapshot; each submission is read once."""
    statuses: dict[str, list[JobStatus]] = {}

    def status_of(submission: str, index: int) -> JobStatus | None:
        if submission not in statuses:
            try:
                statuses[submission] = plane.status(submission).jobs
            except (ItemError, UnknownSubmissionError):
                statuses[submission] = []
        return next((job for job in statuses[submission] if job.index == index), None)

    return round_views(state, PricedJobs(plane, status_of))


@dataclass(frozen=True)
class PricedJobs:
    """The jobs of rounds at the prices of their lines or of the snapshot (`traingrid.rounds.timeline.Observer`).

    Attributes:
        status_of: Returns the status of a job; None if it cannot be read.
    """

    plane: ControlPlane
    status_of: Callable[[str, int], JobStatus | None]
    _jobs: dict[str, dict[int, Job]] = field(default_factory=dict)

    def job(self, submission: str, index: int) -> ObservedJob | None:
        """Return a job; None if it cannot be read."""
        status = self.status_of(submission, index)
        if status is None:
            return None
        seconds = status.elapsed(time.time())
        return ObservedJob(
            state=str(status.state),
            seconds=seconds,
            metrics=status.metrics,
            dollars=status.dollars or self.dollars(submission, index, seconds),
        )

    def dollars(self, submission: str, index: int, seconds: float) -> float | None:
        """Return the cost of a job's instances on demand; None if the price is not known."""
        if index not in self._jobs.get(submission, {}):  # the intake may still be writing them
            self._jobs[submission] = self.plane.last_submitted_jobs(submission)
        job = self._jobs[submission].get(index)
        hourly = dollars_per_hour(job) if job else None
        return None if hourly is None else hourly * seconds / _HOUR

    def transfer_dollars(self, crossing: Crossing) -> float | None:
        """Return the snapshot's price of a copy between Regions; None if it has none."""
        price = transfer_prices().get((crossing.from_region, crossing.to_region))
        return None if price is None else price * crossing.bytes / GIGABYTE
