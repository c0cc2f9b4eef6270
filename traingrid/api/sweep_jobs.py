"""Sweep jobs: the operations of a deployed grid that a sweep needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.api.submit import parsed, raise_unless_submitted
from traingrid.api.submit_once import submit_once
from traingrid.errors import TraingridError
from traingrid.ledger.errors import ItemError
from traingrid.metrics.curves import group_by_job, last_curves
from traingrid.metrics.history import MetricHistory
from traingrid.submission.cancel import CancelTarget
from traingrid.submission.journaled_jobs import ManifestRejectedError
from traingrid.submission.status import UNREADABLE

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from traingrid.api.control_plane import ControlPlane
    from traingrid.metrics.points import MetricPoint
    from traingrid.submission.status import JobStatus


@dataclass(frozen=True, kw_only=True)
class SweepJobs:
    """The trials of a sweep in a deployed grid (`traingrid.sweep.trial_jobs.TrialJobs`).

    Attributes:
        announce: Receives a sentence for each submission.
        prefix: The prefix of the keys of manifests.
        noun: Stands for the name of a manifest in errors.
    """

    plane: ControlPlane
    announce: Callable[[str], None]
    prefix: str = names.SWEEP_PREFIX
    noun: str = "a trial"
    _histories: dict[str, MetricHistory] = field(default_factory=dict)
    _reported: set[str] = field(default_factory=set)

    def check(self, manifest: bytes) -> None:
        """Validate a manifest as the intake does.

        Raises:
            TraingridError: It is invalid.
        """
        parsed(Path(self.noun), manifest, self.plane.deployment)

    def submit(self, key: str, manifest: bytes) -> str:
        """Upload a manifest unless its key exists, wait until its jobs are submitted, and return the submission's id.

        Raises:
            ManifestRejectedError: The intake has rejected it.
            TraingridError: Batch does not accept its jobs, or the intake does not answer.
        """
        submission_result = submit_once(self.plane, f"{self.prefix}{key}", manifest)
        if submission_result.report is None:
            return submission_result.submission
        try:
            raise_unless_submitted(Path(key), submission_result.report)
        except TraingridError as error:
            if submission_result.report["state"] == "rejected":
                raise ManifestRejectedError(error) from None
            raise
        self.announce(f"submission {submission_result.submission}: {key}")
        return submission_result.submission

    def jobs(self, submission: str) -> Sequence[JobStatus]:
        """Return the jobs of a submission, and report those that cannot be read once; none if the submission cannot."""
        try:
            jobs = self.plane.status(submission).jobs
        except ItemError as error:
            self._report(f"submission {submission}", error.damaged.sentence)
            return []
        for job in jobs:
            if job.phase == UNREADABLE:
                self._report(f"submission {submission}, job {job.index}", job.reason)
        return jobs

    def _report(self, place: str, damage: str) -> None:
        if place not in self._reported:
            self._reported.add(place)
            self.announce(f"{place}: {damage} It counts as failed; `traingrid cancel` stops its training job.")

    def curves(self, submission: str, indexes: Sequence[int], metric: str) -> Mapping[int, Sequence[tuple[int, float]]]:
        """Return epoch and value of a metric in the last attempt of some jobs, by index; read new parts only.

        Raises:
            TraingridError: A Region does not return the data of a job.
        """
        plane = self.plane
        if submission not in self._histories:
            history = MetricHistory(plane.deployment, plane.ledger, plane.storage, submission)
            self._histories[submission] = history
        points = group_by_job(self._histories[submission].read(indexes))
        return {index: curve_of(last_curves(points_of_job).get(metric, ())) for index, points_of_job in points.items()}

    def cancel(self, submission: str, index: int, reason: str) -> None:
        """Cancel a job. The reconciler stops it if this process or AWS fails after the cancel is recorded."""
        target = CancelTarget(submission=submission, index=index, by=self.plane.caller(), reason=reason)
        self.plane.canceller.cancel(target)
        self.announce(f"submission {submission}, job {index}: cancelled ({reason})")


def curve_of(points: Sequence[MetricPoint]) -> list[tuple[int, float]]:
    """Return the last value of each epoch; values without an epoch are counted from 1 instead."""
    value_by_epoch = {
        point.epoch if point.epoch is not None else place: point.value for place, point in enumerate(points, 1)
    }
    return sorted(value_by_epoch.items())
