"""Template backend: creates, describes and stops the training jobs of the service in memory."""

from collections.abc import Iterator
from typing import Any

from tests.support.template_backend.jobs import MemoryService, NameTakenError, StoredJob, describe_stored_job
from tests.support.template_backend.log import TemplateLogs
from traingrid.aws.log_events import LogPosition
from traingrid.backends.base import LaunchError, StopReason
from traingrid.backends.sagemaker.request import fingerprint, training_job_request
from traingrid.grid.deployment import Deployment
from traingrid.job.failures import SERVICE_ERROR
from traingrid.job.job import Job
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.ownership import conflict, is_of_grid


class TemplateBackend:
    """Training jobs of one Region; see `Backend`.

    Args:
        deployment: The deployment.
        region: The Region.
        service: The service.
    """

    def __init__(self, deployment: Deployment, region: str, service: MemoryService) -> None:
        self._deployment, self._region, self._service = deployment, region, service
        self._logs = TemplateLogs(service)

    def start(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        """Create the training job by one request, or attach to it."""
        try:
            self._service.create(StoredJob(request=self._request(name, job), tags={**job.tags, **tags}))
        except NameTakenError:
            return self.attach(name, job, tags)
        except TimeoutError as error:  # it may exist; the caller starts it again, which finds it by its name
            raise LaunchError(SERVICE_ERROR, f"The service did not confirm {name}.", unresolved=True) from error
        return None

    def attach(self, name: str, job: Job, _tags: dict[str, str]) -> TrainingJobDescription | None:
        """Return the training job if this job created it, which fingerprint and tags show."""
        training_job, expected = self.describe(name), self.fingerprint(name, job)
        if training_job is None:
            return None
        grid, actual_tags = self._deployment.grid.name, self.tags(training_job) or {}
        if training_job.fingerprint != expected or not is_of_grid(actual_tags, grid):
            raise LaunchError(*conflict(grid, actual_tags, training_job, expected))
        return training_job

    def describe(self, name: str) -> TrainingJobDescription | None:
        """Return the state of a training job."""
        job = self._service.jobs.get(name)
        return describe_stored_job(job) if job else None

    def tags(self, training_job: TrainingJobDescription) -> dict[str, str] | None:
        """Return the tags of a training job, which its ARN names, because its name may be another one's by now."""
        return next((job.tags for job in self._service.jobs.values() if job.arn == training_job.arn), None)

    def stop(self, name: str, _reason: StopReason = "cancel", /) -> None:
        """Request a stop; this service does not store the reason."""
        self._service.stop(name)

    def has_news(self, _name: str, /) -> bool:
        """Return False: this service has no cheap way to learn of changes, so children describe at their pace."""
        return False

    def fingerprint(self, name: str, job: Job) -> str:
        """Return the fingerprint of the request, without tags."""
        return fingerprint(self._request(name, job))

    def log_lines(self, name: str, position: LogPosition, **_extent: bool) -> Iterator[tuple[str, str]]:
        """Yield the new lines of the log."""
        return self._logs.log_lines(name, position)

    def _request(self, name: str, job: Job) -> dict[str, Any]:
        return training_job_request(name, job, self._deployment.execution_role_arn(self._region), {})
