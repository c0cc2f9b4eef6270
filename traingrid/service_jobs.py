"""Service jobs of AWS Batch: the queue of one Region, in which training jobs wait for room."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.backends.base import QUEUED, Seen
from traingrid.backends.sagemaker_request import fingerprint
from traingrid.clients import Maker, client

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

WAITING, STARTED = ("SUBMITTED", "PENDING", "RUNNABLE"), ("SCHEDULED", "STARTING", "RUNNING")
ACTIVE = (*WAITING, *STARTED)
"""Statuses of a service job that has not ended: before it was handed to SageMaker, and since
(https://docs.aws.amazon.com/batch/latest/userguide/service-job-status.html)."""

_FROM_SAGEMAKER = "Received status from SageMaker: "
"""How Batch begins what SageMaker has said (https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html)."""
_ENDED = "Ended by traingrid: cancelled, or wanted by nobody"


class ServiceJobs:
    """The service jobs of a queue. Who may submit one does so with a request of `service_job_request`.

    Args:
        queue: The queue's name.
        region: Its Region.
        make: Makes the client of Batch.
    """

    def __init__(self, queue: str, region: str, make: Maker = client) -> None:
        self._queue = queue
        self._batch: Any = make("batch", region)
        self._ids: dict[str, str] = {}

    def find(self, name: str) -> str | None:
        """Return the id of the service job of a name, or None if none is known (yet, or any more)."""
        if name not in self._ids:
            # The filter takes upper and lower case for the same; of two, the first that was submitted is the one.
            found = [job["jobId"] for job in self._listed(filters=_by_name(name)) if job["jobName"] == name]
            if not found:
                return None
            self._ids[name] = str(found[-1])
        return self._ids[name]

    def described(self, job: str) -> dict[str, Any]:
        """Return DescribeServiceJob's reply for a service job, by its id or ARN."""
        return dict(self._batch.describe_service_job(jobId=job))

    def summaries(self, prefix: str, statuses: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
        """Yield what ListServiceJobs says of the service jobs whose names begin so.

        Args:
            prefix: How the names begin.
            statuses: Only those in one of these statuses; all that Batch still knows where none are given.
        """
        by_name: list[dict[str, Any]] = [{"filters": _by_name(f"{prefix}*")}]
        lists = [{"jobStatus": status} for status in statuses] or by_name
        seen = set()
        for which in lists:
            for job in self._listed(**which):
                if job["jobName"].startswith(prefix) and job["jobId"] not in seen:  # it may move on between two lists
                    seen.add(job["jobId"])
                    yield job

    def terminate(self, job: str) -> None:
        """End a service job; its training job, if there is one, is stopped. One that has ended stays as it is."""
        self._batch.terminate_service_job(jobId=job, reason=_ENDED)

    def _listed(self, **which: Any) -> Iterator[dict[str, Any]]:
        pages = self._batch.get_paginator("list_service_jobs").paginate(jobQueue=self._queue, **which)
        return (job for page in pages for job in page["jobSummaryList"])


def training_job_names(job: Mapping[str, Any]) -> list[str]:
    """Return the possible names of a service job's last training job, that of its ARN first; empty if there is none.

    SageMaker has written names in ARNs in lower case (https://github.com/boto/boto3/issues/4606). In our names only
    AWS Batch's prefix has upper case, so it is the only part to restore.

    Args:
        job: The service job, as Batch describes or lists it.
    """
    arn = job.get("latestAttempt", {}).get("serviceResourceId", {}).get("value", "")
    name = str(arn).rpartition("/")[2]
    spelled = [name, *(f"{prefix}{name[len(prefix) :]}" for prefix in names.QUEUED_PREFIXES if _begins(name, prefix))]
    return list(dict.fromkeys(filter(None, spelled)))


def state_of(job: Mapping[str, Any]) -> str:
    """Return the state of a service job in SageMaker's words."""
    terminated = bool(job.get("isTerminated"))
    if job["status"] == "SUCCEEDED":
        return "Completed"
    if job["status"] == "FAILED":
        return "Stopped" if terminated else "Failed"
    return "Stopping" if terminated else "InProgress"


def seen_of(job: Mapping[str, Any], trained: Seen | None) -> Seen:
    """Return what is known of a training job that is queued.

    What has failed or was stopped is no end before Batch says so: a training job without instances, or one that had to
    make room for another share, is followed by the next one of the same service job.

    Args:
        job: DescribeServiceJob's reply.
        trained: What SageMaker says of the last training job; None where there is none, or none is known.
    """
    asked = job.get("serviceRequestPayload", "")
    wanted, state, over = fingerprint(json.loads(asked)) if asked else "", state_of(job), job["status"] not in ACTIVE
    service_job = str(job["jobId"])
    if trained and (over or not trained.ended or trained.state == "Completed"):
        # That SageMaker describes it in other words than those of the request does not matter: Batch keeps the request.
        return replace(trained, fingerprint=wanted or trained.fingerprint, service_job=service_job)
    reason = str(job.get("statusReason", "")).removeprefix(_FROM_SAGEMAKER) if over and state != "Completed" else ""
    phase = state if over else QUEUED if job["status"] in WAITING else "Ending" if trained else "Starting"
    return Seen(state=state, phase=phase, reason=reason, fingerprint=wanted, service_job=service_job)


def _begins(name: str, prefix: str) -> bool:
    return name.lower().startswith(prefix.lower())


def _by_name(name: str) -> list[dict[str, Any]]:
    return [{"name": "JOB_NAME", "values": [name]}]
