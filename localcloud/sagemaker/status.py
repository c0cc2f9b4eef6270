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
        "Uploading": "InProgress",
        "Stopping": "Stopping",
        "Completed": "Completed",
        "Failed": "Failed",
        "Stopped": "Stopped",
        "MaxRuntimeExceeded": "Stopped",
    }
)
"""TrainingJobStatus of each SecondaryStatus (API reference, DescribeTrainingJob). During `Uploading`, the status of a
job that is being stopped remains `Stopping`."""

FINAL = frozenset({"Completed", "Failed", "Stopped", "MaxRuntimeExceeded"})

MESSAGES = MappingProxyType(
    {
        "Starting": "Starting the training job",
        "Pending": "Preparing the instances for training",
        "Downloading": "Downloading input data",
        "Training": "Training image download completed. Training in progress.",
        "Uploading": "Uploading generated training model",
        "Stopping": "Stopping the training job",
        "Completed": "Training job completed",
        "Failed": "Training job failed",
        "Stopped": "Training job stopped",
        "MaxRuntimeExceeded": "Training job runtime exceeded MaxRuntimeInSeconds provided",
    }
)
"""StatusMessages of AWS (API reference, SecondaryStatusTransition, and the SageMaker SDK's job log)."""

_NEXT: dict[str, frozenset[str]] = {
    "Starting": frozenset({"Pending", "Stopping", "Failed"}),
    "Pending": frozenset({"Downloading", "Training", "Stopping", "Failed"}),
    "Downloading": frozenset({"Training", "Stopping", "Failed"}),
    "Training": frozenset({"Uploading", "Stopping", "Failed"}),
    "Uploading": frozenset({"Completed", "Stopping", "Stopped", "MaxRuntimeExceeded", "Failed"}),
    "Stopping": frozenset({"Uploading", "Stopped", "MaxRuntimeExceeded", "Failed"}),
}


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
        last = self.transitions[-1]
        at: datetime = last.get("EndTime", last["StartTime"])
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

    def _enter(self, secondary: str, at: datetime) -> None:
        entry: dict[str, Any] = {"Status": secondary, "StartTime": at, "StatusMessage": MESSAGES[secondary]}
        if secondary in FINAL:
            entry["EndTime"] = at
        self.transitions.append(entry)
