"""Found training jobs: a training job as SageMaker or Batch lists it, and its relation to the ledger's line."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.job.backend_traits import DEFAULT_BACKEND
from traingrid.job.failures import CONFLICT
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.items import attempts

if TYPE_CHECKING:
    from traingrid.backends.inventory import Details, Inventory
    from traingrid.job.backend_traits import BackendName
    from traingrid.ledger.damage import Damaged
    from traingrid.ledger.items import JobItem, Line
    from traingrid.names import TrainingJobName


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """A training job with a name of a grid.

    Attributes:
        identity: The parts of the name: submission, index, attempt.
        state: SageMaker's TrainingJobStatus.
        created_at: CreationTime in seconds since 1970.
        ended_at: TrainingEndTime in seconds since 1970; None while it runs, and if it never started to train.
        details: Its details, if the world was read with them.
        ours: Whether it has the grid's tag; None if the tags were not read, because the job matches its line.
        may_hang: True if a host has failed and others may wait for it, or one may not start or end in time, which
            `Inventory.complete_stop` finds out.
        orphaned_pods: The names of its pods, if its object on EKS is gone and only they are left.
        damaged: The part of its description that shows its grid, if it cannot be read.
    """

    name: str
    identity: TrainingJobName
    region: str
    state: JobState
    created_at: float
    arn: str = ""
    ended_at: float | None = None
    details: Details | None = None
    ours: bool | None = None
    backend: BackendName = DEFAULT_BACKEND
    may_hang: bool = False
    orphaned_pods: tuple[str, ...] = ()
    damaged: Damaged | None = None

    @property
    def is_active(self) -> bool:
        """True if it may still cost money."""
        return self.state not in FINAL_STATES

    @property
    def line(self) -> Line:
        """The line that its name belongs to."""
        return self.identity.submission, self.identity.index


def owns(item: JobItem | None, job: TrainingJob) -> bool:
    """Return True if a line has not ended according to the ledger, and this training job is its current one.

    No line owns pods without their object, because nothing can record their end.

    Args:
        item: The line's item in the ledger; None if there is none.
        job: A training job whose name is of this line.
    """
    return (
        item is not None
        and not job.orphaned_pods
        and item.state not in FINAL_STATES
        and (item.attempt, item.region, item.backend) == (job.identity.attempt, job.region, job.backend)
    )


def is_ours(inventory: Inventory, job: TrainingJob, item: JobItem | None) -> bool:
    """Return True if the ledger records a listed training job by its ARN, or its tags show that its grid created it.

    Args:
        inventory: The inventory that has listed the training job.
        item: The ledger's item of its line; None if there is none.
    """
    recorded_attempt = attempts(item).get(job.identity.attempt)
    if job.arn and recorded_attempt and recorded_attempt.training_job_arn == job.arn:
        return True
    return inventory.has_our_tag(job)


def is_superseded(item: JobItem | None, job: TrainingJob) -> bool:
    """Return True if a training job belongs to an attempt that is over: its line has ended, or is at a later attempt.

    Args:
        item: The line's item in the ledger, read after the training job was listed; None if there is none.
        job: A training job whose name is of this line.
    """
    if item is None:
        return False
    attempt = job.identity.attempt
    return item.attempt > attempt or (item.attempt == attempt and item.state in FINAL_STATES)


def is_strangers(item: JobItem | None, job: TrainingJob) -> bool:
    """Return True if a training job with one of our names is not this grid's, by its tags or else by the ledger."""
    if job.ours is not None:
        return not job.ours
    recorded_attempt = attempts(item).get(job.identity.attempt)
    return recorded_attempt is not None and recorded_attempt.failure == CONFLICT.name
