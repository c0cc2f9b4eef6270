"""Description: everything that is known about one job, without a request to SageMaker."""

from __future__ import annotations

import logging
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.console import cluster_address, console_address
from traingrid.aws.s3 import Storage
from traingrid.errors import TraingridError
from traingrid.job.data_layout import layout_as_trained
from traingrid.job.failures import FAILURES
from traingrid.job.job import job_in_region
from traingrid.job.state import JobState
from traingrid.ledger.damage import warn
from traingrid.submission.submitted_jobs import last_submitted_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from traingrid.api.control_plane import ControlPlane
    from traingrid.grid.model import GridSettings
    from traingrid.job.backend_traits import BackendName
    from traingrid.job.data_layout import Layout
    from traingrid.job.job import Job
    from traingrid.ledger.items import RecordedAttempt
    from traingrid.submission.status import JobStatus

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class JobDescription:
    """One job: its line, its status and its attempts.

    Attributes:
        status: The current status.
        manifest: The S3 URI of the manifest.
        line: The number of its line in the manifest; 0 if it is not known.
        fields: The line with all defaults applied, as it was submitted last, with the channels that a training found
            in its folder; empty if the line cannot be read.
        attempts: The attempts, oldest first; none before a child has opened the job.
        failure: The name of the failure class of the last attempt; empty if it has not failed.
        advice: The next step after that failure; empty if none is needed.
        console: The address of the training job in the AWS console, or of its cluster of EKS; empty before the training
            job is requested.
    """

    status: JobStatus
    manifest: str
    line: int
    fields: Mapping[str, Any]
    attempts: tuple[RecordedAttempt, ...]
    failure: str
    advice: str
    console: str

    def as_dict(self) -> dict[str, Any]:
        """Return the description as a dictionary of JSON values."""
        return asdict(self)


def describe(plane: ControlPlane, submission: str, index: int) -> JobDescription:
    """Return the description of a job.

    Raises:
        UsageError: The submission or the job does not exist.
    """
    status = plane.job(submission, index)
    submission_item = plane.head(submission)
    item = plane.ledger.job(submission, index)
    job = last_submitted_jobs(plane.storage, plane.deployment.manifest_bucket, submission_item, warn).get(index)
    failure = item.failure if item else ""
    line = item.line if item else 0
    if job:
        line = job.line
    return JobDescription(
        status=status,
        manifest=submission_item.manifest,
        line=line,
        fields=_set_fields(_as_trained(plane, job, status)) if job else {},
        attempts=tuple(attempt for _, attempt in sorted(item.attempts().items())) if item else (),
        failure=failure,
        advice=FAILURES[failure].next_step if failure in FAILURES else "",
        console=console_of(plane.deployment.grid, status.region, status.backend, status.training_job),
    )


def absent_metrics(status: JobStatus, names: Iterable[str]) -> list[str]:
    """Return the metrics of a script of which a completed job has no value, because of its expression or its log.

    On a cluster, the child reads the log, and perhaps not to its end, so a missing value proves nothing.

    Args:
        names: The names of the metrics of the script's line.
    """
    if status.state != JobState.COMPLETED or status.backend != "sagemaker":
        return []
    return [name for name in names if name not in status.metrics]


def _as_trained(plane: ControlPlane, job: Job, status: JobStatus) -> Job:
    """Return a job with the channels that its training found in its folder, if they are known."""
    layout = trained_layout(plane, job, status.region, status.training_job)
    inputs = layout.inputs(job_in_region(job, status.region).inputs) if layout else job.inputs
    return job.model_copy(update={"inputs": inputs})


def trained_layout(plane: ControlPlane, job: Job, region: str, training_job: str) -> Layout | None:
    """Return the channels that a training job found in its folder; None if it has not, or they cannot be read now.

    Args:
        region: The Region of the training job.
        training_job: Its name; empty before it is requested.
    """
    if not job.by_layout or not training_job or region not in job.regions:
        return None
    try:
        storage = Storage(region, role=plane.deployment.acting_role_in(region))
        return layout_as_trained(storage, job_in_region(job, region), training_job)
    except (TraingridError, BotoCoreError, ClientError) as error:
        logger.info("the channels of %s are not known: %s", training_job, error)
        return None


def console_of(grid: GridSettings, region: str, backend: BackendName, training_job: str) -> str:
    """Return the address in the AWS console of a training job, or of the cluster on which it is; empty without one."""
    if not training_job:
        return ""
    if backend == "sagemaker":
        return console_address(region, training_job)
    settings = grid.regions[region].eks if region in grid.regions else None
    return cluster_address(region, settings.cluster if settings else "")


def _set_fields(job: Job) -> dict[str, Any]:
    """Return the fields of a job that differ from their defaults."""
    return job.model_dump(mode="json", exclude_defaults=True, exclude={"index", "line"})
