"""Sweep jobs: the operations of a deployed grid that a sweep needs."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.api.submit import parsed, raise_unless_submitted, wait_for_report
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.submission.cancel import Wanted
from traingrid.submission.files import submission_id
from traingrid.submission.metric_curves import by_job, last_curves
from traingrid.submission.metric_history import MetricHistory
from traingrid.sweep.trial_jobs import ManifestRejectedError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from traingrid.api.control_plane import ControlPlane
    from traingrid.aws.s3 import Storage
    from traingrid.submission.metric_points import MetricPoint
    from traingrid.submission.status import JobStatus


@dataclass(frozen=True, kw_only=True)
class SweepJobs:
    """The trials of a sweep in a deployed grid (`traingrid.sweep.trial_jobs.TrialJobs`).

    Attributes:
        plane: The control plane.
        announce: Receives a sentence for each submission.
    """

    plane: ControlPlane
    announce: Callable[[str], None]
    _histories: dict[str, MetricHistory] = field(default_factory=dict)

    def check(self, manifest: bytes) -> None:
        """Validate a manifest as the intake does.

        Raises:
            TraingridError: It is invalid.
        """
        parsed(Path("a trial"), manifest, self.plane.deployment)

    def submit(self, key: str, manifest: bytes) -> str:
        """Upload a manifest unless its key exists, wait until its jobs are submitted, and return the submission's id.

        Raises:
            ManifestRejectedError: The intake has rejected it.
            TraingridError: Batch does not accept its jobs, or the intake does not answer.
        """
        plane = self.plane
        uri = S3Uri(plane.deployment.manifest_bucket, f"{names.MANIFEST_PREFIX}{names.SWEEP_PREFIX}{key}")
        version = uploaded_once(plane.storage, uri, manifest)
        submission = submission_id(str(uri), version)
        known = plane.ledger.submission(submission)
        if known is not None and known.is_submitted and (known.manifest, known.version) == (str(uri), version):
            return submission
        report = wait_for_report(plane.storage, uri, version)
        try:
            raise_unless_submitted(Path(key), report)
        except TraingridError as error:
            if report["state"] == "rejected":
                raise ManifestRejectedError(error) from None
            raise
        found: str = report["submission"]  # another one if two ids collide
        self.announce(f"submission {found}: {key}")
        return found

    def jobs(self, submission: str) -> Sequence[JobStatus]:
        """Return the jobs of a submission."""
        return self.plane.status(submission).jobs

    def curves(self, submission: str, indexes: Sequence[int], metric: str) -> Mapping[int, Sequence[tuple[int, float]]]:
        """Return epoch and value of a metric in the last attempt of some jobs, by index; read new parts only.

        Raises:
            TraingridError: A Region does not return the data of a job.
        """
        plane = self.plane
        if submission not in self._histories:
            made = MetricHistory(plane.deployment, plane.ledger, plane.storage, submission)
            self._histories[submission] = made
        points = by_job(self._histories[submission].read(indexes))
        return {index: curve_of(last_curves(of_job).get(metric, ())) for index, of_job in points.items()}

    def cancel(self, submission: str, index: int, reason: str) -> None:
        """Cancel a job. The reconciler stops it if this process or AWS fails after the cancel is recorded."""
        wanted = Wanted(submission=submission, index=index, by=self.plane.caller(), reason=reason)
        self.plane.canceller.cancel(wanted)
        self.announce(f"submission {submission}, job {index}: cancelled ({reason})")


def uploaded_once(storage: Storage, uri: S3Uri, content: bytes) -> str:
    """Upload an object unless its key has or had one, and return the id of the only version.

    A submission belongs to a version of a manifest, so a second version would train its lines again. S3 refuses to
    create an existing key; a key whose object was deleted is found by its old version.

    Raises:
        TraingridError: The object was deleted for good while this function ran.
    """
    version = storage.first_version(uri)
    if version is None:
        storage.write_if_none(
            uri, content, "application/jsonl"
        )  # if it returns False, an earlier request has written it
        version = storage.first_version(uri)
    if version is None:
        raise TraingridError(f"{uri} was deleted with all its versions.", "Run the command again.")
    return version


def curve_of(points: Sequence[MetricPoint]) -> list[tuple[int, float]]:
    """Return the last value of each epoch; values without an epoch are counted from 1 instead."""
    found = {point.epoch if point.epoch is not None else place: point.value for place, point in enumerate(points, 1)}
    return sorted(found.items())
