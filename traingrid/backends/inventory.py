"""Inventory: the protocol with which running training jobs are found and stopped, independently of children.

A `Backend` runs one job, whose request it knows. An `Inventory` lists all training jobs of a Region, also those that no
child watches: the reconciler, cancel, retry, the region guard and audit compare them with the ledger. It cannot create
training jobs.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from traingrid.errors import TraingridError
from traingrid.grid.field_types import MAX_RUNTIME_LIMIT
from traingrid.job.state import JobState

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.backends.training_job import TrainingJob

ACTIVE_STATES = (JobState.IN_PROGRESS, JobState.STOPPING)
"""The states of a training job that may still cost money."""
MAX_ACTIVE_SECONDS = 2 * MAX_RUNTIME_LIMIT + 2 * 24 * 3600
"""The age beyond which no training job is active: 28 days of waiting (`max_wait`; MaxPendingTimeInSeconds), 28 of
training, and two days for its stop and uploads
(https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_StoppingCondition.html)."""


@dataclass(frozen=True, kw_only=True)
class Window:
    """The part of a list of training jobs that is read; times are in seconds since 1970.

    Attributes:
        since: Omit training jobs that were created before this time, if the service keeps ended ones.
        before: Omit training jobs that were created after this time, as `since`.
        deadline: The time at which no more pages are requested.
    """

    since: float = 0.0
    before: float = math.inf
    deadline: float = math.inf


ALL = Window()
"""All training jobs, however long their list takes."""


class ListingTimeoutError(TraingridError):
    """The time for a list of training jobs is over before the list is complete."""

    def __init__(self, region: str) -> None:
        super().__init__(f"The time for the list of training jobs in {region} is over.")


@dataclass(frozen=True, kw_only=True)
class Details:
    """The description of a training job, with facts that its entry in a list lacks.

    Attributes:
        started_at: The time in seconds since 1970 at which it started on its instances; None before.
        ended_at: The time in seconds since 1970 at which it ended; None while it runs, and if it never started.
        artifact: The S3 URI of the model; empty if there is none.
        billable_seconds: The billed time; 0 before its end.
        role: The ARN of the IAM role with which it runs.
        is_exact: False if the service has lost some of these facts, for example with the pods and nodes of a cluster.
    """

    state: JobState
    started_at: float | None = None
    ended_at: float | None = None
    artifact: str = ""
    billable_seconds: int = 0
    role: str = ""
    is_exact: bool = True


class Inventory(Protocol):
    """The training jobs with names of a grid in one Region."""

    def listed(self, state: str = "", submission: str = "", window: Window = ALL) -> Iterator[TrainingJob]:
        """Yield the training jobs with names of this grid.

        Args:
            state: Yield only training jobs in this state; by default in any state.
            submission: Yield only training jobs of this submission; by default of all submissions.
            window: The part of the list to read; by default all of it.

        Raises:
            ListingTimeoutError: The time of the window is over before the last page.
        """

    def details(self, job: TrainingJob) -> Details | None:
        """Return the details of a listed training job; None if it has been deleted since."""

    def has_our_tag(self, job: TrainingJob) -> bool:
        """Return True if the tags of a training job show that this grid created it."""

    def stop(self, job: TrainingJob) -> bool:
        """Stop a listed training job; repeated requests are allowed.

        Returns:
            False if it has already ended.
        """

    def complete_stop(self, job: TrainingJob) -> bool:
        """Stop processes that cannot complete the training job.

        A stopping training job has left them running, because a person deleted only its object; or a host of it has
        failed or does not start, and its service does not end the others.

        Returns:
            True if there were any.
        """

    def ended(self) -> Iterator[TrainingJob]:
        """Yield the ended training jobs that the service keeps until `release` is called; SageMaker keeps all."""

    def release(self, job: TrainingJob) -> bool:
        """Let the service delete an ended training job whose end is recorded, now or after some days.

        Returns:
            True if the training job changed.
        """
