"""Observed training jobs: the state of a training job as its service describes it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from traingrid.job.state import FINAL_STATES, JobState

if TYPE_CHECKING:
    from traingrid.job.facts import JobFacts

QUEUED = "Queued"
"""The phase of a job that waits for capacity in its service queue, in SageMaker before its training job exists, or in a
queue of Kueue."""
WAITING_PHASES = frozenset({"", QUEUED, "Creating", "Starting", "Pending", "LaunchingMLInstances"})
"""The phases before a training job has its instances (DescribeTrainingJob, SecondaryStatus)."""

UPLOADING = "Uploading"
"""The phase of a training job that has trained, and uploads its model."""
INTERRUPTED = "Interrupted"
"""The phase of a spot training job that has lost its instances and starts again once there is capacity
(https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training-status.html)."""


@dataclass(frozen=True, kw_only=True)
class TrainingJobDescription:
    """A service's description of a training job.

    Attributes:
        state: SageMaker's status.
        phase: SageMaker's secondary status: Starting, Downloading, Training, Uploading, ...
        phase_at: The time in seconds since 1970 at which that phase began; None if the service does not return it.
        lacks_capacity: True if the service reports that it has no capacity for the instances at the moment.
        arn: The training job's ARN.
        reason: The failure reason, or the reason why it does not train yet; empty if there is none.
        artifact: The S3 URI of the model; empty until it exists.
        metrics: The last value of each metric, once the job has ended.
        created_at: The time in seconds since 1970 at which it was created; None if the service does not return it.
        started_at: The time in seconds since 1970 at which it started on its instances, from which on SageMaker bills
            it (TrainingStartTime in the service model of botocore); None before.
        training_seconds: The training time, once the job has ended.
        billable_seconds: The billable time, once the job has ended.
        fingerprint: The fingerprint of the request, which distinguishes this job from another one with the same name.
        identified_by_tag: True if only the job's tag identifies it, because its description differs from the request.
        service_job: The id of the service job that queues it; empty if it was created directly.
        failure: The name of the failure class; empty if it follows from state, phase and reason
            (`traingrid.job.failures.failure_of_end`).
    """

    state: JobState
    phase: str = ""
    phase_at: float | None = None
    lacks_capacity: bool = False
    arn: str = ""
    reason: str = ""
    artifact: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    created_at: float | None = None
    started_at: float | None = None
    training_seconds: int = 0
    billable_seconds: int = 0
    fingerprint: str = ""
    identified_by_tag: bool = False
    service_job: str = ""
    failure: str = ""

    @property
    def has_ended(self) -> bool:
        """True if the state is final."""
        return self.state in FINAL_STATES

    def facts(self) -> JobFacts:
        """Return the fields that the ledger records; unknown fields are omitted."""
        facts: JobFacts = {"state": self.state, "phase": self.phase, "training_job_arn": self.arn}
        if self.reason:
            facts["reason"] = self.reason
        if self.service_job:
            facts["service_job"] = self.service_job
        if self.phase_at is not None:
            facts["phase_at"] = int(self.phase_at)
        if self.started_at is not None:
            facts["training_started_at"] = int(self.started_at)
        if self.artifact:
            facts["artifact"] = self.artifact
        if self.has_ended:
            facts |= {"training_seconds": self.training_seconds, "billable_seconds": self.billable_seconds}
            if self.metrics:
                facts["metrics"] = self.metrics
        return facts


class Describer(Protocol):
    """Describes the training jobs of a service in one Region."""

    def describe(self, name: str) -> TrainingJobDescription | None:
        """Return the description of a training job, or None if the service does not know the name (yet)."""

    def tags(self, training_job: TrainingJobDescription) -> dict[str, str] | None:
        """Return the tags of a training job, or None if the service does not know it (yet, or any longer)."""
