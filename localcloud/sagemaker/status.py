"""Statuses of a SageMaker training job, as a state machine without threads or clocks."""

from dataclasses import dataclass, field
from datetime import datetime
from types import MappingProxyType
from typing import Any

PRIMARY = MappingProxyType(
    {
        "Starting": "InProgress",
        "Pending": "InProgress",
        "Downloading": "InProgress",
        "Training": "InProgress",
        "Interrupted": "InProgress",
        "Uploading": "InProgress",
        "Stopping": "Stopping",
        "Completed": "Completed",
        "Failed": "Failed",
        "Stopped": "Stopped",
        "MaxRuntimeExceeded": "Stopped",
        "MaxWaitTimeExceeded": "Stopped",
    }
)
"""TrainingJobStatus of each SecondaryStatus (API reference, DescribeTrainingJob). During `Uploading`, the status of a
job that is being stopped remains `Stopping`."""

FINAL = frozenset({"Completed", "Failed", "Stopped", "MaxRuntimeExceeded", "MaxWaitTimeExceeded"})

MESSAGES = MappingProxyType(
    {
        "Starting": "Starting the training job",
        "Pending": "Preparing the instances for training",
        "Downloading": "Downloading input data",
        "Training": "Training image download completed. Training in progress.",
        "Interrupted": "The managed spot training instances were interrupted",
        "Uploading": "Uploading generated training model",
        "Stopping": "Stopping the training job",
        "Completed": "Training job completed",
        "Failed": "Training job failed",
        "Stopped": "Training job stopped",
        "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
        "MaxWaitTimeExceeded": "Training job exceeded MaxWaitTimeInSeconds provided",
    }
)
"""StatusMessages of AWS (API reference, SecondaryStatusTransition, and the SageMaker SDK's job log). The messages of
Interrupted and MaxWaitTimeExceeded are ours, because AWS's are not public."""

NO_INSTANCES = "Insufficient capacity error from EC2 while launching instances, retrying!"
"""StatusMessage of Starting while there is no capacity (API reference, SecondaryStatusTransition)."""

_OVERTIME = ("MaxRuntimeExceeded", "MaxWaitTimeExceeded")
_NEXT: dict[str, frozenset[str]] = {
    "Starting": frozenset({"Pending", "Stopping", "Failed"}),
    "Pending": frozenset({"Downloading", "Training", "Interrupted", "Stopping", "Failed"}),
    "Downloading": frozenset({"Training", "Interrupted", "Stopping", "Failed"}),
    "Training": frozenset({"Uploading", "Interrupted", "Stopping", "Failed"}),
    "Interrupted": frozenset({"Starting", "Stopping", "Failed"}),
    "Uploading": frozenset({"Completed", "Stopping", "Stopped", *_OVERTIME, "Failed"}),
    "Stopping": frozenset({"Uploading", "Stopped", *_OVERTIME, "Failed"}),
}
"""The statuses that may follow each one. Interruptions:
https://docs.aws.amazon.com/sagemaker/latest/dg/model-managed-spot-training-status.html."""


@dataclass
class Progress:
    """The status of a training job and its transitions.

    Attributes:
        secondary: SecondaryStatus.
        status: TrainingJobStatus.
        transitions: SecondaryStatusTransitions, oldest first.
    """

    created_at: datetime
    secondary: str = "Starting"
    status: str = "InProgress"
    transitions: list[dict[str, Any]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self._enter("Starting", self.created_at)

    @property
    def is_final(self) -> bool:
        """Return True if no status can follow."""
        return self.secondary in FINAL

    @property
    def changed_at(self) -> datetime:
        """Return the time of the last change."""
        last_transition = self.transitions[-1]
        at: datetime = last_transition.get("EndTime", last_transition["StartTime"])
        return at

    def advance(self, secondary: str, at: datetime) -> None:
        """Change the status.

        Raises:
            ValueError: If SageMaker has no such transition.
        """
        if secondary not in _NEXT.get(self.secondary, ()):
            message = f"a training job cannot change from {self.secondary} to {secondary}"
            raise ValueError(message)
        if not (secondary == "Uploading" and self.status == "Stopping"):
            self.status = PRIMARY[secondary]
        self.secondary = secondary
        self.transitions[-1]["EndTime"] = at
        self._enter(secondary, at)

    def describe_step(self, message: str) -> None:
        """Replace the StatusMessage of the current status."""
        self.transitions[-1]["StatusMessage"] = message

    def _enter(self, secondary: str, at: datetime) -> None:
        entry: dict[str, Any] = {"Status": secondary, "StartTime": at, "StatusMessage": MESSAGES[secondary]}
        if secondary in FINAL:
            entry["EndTime"] = at
        self.transitions.append(entry)
