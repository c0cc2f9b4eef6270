"""Service jobs as data: the SubmitServiceJob request, and its form in DescribeServiceJob."""

import json
import re
import uuid
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from moto.batch.exceptions import ClientException

from localcloud.batch.jobs import now_ms
from localcloud.batch.service_jobs.resources import KIND, Queue, ServiceResources

STATUSES = ("SUBMITTED", "PENDING", "RUNNABLE", "SCHEDULED", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
ENDED = frozenset({"SUCCEEDED", "FAILED"})
MAX_PAYLOAD_BYTES, MAX_REQUEST_BYTES = 10 * 1024, 30 * 1024
"""User Guide, "AWS Batch service quotas": limits of serviceRequestPayload and of a whole SubmitServiceJob request."""
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,127}")
_MAX_NAME_LENGTH = 63


@dataclass(kw_only=True, eq=False)
class ServiceJob:
    """A service job. Change it only while holding the scheduler's lock.

    Attributes:
        request: The SubmitServiceJob request.
        payload: The CreateTrainingJob request in it.
        training_job: The ARN of the current attempt's training job.
        not_before: Monotonic time before which it is not retried.
    """

    id: str
    arn: str
    queue: Queue
    request: Mapping[str, Any]
    payload: dict[str, Any]
    status: str = "SUBMITTED"
    status_reason: str | None = None
    training_job: str = ""
    attempts: list[dict[str, Any]] = field(default_factory=list)
    created_at: int = field(default_factory=now_ms)
    scheduled_at: int | None = None
    started_at: int | None = None
    stopped_at: int | None = None
    stop_reason: str | None = None
    not_before: float = 0.0

    @property
    def name(self) -> str:
        """Return its jobName."""
        return str(self.request["jobName"])

    @property
    def share(self) -> str:
        """Return the quota share or share identifier that the job belongs to."""
        return str(self.request.get("quotaShareName") or self.request.get("shareIdentifier") or "")

    @property
    def priority(self) -> int:
        """Return its schedulingPriority."""
        return int(self.request.get("schedulingPriority") or 0)

    @property
    def needs(self) -> tuple[str, int]:
        """Return the instance type and the instance count."""
        resources = self.payload.get("ResourceConfig") or {}
        return str(resources.get("InstanceType")), int(resources.get("InstanceCount") or 1)

    def training_job_request(self) -> dict[str, Any]:
        """Return the request that Batch sends to SageMaker: the payload with a name from Batch and the job's tags.

        User Guide, "Getting started with AWS Batch on SageMaker AI": AWSBatch<name><id of the attempt>. AWS does not
        document how it handles a name that becomes too long; this method truncates the name before the id.
        """
        attempt = uuid.uuid4().hex
        name = f"AWSBatch{self.payload.get('TrainingJobName', '')}"[: _MAX_NAME_LENGTH - len(attempt)]
        tags = [{"Key": key, "Value": value} for key, value in (self.request.get("tags") or {}).items()]
        request = {**self.payload, "TrainingJobName": name + attempt}
        if tags:
            request["Tags"] = tags
        return request

    def summary(self) -> dict[str, Any]:
        """Return the ServiceJobSummary of the API reference."""
        summary = {
            "jobArn": self.arn,
            "jobId": self.id,
            "jobName": self.name,
            "serviceJobType": KIND,
            "status": self.status,
            "statusReason": self.status_reason,
            "createdAt": self.created_at,
            "scheduledAt": self.scheduled_at,
            "startedAt": self.started_at,
            "stoppedAt": self.stopped_at,
            "shareIdentifier": self.request.get("shareIdentifier"),
            "quotaShareName": self.request.get("quotaShareName"),
            "latestAttempt": {"serviceResourceId": _resource(self.training_job)} if self.training_job else None,
            "isTerminated": True if self.stop_reason is not None else None,
        }
        return {key: value for key, value in summary.items() if value is not None}

    def describe(self) -> dict[str, Any]:
        """Return the answer of DescribeServiceJob."""
        copied = ("retryStrategy", "timeoutConfig", "schedulingPriority", "serviceRequestPayload", "tags")
        return (
            self.summary()
            | {
                "jobQueue": self.queue.arn,
                "attempts": list(self.attempts),
                "isTerminated": self.stop_reason is not None,
            }
            | {name: self.request[name] for name in copied if self.request.get(name) is not None}
        )

    def end_attempt(self, reason: str) -> None:
        """Record the result of the current attempt's training job."""
        attempt: dict[str, Any] = {"serviceResourceId": _resource(self.training_job), "startedAt": self.started_at}
        attempt |= {"stoppedAt": now_ms(), "statusReason": reason}
        self.attempts.append({key: value for key, value in attempt.items() if value is not None})


def read(resources: ServiceResources, region: str, account: str, request: Mapping[str, Any]) -> ServiceJob:
    """Check a SubmitServiceJob request. Batch reads from the payload only the members that it counts.

    Raises:
        ClientException: If AWS would refuse the request.
    """
    text, name = str(request.get("serviceRequestPayload") or ""), str(request.get("jobName") or "")
    if len(json.dumps(request, separators=(",", ":")).encode()) > MAX_REQUEST_BYTES:
        _refuse(f"the request must have at most {MAX_REQUEST_BYTES} bytes")
    if len(text.encode()) > MAX_PAYLOAD_BYTES:
        _refuse(f"serviceRequestPayload has {len(text.encode())} bytes; the maximum is {MAX_PAYLOAD_BYTES}")
    if not _NAME.fullmatch(name):
        _refuse(f"jobName {name!r} must begin with a letter or digit and have 1 to 128 letters, digits, _ and -")
    if request.get("serviceJobType") != KIND:
        _refuse(f"serviceJobType must be {KIND}")
    queue = resources.queue(str(request.get("jobQueue") or ""))
    if queue is None or queue.state != "ENABLED":
        raise ClientException(f"JobQueue {request.get('jobQueue')!r} is not an ENABLED service queue in {region}")
    _check_share(queue, request)
    try:
        payload = dict(json.loads(text))
    except ValueError:
        _refuse("serviceRequestPayload must be a JSON object")
        raise
    job_id = str(uuid.uuid4())
    arn = f"arn:aws:batch:{region}:{account}:service-job/{job_id}"
    return ServiceJob(id=job_id, arn=arn, queue=queue, request=dict(request), payload=payload)


def _check_share(queue: Queue, request: Mapping[str, Any]) -> None:
    """Require exactly the share parameter that the queue's policy takes (API reference, SubmitServiceJob)."""
    required = ""
    if queue.environment.has_quota:
        required = "quotaShareName"
    elif queue.policy:
        required = "shareIdentifier"
    for name in ("quotaShareName", "shareIdentifier"):
        if name == required and not request.get(name):
            _refuse(f"{name} must be given for the queue {queue.name}")
        if name != required and request.get(name):
            _refuse(f"{name} must not be given for the queue {queue.name}")
    if required == "quotaShareName" and request["quotaShareName"] not in queue.shares:
        _refuse(f"the queue {queue.name} has no quota share {request['quotaShareName']}")


def _resource(arn: str) -> dict[str, str]:
    return {"name": "TrainingJobArn", "value": arn}


def _refuse(message: str) -> None:
    raise ClientException(f"Error executing request, Exception : {message}")
