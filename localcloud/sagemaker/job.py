"""A training job as data: its request, its progress, and its documents."""

import math
import threading
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from localcloud.sagemaker.request import S3Uri
from localcloud.sagemaker.status import Progress

_ASKED = (
    "TrainingJobName",
    "HyperParameters",
    "AlgorithmSpecification",
    "RoleArn",
    "InputDataConfig",
    "OutputDataConfig",
    "ResourceConfig",
    "VpcConfig",
    "StoppingCondition",
    "EnableNetworkIsolation",
    "EnableInterContainerTrafficEncryption",
    "EnableManagedSpotTraining",
    "CheckpointConfig",
    "ExperimentConfig",
    "Environment",
    "RetryStrategy",
    "RemoteDebugConfig",
    "InfraCheckConfig",
    "DebugHookConfig",
    "ProfilerConfig",
)
"""Members of CreateTrainingJob that DescribeTrainingJob returns."""

_IN_EVENTS = (
    "TrainingJobName",
    "TrainingJobArn",
    "TrainingJobStatus",
    "SecondaryStatus",
    "FailureReason",
    "HyperParameters",
    "AlgorithmSpecification",
    "RoleArn",
    "InputDataConfig",
    "OutputDataConfig",
    "ResourceConfig",
    "StoppingCondition",
    "EnableManagedSpotTraining",
    "CheckpointConfig",
    "ModelArtifacts",
    "CreationTime",
    "TrainingStartTime",
    "TrainingEndTime",
    "LastModifiedTime",
    "SecondaryStatusTransitions",
    "FinalMetricDataList",
    "Environment",
)
"""Members of an event's detail (Developer Guide, "Amazon SageMaker training job state change"); no billable time."""

DEFAULT_RUNTIME_SECONDS = 24 * 3600
"""API reference, StoppingCondition.MaxRuntimeInSeconds: "the default is 1 day"."""

SPOT_RATIO = 0.35
"""The mean price of spot instances, as a ratio of the price on demand; an example, like all prices of localcloud."""


