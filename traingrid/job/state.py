"""Job states: the states of a job in the ledger."""

from __future__ import annotations

from enum import StrEnum
from typing import Self


class JobState(StrEnum):
    """The state of a job. All states except `PENDING` and `WAITING` are SageMaker's TrainingJobStatus.

    A value that this version does not know is a state that is not final: other versions of the program share the
    table, and SageMaker's API may get more states.
    """

    PENDING = "Pending"
    """The job has no training job yet."""
    WAITING = "Waiting"
    """The job has no training job because a quota is used up, the Region has no capacity for its instance type, or
    launching is paused; see the item's `reason`."""
    IN_PROGRESS = "InProgress"
    """The training job runs, or SageMaker prepares it."""
    STOPPING = "Stopping"
    """The training job was asked to stop."""
    DELETING = "Deleting"
    """SageMaker deletes the training job."""
    COMPLETED = "Completed"
    """The training ended without an error."""
    FAILED = "Failed"
    """The training failed, or could not start."""
    STOPPED = "Stopped"
    """The training was stopped, or cancelled before it started."""

    @classmethod
    def _missing_(cls, value: object) -> Self | None:
        if not isinstance(value, str):
            return None
        unknown = str.__new__(cls, value)
        unknown._name_ = unknown._value_ = value
        return unknown

    def __reduce_ex__(self, _protocol: object) -> tuple[type[Self], tuple[str]]:
        """Copy a state by its value: Python 3.11.2 of Debian 12 finds it by its name, which may be unknown."""
        return type(self), (self.value,)


FINAL_STATES = frozenset({JobState.COMPLETED, JobState.FAILED, JobState.STOPPED})
"""The states in which an attempt never changes again."""
UNLAUNCHED_STATES = frozenset({JobState.PENDING, JobState.WAITING})
"""The states of a job without training job."""
