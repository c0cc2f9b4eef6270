"""Queued jobs: lists a grid's training jobs in a Region with a service queue, both created and waiting ones."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.aws.clients import Maker, gentle
from traingrid.backends.found_job import TrainingJob
from traingrid.backends.service_jobs import ACTIVE, STARTED, ServiceJobs, state_of, training_job_names
from traingrid.backends.training_jobs import ACTIVE_STATES, TrainingJobs
from traingrid.job.ownership import is_of_grid

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.grid.deployment import Deployment

_SERVICE_JOB = ":service-job/"


class QueuedTrainingJobs(TrainingJobs):
    """Training jobs and service jobs of a Region, each under its own name; both represent lines.

    Args:
        deployment: The grid.
        region: The Region.
        queue: The name of its service queue.
        make: Makes the clients of SageMaker and Batch.
    """

    def __init__(self, deployment: Deployment, region: str, queue: str, make: Maker = gentle) -> None:
        super().__init__(deployment, region, make)
        self._jobs = ServiceJobs(queue, region, make)
        self._queued: dict[str, str] = {}

    def listed(self, state: str = "", submission: str = "") -> Iterator[TrainingJob]:
        """See `TrainingJobs.listed`; a waiting service job is InProgress."""
        return chain(super().listed(state, submission), self._service_jobs(state, submission))

    def _service_jobs(self, state: str, submission: str) -> Iterator[TrainingJob]:
        # A waiting job is never Stopping, because it ends at once. For one submission, one list by name has all states.
        statuses = {"InProgress": ACTIVE, "Stopping": STARTED}.get(state, ()) if not submission else ()
        for job in self._jobs.summaries(f"{self._grid}-{submission}", statuses):
            identity = names.parse_training_job(self._grid, job["jobName"])
            if not identity or submission not in ("", identity.submission) or state not in ("", state_of(job)):
                continue
            self._queued[job["jobName"]] = job["jobId"]
            yield TrainingJob(
                name=job["jobName"],
                identity=identity,
                region=self._region,
                arn=job["jobArn"],
                state=state_of(job),
                created_at=job["createdAt"] / 1000,
                ended_at=job["stoppedAt"] / 1000 if job.get("stoppedAt") else None,
            )

    def described(self, name: str) -> Mapping[str, Any] | None:
        """See `TrainingJobs.described`; for a waiting job, return only its state."""
        if name not in self._queued:
            return super().described(name)
        job = self._jobs.described(self._queued[name])
        spelled = (super(QueuedTrainingJobs, self).described(training_job) for training_job in training_job_names(job))
        trained = next((found for found in spelled if found), None)
        active = state_of(job) in ACTIVE_STATES
        return {**(trained or {}), "TrainingJobStatus": state_of(job)} if active or not trained else trained

    def bears_our_tag(self, arn: str) -> bool:
        """See `TrainingJobs.bears_our_tag`."""
        if _SERVICE_JOB not in arn:
            return super().bears_our_tag(arn)
        return is_of_grid(self._jobs.described(arn).get("tags", {}), self._grid)

    def stop(self, name: str) -> bool:
        """See `TrainingJobs.stop`; terminating an ended service job again is allowed."""
        if name not in self._queued:
            return super().stop(name)
        self._jobs.terminate(self._queued[name])
        return True


def training_jobs_in(deployment: Deployment, region: str, make: Maker = gentle) -> TrainingJobs:
    """Return the training jobs of a grid in a Region, which may have left the grid."""
    queue = deployment.grid.service_queue(region)
    return QueuedTrainingJobs(deployment, region, queue, make) if queue else TrainingJobs(deployment, region, make)