class TrainingJob:
    """One training job.

    Attributes:
        request: The CreateTrainingJob request.
        specification: Its AlgorithmSpecification; for an algorithm resource, with the algorithm's image and metrics.
        tags: Its tags in SageMaker's form; moto's tag operations and search read this attribute.
        lock: Required to change or describe it.
        stop_requested: Set by StopTrainingJob.
        started_at: The time at which it got its first instances; None before.
        instance_seconds: The seconds for which it has had instances that it has no longer.
    """

    def __init__(
        self, request: Mapping[str, Any], account: str, region: str, specification: Mapping[str, Any] | None = None
    ) -> None:
        self.request = dict(request)
        self.specification = dict(specification or request["AlgorithmSpecification"])
        self.name = self.training_job_name = str(request["TrainingJobName"])
        self.account, self.region = account, region
        self.arn = f"arn:aws:sagemaker:{region}:{account}:training-job/{self.name}"
        self.tags: list[dict[str, str]] = list(request.get("Tags") or [])
        self.progress = Progress(now())
        self.lock = threading.RLock()
        self.stop_requested = threading.Event()
        self.started_at: datetime | None = None
        self.instance_seconds = 0.0
        self._has_instances_since: datetime | None = None
        self.ended_at: datetime | None = None
        self.failure_reason: str | None = None
        self.final_metrics: list[dict[str, Any]] = []
        self.has_artifacts = False

    @property
    def creation_time(self) -> datetime:
        """Return its creation time."""
        return self.progress.created_at

    @property
    def max_runtime_seconds(self) -> int:
        """Return MaxRuntimeInSeconds or its default."""
        condition = self.request.get("StoppingCondition") or {}
        return int(condition.get("MaxRuntimeInSeconds", DEFAULT_RUNTIME_SECONDS))

    @property
    def is_spot(self) -> bool:
        """Return True if it trains on spot instances."""
        return bool(self.request.get("EnableManagedSpotTraining"))

    @property
    def max_wait_seconds(self) -> float:
        """Return MaxWaitTimeInSeconds, which a request for spot instances has; infinite for a job on demand."""
        return float(self.request["StoppingCondition"]["MaxWaitTimeInSeconds"]) if self.is_spot else math.inf

    def start_instances(self) -> None:
        """Record that it has its instances from now on."""
        with self.lock:
            self._has_instances_since = now()
            self.started_at = self.started_at or self._has_instances_since

    def end_instances(self, at: datetime) -> None:
        """Record that it has had its instances until a time."""
        if self._has_instances_since:
            self.instance_seconds += (at - self._has_instances_since).total_seconds()
            self._has_instances_since = None

    @property
    def output(self) -> S3Uri:
        """Return the folder of its artifacts: <S3OutputPath>/<name>/output."""
        return S3Uri.parse(self.request["OutputDataConfig"]["S3OutputPath"]).child(self.name, "output")

    @property
    def output_key(self) -> str:
        """Return the KMS key of its artifacts; empty if the request has none."""
        return str(self.request["OutputDataConfig"].get("KmsKeyId") or "")

    @property
    def response_object(self) -> dict[str, Any]:
        """Return the answer of DescribeTrainingJob; moto's search reads this attribute."""
        with self.lock:
            return self._describe()

    def _describe(self) -> dict[str, Any]:
        profiler = self.request.get("ProfilerConfig") or {"DisableProfiler": True}
        description = {name: self.request[name] for name in _ASKED if self.request.get(name) is not None}
        description |= {
            "TrainingJobArn": self.arn,
            "TrainingJobStatus": self.progress.status,
            "SecondaryStatus": self.progress.secondary,
            "SecondaryStatusTransitions": [dict(entry) for entry in self.progress.transitions],
            "CreationTime": self.creation_time,
            "LastModifiedTime": self.progress.changed_at,
            "StoppingCondition": {
                **(self.request.get("StoppingCondition") or {}),
                "MaxRuntimeInSeconds": self.max_runtime_seconds,
            },
            "ProfilingStatus": "Disabled" if profiler.get("DisableProfiler") else "Enabled",
        }
        for name in (
            "EnableNetworkIsolation",
            "EnableInterContainerTrafficEncryption",
            "EnableManagedSpotTraining",
        ):
            description.setdefault(name, False)
        return description | self._outcome()

    def _outcome(self) -> dict[str, Any]:
        outcome: dict[str, Any] = {}
        if self.failure_reason:
            outcome["FailureReason"] = self.failure_reason
        if self.final_metrics:
            outcome["FinalMetricDataList"] = self.final_metrics
        if self.has_artifacts:
            outcome["ModelArtifacts"] = {"S3ModelArtifacts": str(self.output.child("model.tar.gz"))}
        if self.started_at:
            outcome["TrainingStartTime"] = self.started_at
        if self.ended_at:
            outcome["TrainingEndTime"] = self.ended_at
        if self.started_at and self.ended_at:
            # The training time is "the actual compute-time your training job spent", the billable time "the time you
            # will be billed for after Spot discounting is applied" (xgboost_managed_spot_training.ipynb of
            # https://github.com/aws/amazon-sagemaker-examples). So neither includes the time without instances.
            seconds = math.ceil(self.instance_seconds)
            billable = math.ceil(seconds * SPOT_RATIO) if self.is_spot else seconds
            outcome |= {"TrainingTimeInSeconds": seconds, "BillableTimeInSeconds": billable}
        return outcome

    def summary(self) -> dict[str, Any]:
        """Return its entry in ListTrainingJobs."""
        with self.lock:
            document = self._describe()
        names = (
            "TrainingJobName",
            "TrainingJobArn",
            "CreationTime",
            "TrainingEndTime",
            "LastModifiedTime",
            "TrainingJobStatus",
            "SecondaryStatus",
        )
        return {name: document[name] for name in names if name in document}

    def event(self) -> dict[str, Any]:
        """Return its state-change event: a description with times in milliseconds since 1970."""
        document = self.response_object
        detail = {name: _in_milliseconds(document[name]) for name in _IN_EVENTS if name in document}
        return {
            "source": "aws.sagemaker",
            "detail-type": "SageMaker Training Job State Change",
            "resources": [self.arn],
            "detail": detail | {"Tags": {tag["Key"]: tag["Value"] for tag in self.tags}},
        }


def now() -> datetime:
    """Return the current time with its time zone, as boto3 returns times."""
    return datetime.now(UTC)


def _in_milliseconds(value: Any) -> Any:
    if isinstance(value, datetime):
        return int(value.timestamp() * 1000)
    if isinstance(value, dict):
        return {key: _in_milliseconds(member) for key, member in value.items()}
    if isinstance(value, list):
        return [_in_milliseconds(member) for member in value]
    return value
