"""Queued backend: SageMaker training jobs that AWS Batch creates from a service queue.

The service job has the name that a direct training job would have, and uses it as its client token. A repeated request
is therefore the same service job, with at most one training job at a time. AWS Batch chooses the training job's own
name, which is read from the service job.
"""

from __future__ import annotations

import time
from functools import cached_property
from typing import TYPE_CHECKING, Any

from traingrid.aws.clients import ClientFactory, client, client_without_retries
from traingrid.backends.base import LaunchError
from traingrid.backends.queued.jobs import ServiceJobs, describe_service_job, training_job_names
from traingrid.backends.queued.request import MAX_PAYLOAD_BYTES, service_job_request
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.backends.sagemaker.creation import Creation
from traingrid.backends.sagemaker.log import SageMakerLogs
from traingrid.backoff import VISIBLE_WITHIN
from traingrid.job.failures import INVALID_REQUEST, SERVICE_ERROR

if TYPE_CHECKING:
    from collections.abc import Iterator

    from botocore.exceptions import ClientError

    from traingrid.aws.log_events import LogPosition
    from traingrid.backends.base import StopReason
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.job.observed import TrainingJobDescription

_REFUSED = "ClientException"
"""Batch's error for a request that it never accepts, and perhaps for a repeated client token: according to the API
reference, "the second request is rejected"."""


class Queued:
    """Training jobs of one Region that wait in its service queue. SageMaker describes them and has their logs.

    Args:
        deployment: The deployment, with the execution role of the jobs.
        region: A training Region of the grid that has a service queue.
        make_client: Makes the clients that describe and terminate jobs.
        make_without_retries: Makes the client that submits service jobs, and the client that reads logs.

    Attributes:
        sagemaker: The Region's training jobs, as SageMaker describes them.
    """

    service, operation = "AWS Batch", "SubmitServiceJob"

    def __init__(
        self,
        deployment: Deployment,
        region: str,
        make_client: ClientFactory = client,
        make_without_retries: ClientFactory = client_without_retries,
    ) -> None:
        self._deployment, self._region, self._make_without_retries = deployment, region, make_without_retries
        self.sagemaker = SageMaker(deployment, region, make_client, make_without_retries)
        self._jobs = ServiceJobs(deployment.grid.service_queue(region), region, make_client)
        self._creation = Creation(deployment, region, self)
        self._logs = SageMakerLogs(deployment, region, make_without_retries, self._jobs.log_names)
        self._refused_at: dict[str, float] = {}

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
        """See `Backend.describe`; `name` is the service job's name."""
        service_job = self._jobs.description(name)
        if service_job is None:
            return None
        training_jobs = map(self.sagemaker.describe, training_job_names(service_job))
        return describe_service_job(service_job, next(filter(None, training_jobs), None))

    def tags(self, training_job: TrainingJobDescription) -> dict[str, str] | None:
        """See `Backend.tags`. Returns the service job's tags, which Batch copies to its training jobs."""
        if not training_job.service_job:
            return self.sagemaker.tags(training_job)
        return dict(self._jobs.described(training_job.service_job).get("tags", {}))

    def stop(self, name: str, _reason: StopReason = "cancel", /) -> None:
        """See `Backend.stop`. Terminates the service job; Batch then stops its training job."""
        job = self._jobs.find(name)
        if job:
            self._jobs.terminate(job)

    def has_news(self, _name: str, /) -> bool:
        """See `Backend.has_news`."""
        return False

    def log_lines(
        self, name: str, position: LogPosition, *, to_end: bool = True, discover: bool = True
    ) -> Iterator[tuple[str, str]]:
        """See `Backend.log_lines`."""
        return self._logs.log_lines(name, position, to_end=to_end, discover=discover)

    def send(self, request: dict[str, Any], job: Job) -> None:
        """See `CreatingService.send`."""
        service_request = service_job_request(request, job, self._deployment.grid)
        size = len(service_request["serviceRequestPayload"].encode())
        if size > MAX_PAYLOAD_BYTES:  # the intake rejects such a line, but its streams may have increased since then
            text = f"The request of {service_request['jobName']} has {size:,} bytes"
            rule = f"a service queue accepts at most {MAX_PAYLOAD_BYTES:,}"
            raise LaunchError(INVALID_REQUEST, f"{text}; {rule}. Set `launch: direct` for the line.")
        self._submitting.submit_service_job(**service_request)

    def existing_despite(self, name: str, refusal: LaunchError, error: ClientError) -> TrainingJobDescription:
        """See `CreatingService.existing_despite`."""
        if error.response["Error"]["Code"] != _REFUSED:
            raise refusal from error
        training_job = self.describe(name)
        if training_job is None:
            # Until a new service job is certainly listed, an earlier request may have been accepted without a reply.
            is_late = time.monotonic() - self._refused_at.setdefault(name, time.monotonic()) >= VISIBLE_WITHIN
            raise LaunchError(
                INVALID_REQUEST if is_late else SERVICE_ERROR, refusal.what, unresolved=not is_late
            ) from error
        return training_job

    @cached_property
    def _submitting(self) -> Any:
        return self._make_without_retries("batch", self._region)


class QueuedOrDirect:
    """Describes the training jobs of a Region with a service queue, for processes that do not know how each started."""

    def __init__(self, queued: Queued) -> None:
        self._queued = queued

    def describe(self, name: str) -> TrainingJobDescription | None:
        """See `Describer.describe`. A name is never used for both, because each attempt of a line has its own name."""
        return self._queued.sagemaker.describe(name) or self._queued.describe(name)

    def tags(self, training_job: TrainingJobDescription) -> dict[str, str] | None:
        """See `Describer.tags`."""
        return self._queued.tags(training_job)
