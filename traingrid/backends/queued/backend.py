"""Queued backend: SageMaker training jobs that AWS Batch creates from a service queue.

The service job has the name that a direct training job would have, and uses it as its client token. A repeated request
is therefore the same service job, with at most one training job at a time. AWS Batch chooses the training job's own
name, which is read from the service job.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.aws.clients import Maker, client, once
from traingrid.backends.base import LaunchError
from traingrid.backends.queued.jobs import ServiceJobs, seen_of, training_job_names
from traingrid.backends.queued.request import MAX_PAYLOAD_BYTES, service_job_request
from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.backoff import VISIBLE_WITHIN
from traingrid.job.failures import INVALID_REQUEST, SERVICE_ERROR
from traingrid.job.observed import Seen

if TYPE_CHECKING:
    from traingrid.backends.base import StopReason
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job

_REFUSED = "ClientException"
"""Batch's error for a request that it never accepts, and perhaps for a repeated client token: according to the API
reference, "the second request is rejected"."""


class Queued(SageMaker):
    """Training jobs of one Region that wait in its service queue. SageMaker describes them and has their logs.

    Args:
        deployment: The deployment, with the execution role of the jobs.
        region: A training Region of the grid that has a service queue.
        make: Makes the clients that describe and terminate jobs.
        make_logs: Makes the client that reads logs.
    """

    _service, _asked = "AWS Batch", "SubmitServiceJob"

    def __init__(self, deployment: Deployment, region: str, make: Maker = client, make_logs: Maker = client) -> None:
        super().__init__(deployment, region, make, make_logs)
        self._jobs = ServiceJobs(deployment.grid.service_queue(region), region, make)
        self._submitting: Any = None
        self._refused_at: dict[str, float] = {}

    def _send(self, request: dict[str, Any], job: Job) -> None:
        service_request = service_job_request(request, job, self._deployment.grid)
        size = len(service_request["serviceRequestPayload"].encode())
        if size > MAX_PAYLOAD_BYTES:  # the intake rejects such a line, but its streams may have increased since then
            text = f"The request of {service_request['jobName']} has {size:,} bytes"
            rule = f"a service queue accepts at most {MAX_PAYLOAD_BYTES:,}"
            raise LaunchError(INVALID_REQUEST, f"{text}; {rule}. Set `launch: direct` for the line.")
        self._submitting = self._submitting or once("batch", self._region)
        self._submitting.submit_service_job(**service_request)

    def _refused(self, name: str, refusal: LaunchError, error: ClientError) -> Seen:
        if error.response["Error"]["Code"] != _REFUSED:
            raise refusal from error
        training_job = self.describe(name)
        if training_job is None:
            # Until a new service job is certainly listed, an earlier request may have been accepted without a reply.
            late = time.monotonic() - self._refused_at.setdefault(name, time.monotonic()) >= VISIBLE_WITHIN
            raise LaunchError(INVALID_REQUEST if late else SERVICE_ERROR, refusal.what, unresolved=not late) from error
        return training_job

    def describe(self, name: str) -> Seen | None:
        """See `Backend.describe`; `name` is the service job's name."""
        service_job = self._described(name)
        if service_job is None:
            return None
        spelled = (super(Queued, self).describe(training_job) for training_job in training_job_names(service_job))
        return seen_of(service_job, next((trained for trained in spelled if trained), None))

    def tags(self, training_job: Seen) -> dict[str, str] | None:
        """See `Backend.tags`. Returns the service job's tags, which Batch copies to its training jobs."""
        return (
            dict(self._jobs.described(training_job.service_job).get("tags", {}))
            if training_job.service_job
            else super().tags(training_job)
        )

    def stop(self, name: str, _reason: StopReason = "cancel", /) -> None:
        """See `Backend.stop`. Terminates the service job; Batch then stops its training job."""
        job = self._jobs.find(name)
        if job:
            self._jobs.terminate(job)

    def log_names(self, name: str) -> list[str]:
        """Return the names of the service job's training jobs; none while it is queued."""
        return list(training_job_names(self._described(name) or {}))

    def _described(self, name: str) -> dict[str, Any] | None:
        job = self._jobs.find(name)
        return self._jobs.described(job) if job else None


class Either(Queued):
    """Training jobs of one Region, launched directly or queued: for the recorder, the reconciler and the commands."""

    def describe(self, name: str) -> Seen | None:
        """See `Backend.describe`. A name is never used for both, because each attempt of a line has its own name."""
        return SageMaker.describe(self, name) or super().describe(name)

    def stop(self, name: str, reason: StopReason = "cancel", /) -> None:
        """See `Backend.stop`."""
        if self._jobs.find(name):
            super().stop(name, reason)
        else:
            SageMaker.stop(self, name, reason)

    def log_names(self, name: str) -> list[str]:
        """Return the names of the training jobs whose logs are the log of `name`."""
        return super().log_names(name) if self._jobs.find(name) else [name]
