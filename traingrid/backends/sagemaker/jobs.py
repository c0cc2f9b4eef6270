"""Jobs: describes and stops SageMaker's training jobs by name, for the backend and the inventory."""

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from traingrid.aws.clients import ClientFactory
from traingrid.backends.sagemaker.request import fingerprint
from traingrid.grid.deployment import Deployment
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import JobState

_UNKNOWN_CODES = ("ValidationException", "ResourceNotFound")
"""SageMaker's error codes for an unknown name or ARN: it returns the first ("Requested resource not found."), although
its API reference documents the second. No other cause is possible: we send only a valid name or ARN."""

_LACKS_CAPACITY = "Insufficient capacity error from EC2"
"""The beginning of SageMaker's StatusMessage while it retries to launch instances
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_SecondaryStatusTransition.html)."""


class TrainingJobs:
    """The training jobs of SageMaker in one Region.

    Args:
        make_client: Makes the client of SageMaker.
    """

    def __init__(self, deployment: Deployment, region: str, make_client: ClientFactory) -> None:
        self.client: Any = make_client("sagemaker", region, deployment.acting_role_in(region))

    def description(self, name: str) -> dict[str, Any] | None:
        """Return DescribeTrainingJob's reply, or None if SageMaker does not know the name (yet or any longer)."""
        try:
            return dict(self.client.describe_training_job(TrainingJobName=name))
        except ClientError as error:
            if error.response["Error"]["Code"] in _UNKNOWN_CODES:
                return None
            raise

    def tags(self, arn: str) -> dict[str, str] | None:
        """Return the tags of a training job, or None if SageMaker does not know it (yet or any longer)."""
        try:
            pages = list(self.client.get_paginator("list_tags").paginate(ResourceArn=arn))
        except ClientError as error:
            if error.response["Error"]["Code"] in _UNKNOWN_CODES:
                return None
            raise
        return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}

    def stop(self, name: str) -> bool:
        """Stop a training job.

        Returns:
            False if it has ended or does not exist, for both of which SageMaker returns the same errors.
        """
        try:
            self.client.stop_training_job(TrainingJobName=name)
        except ClientError as error:
            if error.response["Error"]["Code"] in _UNKNOWN_CODES:
                return False
            raise
        return True


def description_from_reply(reply: Mapping[str, Any]) -> TrainingJobDescription:
    """Return the description of a training job in a DescribeTrainingJob reply."""
    transitions = reply.get("SecondaryStatusTransitions") or [{}]
    return TrainingJobDescription(
        state=JobState(reply["TrainingJobStatus"]),
        phase=reply["SecondaryStatus"],
        phase_at=seconds_in(transitions[-1], "StartTime"),
        lacks_capacity=transitions[-1].get("StatusMessage", "").startswith(_LACKS_CAPACITY),
        arn=reply["TrainingJobArn"],
        reason=reply.get("FailureReason", ""),
        artifact=reply.get("ModelArtifacts", {}).get("S3ModelArtifacts", ""),
        metrics={metric["MetricName"]: float(metric["Value"]) for metric in reply.get("FinalMetricDataList", [])},
        created_at=seconds_in(reply, "CreationTime"),
        started_at=seconds_in(reply, "TrainingStartTime"),
        training_seconds=reply.get("TrainingTimeInSeconds", 0),
        billable_seconds=reply.get("BillableTimeInSeconds", 0),
        fingerprint=fingerprint(reply),
    )


def seconds_in(reply: Mapping[str, Any], name: str) -> float | None:
    """Return a time of a reply in seconds since 1970; None if the reply does not have it."""
    return float(reply[name].timestamp()) if name in reply else None
