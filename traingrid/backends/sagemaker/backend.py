"""SageMaker backend: creates, describes and stops training jobs, and reads their logs."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from traingrid.aws.clients import ClientFactory, client, client_without_retries
from traingrid.backends.sagemaker.creation import Creation
from traingrid.backends.sagemaker.jobs import TrainingJobs, description_from_reply
from traingrid.backends.sagemaker.log import SageMakerLogs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.exceptions import ClientError

    from traingrid.aws.log_events import LogPosition
    from traingrid.backends.base import LaunchError, StopReason
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.job.observed import TrainingJobDescription


class SageMaker:
    """Training jobs of one Region.

    Args:
        deployment: The deployment, with the execution role of the jobs.
        region: A training Region of the grid.
        make_client: Makes the client that describes and stops training jobs.
        make_without_retries: Makes the client that creates training jobs, and the client that reads logs.
    """

    service, operation = "SageMaker", "CreateTrainingJob"

    def __init__(
        self,
        deployment: Deployment,
        region: str,
        make_client: ClientFactory = client,
        make_without_retries: ClientFactory = client_without_retries,
    ) -> None:
        self._deployment, self._region, self._make_without_retries = deployment, region, make_without_retries
        self._jobs = TrainingJobs(deployment, region, make_client)
        self._creation = Creation(deployment, region, self)
        self._logs = SageMakerLogs(deployment, region, make_without_retries)

    def start(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        """See `Backend.start`."""
        return self._creation.start(name, job, tags)

    def attach(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        """See `Backend.attach`."""
        return self._creation.attach(name, job, tags)

    def fingerprint(self, name: str, job: Job) -> str:
        """See `Backend.fingerprint`."""
        return self._creation.fingerprint(name, job)

    def describe(self, name: str) -> TrainingJobDescription | None:
        """See `Backend.describe`."""
        reply = self._jobs.description(name)
        return None if reply is None else description_from_reply(reply)

    def tags(self, training_job: TrainingJobDescription) -> dict[str, str] | None:
        """See `Backend.tags`."""
        return self._jobs.tags(training_job.arn)

    def stop(self, name: str, _reason: StopReason = "cancel", /) -> None:
        """See `Backend.stop`. SageMaker does not store the reason."""
        self._jobs.stop(name)

    def has_news(self, _name: str, /) -> bool:
        """See `Backend.has_news`."""
        return False

    def log_lines(
        self, name: str, position: LogPosition, *, to_end: bool = True, discover: bool = True
    ) -> Iterator[tuple[str, str]]:
        """See `Backend.log_lines`."""
        return self._logs.log_lines(name, position, to_end=to_end, discover=discover)

    def send(self, request: dict[str, Any], _job: Job) -> None:
        """See `CreatingService.send`."""
        self._creating.create_training_job(**request)

    def existing_despite(self, _name: str, refusal: LaunchError, error: ClientError) -> TrainingJobDescription:
        """See `CreatingService.existing_despite`: SageMaker refuses only requests without effect."""
        raise refusal from error

    @cached_property
    def _creating(self) -> Any:
        return self._make_without_retries("sagemaker", self._region, self._deployment.acting_role_in(self._region))
