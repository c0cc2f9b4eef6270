"""SageMaker training jobs as a backend."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, HTTPClientError

from traingrid.backends.base import (
    LaunchRefusedError,
    LogPosition,
    LogUnreadableError,
    NameTakenError,
    Seen,
    TryAgainError,
)
from traingrid.backends.sagemaker_request import fingerprint, training_job_request
from traingrid.clients import client

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.deployment import Deployment
    from traingrid.job import Job

_LOG_GROUP = "/aws/sagemaker/TrainingJobs"
# What CreateTrainingJob answers to a request that will be as wrong the next time
# (https://docs.aws.amazon.com/sagemaker/latest/APIReference/CommonErrors.html).
_REFUSALS = {"ValidationException", "ValidationError", "AccessDeniedException", "AccessDenied"}


class SageMaker:
    """Training jobs of one Region.

    Args:
        deployment: Whose execution role the jobs get.
        region: A training Region of the grid.
    """

    def __init__(self, deployment: Deployment, region: str) -> None:
        self._deployment = deployment
        self._region = region
        self._sagemaker: Any = client("sagemaker", region)
        self._logs: Any = None

    def start(self, name: str, job: Job, tags: dict[str, str]) -> None:
        """See `Backend.start`."""
        request = training_job_request(name, job, self._deployment.execution_role_arn(self._region), tags)
        wanted = fingerprint(request)
        seen = self.describe(name)
        if seen is None:
            try:
                self._sagemaker.create_training_job(**request)
            except HTTPClientError as error:
                seen = self._after_lost_reply(name, error)
            except ClientError as error:
                seen = self._after_refusal(name, error)
        if seen and seen.fingerprint != wanted:
            message = f"A training job {name} exists in {self._region} ({seen.arn}), and it is not this job."
            raise NameTakenError(message, "Find out who made it; traingrid never trains under another name.")

    def _after_lost_reply(self, name: str, error: Exception) -> Seen:
        seen = self.describe(name)
        if seen is None:
            raise TryAgainError(f"SageMaker did not answer CreateTrainingJob for {name}: {error}.") from error
        return seen

    def _after_refusal(self, name: str, error: ClientError) -> Seen:
        code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
        if code == "ResourceInUse":
            seen = self.describe(name)
            if seen:
                return seen
        if code in _REFUSALS:
            text = f"SageMaker in {self._region} refuses the training job {name}: {code}: {message}."
            raise LaunchRefusedError(text, "Mend the manifest line or grid.yaml, and submit it again.") from error
        text = f"SageMaker in {self._region} cannot start the training job {name} now: {code}: {message}."
        raise TryAgainError(text, "Batch tries again by itself.") from error

    def describe(self, name: str) -> Seen | None:
        """See `Backend.describe`."""
        try:
            reply = self._sagemaker.describe_training_job(TrainingJobName=name)
        except ClientError as error:
            # SageMaker answers a name that it does not know with ValidationException ("Requested resource not found.").
            # Nothing else can be invalid: the name is all we send, and names.training_job makes legal ones.
            if error.response["Error"]["Code"] in ("ValidationException", "ResourceNotFound"):
                return None
            raise
        return Seen(
            state=reply["TrainingJobStatus"],
            phase=reply["SecondaryStatus"],
            arn=reply["TrainingJobArn"],
            reason=reply.get("FailureReason", ""),
            artifact=reply.get("ModelArtifacts", {}).get("S3ModelArtifacts", ""),
            metrics={metric["MetricName"]: float(metric["Value"]) for metric in reply.get("FinalMetricDataList", [])},
            training_seconds=reply.get("TrainingTimeInSeconds", 0),
            billable_seconds=reply.get("BillableTimeInSeconds", 0),
            fingerprint=fingerprint(reply),
        )

    def log_lines(self, name: str, position: LogPosition) -> Iterator[tuple[str, str]]:
        """See `Backend.log_lines`. Hosts are named as SageMaker names them: algo-1, algo-2, ..."""
        self._logs = self._logs or client("logs", self._region)
        try:
            for stream in self._streams(name):
                host = stream.removeprefix(f"{name}/").rpartition("-")[0]
                for message in self._new_messages(stream, position):
                    yield host, message
        except (BotoCoreError, ClientError) as error:
            message = f"The log of {name} in {self._region} cannot be read now: {error}."
            raise LogUnreadableError(message, "The training job goes on.") from error

    def _streams(self, name: str) -> list[str]:
        try:
            pages = self._logs.get_paginator("describe_log_streams").paginate(
                logGroupName=_LOG_GROUP, logStreamNamePrefix=f"{name}/"
            )
            return sorted(stream["logStreamName"] for page in pages for stream in page["logStreams"])
        except ClientError as error:
            if error.response["Error"]["Code"] == "ResourceNotFoundException":
                return []  # the group is made by the first training job that ever logs in this Region
            raise

    def _new_messages(self, stream: str, position: LogPosition) -> Iterator[str]:
        while True:
            request = {"logGroupName": _LOG_GROUP, "logStreamName": stream, "startFromHead": True}
            if stream in position:
                request["nextToken"] = position[stream]
            page = self._logs.get_log_events(**request)
            for event in page["events"]:
                yield event["message"].rstrip("\n")
            token = page["nextForwardToken"]
            # The same token again means the end of the stream, and an empty page does not (GetLogEvents in the
            # CloudWatch Logs API reference).
            if token == position.get(stream):
                return
            position[stream] = token
