"""Queued inventory: lists a grid's training jobs in a Region with a service queue, both created and waiting ones."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import chain

from traingrid import names
from traingrid.aws.clients import ClientFactory, background_client
from traingrid.backends.inventory import ACTIVE_STATES, ALL, Details, Window
from traingrid.backends.queued.jobs import ACTIVE, STARTED, ServiceJobs, state_of, training_job_names
from traingrid.backends.sagemaker.inventory import SageMakerInventory
from traingrid.backends.training_job import TrainingJob
from traingrid.grid.deployment import Deployment
from traingrid.job.ownership import is_of_grid

_SERVICE_JOB = ":service-job/"
_STATUSES = {"InProgress": ACTIVE, "Stopping": STARTED}
"""The statuses of the service jobs whose training jobs may have a state."""


class QueuedInventory:
    """Training jobs and service jobs of a Region, each under its own name; both represent lines.

    Args:
        make_client: Makes the clients of SageMaker and Batch.
    """

    def __init__(
        self, deployment: Deployment, region: str, queue: str, make_client: ClientFactory = background_client
    ) -> None:
        self._grid, self._region = deployment.grid.name, region
        self._sagemaker = SageMakerInventory(deployment, region, make_client)
        self._jobs = ServiceJobs(queue, region, make_client)
        self._queued: dict[str, str] = {}

    def listed(self, state: str = "", submission: str = "", window: Window = ALL) -> Iterator[TrainingJob]:
        """See `Inventory.listed`; a waiting service job is InProgress, and Batch forgets ended ones after some days."""
        return chain(self._service_jobs(state, submission), self._sagemaker.listed(state, submission, window))

    def _service_jobs(self, state: str, submission: str) -> Iterator[TrainingJob]:
        """Yield the service jobs of a state or a submission as training jobs, and remember their ids."""
        # A waiting job is never Stopping, because it ends at once. For one submission, one list by name has all states.
        statuses = () if submission else _STATUSES.get(state, ())
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

    def details(self, job: TrainingJob) -> Details | None:
        """See `Inventory.details`; for a waiting job, return only its state."""
        if job.name not in self._queued:
            return self._sagemaker.details(job)
        queued = self._jobs.described(self._queued[job.name])
        state = state_of(queued)
        for training_job in training_job_names(queued):
            details = self._sagemaker.described(training_job)
            if details:
                return replace(details, state=state) if state in ACTIVE_STATES else details
        return Details(state=state)

    def has_our_tag(self, job: TrainingJob) -> bool:
        """See `Inventory.has_our_tag`."""
        if _SERVICE_JOB not in job.arn:
            return self._sagemaker.has_our_tag(job)
        return is_of_grid(self._jobs.described(job.arn).get("tags", {}), self._grid)

    def stop(self, job: TrainingJob) -> bool:
        """See `Inventory.stop`; terminating an ended service job again is allowed."""
        if job.name not in self._queued:
            return self._sagemaker.stop(job)
        self._jobs.terminate(self._queued[job.name])
        return True

    def complete_stop(self, job: TrainingJob) -> bool:
        """See `Inventory.complete_stop`."""
        return self._sagemaker.complete_stop(job)

    def ended(self) -> Iterator[TrainingJob]:
        """See `Inventory.ended`; Batch deletes ended service jobs itself."""
        return self._sagemaker.ended()

    def release(self, job: TrainingJob) -> bool:
        """See `Inventory.release`."""
        return self._sagemaker.release(job)
