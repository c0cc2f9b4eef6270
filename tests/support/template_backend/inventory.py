"""Template inventory: lists, stops and releases the training jobs of a grid in the service in memory."""

import time
from collections.abc import Iterator

from tests.support.template_backend.jobs import MemoryService
from traingrid import names
from traingrid.backends.inventory import ALL, Details, ListingTimeoutError, Window
from traingrid.backends.training_job import TrainingJob
from traingrid.grid.deployment import Deployment
from traingrid.job.ownership import is_of_grid
from traingrid.job.state import FINAL_STATES


class TemplateInventory:
    """The training jobs of a grid in one Region; see `Inventory`.

    Args:
        deployment: The deployment.
        region: The Region.
        service: The service.
    """

    def __init__(self, deployment: Deployment, region: str, service: MemoryService) -> None:
        self._grid, self._region, self._service = deployment.grid.name, region, service

    def listed(self, state: str = "", submission: str = "", window: Window = ALL) -> Iterator[TrainingJob]:
        """Yield the training jobs with names of the grid; here, each is a page."""
        for number, (name, job) in enumerate(list(self._service.jobs.items())):
            if number and time.time() >= window.deadline:
                raise ListingTimeoutError(self._region)
            identity = names.parse_training_job(self._grid, name)
            if identity is None or submission not in ("", identity.submission) or state not in ("", job.state):
                continue
            if window.since <= job.created_at <= window.before:
                yield TrainingJob(  # and `backend`, the name in `BackendName`
                    name=name,
                    identity=identity,
                    region=self._region,
                    arn=job.arn,
                    state=job.state,
                    created_at=job.created_at,
                )

    def details(self, job: TrainingJob) -> Details | None:
        """Return the present state."""
        stored = self._service.jobs.get(job.name)
        return Details(state=stored.state) if stored else None

    def has_our_tag(self, job: TrainingJob) -> bool:
        """Return True if the tags are the grid's."""
        stored = self._service.jobs.get(job.name)
        return stored is not None and is_of_grid(stored.tags, self._grid)

    def stop(self, job: TrainingJob) -> bool:
        """Stop a training job."""
        return self._service.stop(job.name)

    def complete_stop(self, _job: TrainingJob) -> bool:
        """Return False: this service ends all processes of a training job itself."""
        return False

    def ended(self) -> Iterator[TrainingJob]:
        """Yield the ended training jobs, which this service keeps until they are released."""
        return (job for job in self.listed() if job.state in FINAL_STATES)

    def release(self, job: TrainingJob) -> bool:
        """Delete an ended training job, whose end is recorded; its name is free from now on."""
        stored = self._service.jobs.get(job.name)
        if stored is None or stored.arn != job.arn or stored.state not in FINAL_STATES:
            return False
        del self._service.jobs[job.name]
        return True
