"""Service jobs: reads and terminates the service jobs in a Region's AWS Batch queue for training jobs."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from traingrid import names
from traingrid.aws.clients import ClientFactory, client
from traingrid.backends.sagemaker.request import fingerprint
from traingrid.job.observed import QUEUED, TrainingJobDescription
from traingrid.job.state import JobState
from traingrid.strict_json import JsonError, json_object

WAITING, STARTED = ("SUBMITTED", "PENDING", "RUNNABLE"), ("SCHEDULED", "STARTING", "RUNNING")
ACTIVE = (*WAITING, *STARTED)
"""Statuses of a service job that has not ended: before Batch sends it to SageMaker, and after
(https://docs.aws.amazon.com/batch/latest/userguide/service-job-status.html)."""

_FROM_SAGEMAKER = "Received status from SageMaker: "
"""Batch's prefix of a status reason from SageMaker
(https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html)."""
_ENDED = "Terminated by traingrid: cancelled or orphaned"


class ServiceJobs:
    """The service jobs of a queue. `service_job_request` returns the requests that submit one.

    Args:
        queue: The queue's name.
        make_client: Makes the client of Batch.
    """

    def __init__(self, queue: str, region: str, make_client: ClientFactory = client) -> None:
        self._queue = queue
        self._batch: Any = make_client("batch", region)
        self._ids: dict[str, str] = {}

    def find(self, name: str) -> str | None:
        """Return the id of the service job with a name, or None if Batch knows none (yet or any longer)."""
        if name not in self._ids:
            # The filter ignores case. If two jobs have the name, the first submitted one is used.
            ids = [job["jobId"] for job in self._summaries(filters=_list_by_name(name)) if job["jobName"] == name]
            if not ids:
                return None
            self._ids[name] = str(ids[-1])
        return self._ids[name]

    def described(self, job: str) -> dict[str, Any]:
        """Return DescribeServiceJob's reply for a service job, by its id or ARN."""
        return dict(self._batch.describe_service_job(jobId=job))

    def description(self, name: str) -> dict[str, Any] | None:
        """Return DescribeServiceJob's reply for the service job with a name, or None if Batch knows none."""
        job = self.find(name)
        return self.described(job) if job else None

    def log_names(self, name: str) -> list[str]:
        """Return the names of the training jobs of a service job; of a training job that was created directly, its own.

        There are none while the service job is queued.
        """
        service_job = self.description(name)
        return training_job_names(service_job) if service_job else [name]

    def summaries(self, prefix: str, statuses: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield ListServiceJobs' summaries of the service jobs with a name prefix.

        Args:
            statuses: Return only jobs in these statuses; by default all that Batch still knows.
        """
        by_name: list[dict[str, Any]] = [{"filters": _list_by_name(f"{prefix}*")}]
        lists = [{"jobStatus": status} for status in statuses] or by_name
        ids = set()
        for request in lists:
            for job in self._summaries(**request):
                if job["jobName"].startswith(prefix) and job["jobId"] not in ids:  # its status may change meanwhile
                    ids.add(job["jobId"])
                    yield job

    def terminate(self, job: str) -> None:
        """Terminate a service job, which stops its training job; no effect on an ended service job."""
        self._batch.terminate_service_job(jobId=job, reason=_ENDED)

    def _summaries(self, **request: Any) -> Iterator[dict[str, Any]]:
        pages = self._batch.get_paginator("list_service_jobs").paginate(jobQueue=self._queue, **request)
        return (job for page in pages for job in page["jobSummaryList"])


def training_job_names(job: Mapping[str, Any]) -> list[str]:
    """Return the possible names of a service job's last training job, the one in its ARN first; empty without one.

    SageMaker has changed names in ARNs to lower case (https://github.com/boto/boto3/issues/4606). In our names only
    AWS Batch's prefix has upper case, so only this prefix must be restored.

    Args:
        job: The service job, as Batch describes or lists it.
    """
    arn = job.get("latestAttempt", {}).get("serviceResourceId", {}).get("value", "")
    name = names.name_of_arn(str(arn))
    spellings = [
        name,
        *(f"{prefix}{name[len(prefix) :]}" for prefix in names.QUEUED_PREFIXES if _begins_with(name, prefix)),
    ]
    return list(dict.fromkeys(filter(None, spellings)))


def state_of(job: Mapping[str, Any]) -> JobState:
    """Return the state of a service job as a SageMaker status."""
    terminated = bool(job.get("isTerminated"))
    if job["status"] == "SUCCEEDED":
        return JobState.COMPLETED
    if job["status"] == "FAILED":
        return JobState.STOPPED if terminated else JobState.FAILED
    return JobState.STOPPING if terminated else JobState.IN_PROGRESS


def describe_service_job(job: Mapping[str, Any], trained: TrainingJobDescription | None) -> TrainingJobDescription:
    """Return the description of a queued training job.

    A failed or stopped training job is not final until the service job has ended: if it got no instances or was
    preempted for another share, Batch creates the next training job of the same service job.

    Args:
        job: DescribeServiceJob's reply.
        trained: SageMaker's description of the last training job; None if none is known.
    """
    payload = job.get("serviceRequestPayload", "")
    expected, state = _fingerprint_in(payload), state_of(job)
    has_ended = job["status"] not in ACTIVE
    service_job = str(job["jobId"])
    if trained and (has_ended or not trained.has_ended or trained.state == JobState.COMPLETED):
        # SageMaker's description may differ in form from the request, but Batch stores the original request.
        return replace(trained, fingerprint=expected or trained.fingerprint, service_job=service_job)
    reason = (
        str(job.get("statusReason", "")).removeprefix(_FROM_SAGEMAKER)
        if has_ended and state != JobState.COMPLETED
        else ""
    )
    if has_ended:
        phase = str(state)
    elif job["status"] in WAITING:
        phase = QUEUED
    else:
        phase = "Ending" if trained else "Starting"
    return TrainingJobDescription(
        state=state, phase=phase, reason=reason, fingerprint=expected, service_job=service_job
    )


def _fingerprint_in(payload: str) -> str:
    """Return the fingerprint of a service job's request; empty if another program has written its payload."""
    try:
        return fingerprint(json_object(payload))
    except (JsonError, KeyError, TypeError, AttributeError):
        return ""


def _begins_with(name: str, prefix: str) -> bool:
    return name.lower().startswith(prefix.lower())


def _list_by_name(name: str) -> list[dict[str, Any]]:
    return [{"name": "JOB_NAME", "values": [name]}]
