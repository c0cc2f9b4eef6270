"""From a CreateTrainingJob request to a SubmitServiceJob request, by which AWS Batch makes it when there is room."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.grid import Grid
    from traingrid.job import Job

MAX_PAYLOAD_BYTES = 10 * 1024
"""Longest serviceRequestPayload (https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html)."""


def service_job_request(request: Mapping[str, Any], job: Job, grid: Grid) -> dict[str, Any]:
    """Return the arguments of SubmitServiceJob that queue a training job.

    The service job has the name of the training job, and so has its client token: AWS Batch takes two requests of one
    token for one (https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitServiceJob.html). It is tried once
    by Batch; what has no capacity waits and does not count
    (https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html), and anything else is traingrid's to
    decide. How long it may run is in the request itself. Tags go to the service job, as in the SageMaker Python SDK
    (`sagemaker.aws_batch`): Batch gives them to the training job.

    Args:
        request: The arguments of CreateTrainingJob.
        job: The job.
        grid: Says which queue its Region has, and whose share it is.
    """
    queue, share = grid.regions[job.region].service_queue, grid.share_of(job.share)
    name = request["TrainingJobName"]
    return {
        "jobName": name,
        "jobQueue": grid.service_queue(job.region),
        "serviceJobType": "SAGEMAKER_TRAINING",
        "serviceRequestPayload": payload(request),
        "retryStrategy": {"attempts": 1},
        "schedulingPriority": job.priority,
        "quotaShareName" if queue and queue.quota_shares else "shareIdentifier": share,
        "tags": {tag["Key"]: tag["Value"] for tag in request["Tags"]},
        "clientToken": name,
    }


def payload(request: Mapping[str, Any]) -> str:
    """Return a CreateTrainingJob request as a service job carries it: without tags, as short as JSON can say it."""
    return json.dumps({name: value for name, value in request.items() if name != "Tags"}, separators=(",", ":"))
