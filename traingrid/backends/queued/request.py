"""SubmitServiceJob requests: wrap a CreateTrainingJob request, which AWS Batch sends when there is capacity."""

import json
from collections.abc import Mapping
from typing import Any

from traingrid.grid.model import GridSettings
from traingrid.job.job import Job

MAX_PAYLOAD_BYTES = 10 * 1024
"""Largest serviceRequestPayload (https://docs.aws.amazon.com/batch/latest/userguide/service_limits.html)."""


def service_job_request(request: Mapping[str, Any], job: Job, grid: GridSettings) -> dict[str, Any]:
    """Return the arguments of SubmitServiceJob that queue a training job.

    The service job's name and client token are the training job's name: AWS Batch treats two requests with the same
    token as one (https://docs.aws.amazon.com/batch/latest/APIReference/API_SubmitServiceJob.html). Batch makes one
    attempt; waiting for capacity does not count as one
    (https://docs.aws.amazon.com/batch/latest/userguide/service-job-retries.html), and traingrid handles every other
    failure. The maximum runtime is in the request itself. The service job gets the tags, as in the SageMaker Python SDK
    (`sagemaker.aws_batch`), and Batch copies them to the training job.

    Args:
        grid: The grid, with the service queue of the job's Region and the default share.
    """
    queue = grid.regions[job.region].service_queue
    share = grid.share_of(job.share)
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
    """Return a CreateTrainingJob request as the payload of a service job: compact JSON without tags."""
    return json.dumps({name: value for name, value in request.items() if name != "Tags"}, separators=(",", ":"))
