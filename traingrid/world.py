"""What there is: the ledger's items, the training jobs of every Region, Batch's children; all of it as one value.

`traingrid.world_reading` reads it, `traingrid.audit` judges it; nothing here calls anything.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid.failures import CONFLICT
from traingrid.ledger import FINAL_STATES
from traingrid.waits import SWEEP_SECONDS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from traingrid.dynamodb import Item
    from traingrid.names import TrainingJobName

Line = tuple[str, int]
"""A line of a submission: the submission's id and the index of the job."""

SETTLED_SECONDS = 2 * SWEEP_SECONDS
"""What nobody else brings to its end, the reconciler does in two sweeps; before that it is late, not lost."""

GONE = frozenset({"SUCCEEDED", "FAILED", "UNKNOWN"})
"""Batch's statuses of a child that will never do anything again, and our word for one that Batch does not know."""


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """A training job whose name says that a grid made it.

    Attributes:
        name: Its name.
        identity: What the name says: submission, index, attempt.
        region: Where it is.
        state: SageMaker's TrainingJobStatus.
        created_at: CreationTime in seconds since 1970.
        arn: Its ARN.
        ended_at: TrainingEndTime in seconds since 1970; None while it runs, and for one that never began to train.
        described: DescribeTrainingJob's reply, where the world was read with details.
        ours: Whether it bears the grid's tag; None where that was not asked, because it fits its line.
    """

    name: str
    identity: TrainingJobName
    region: str
    state: str
    created_at: float
    arn: str = ""
    ended_at: float | None = None
    described: Mapping[str, Any] | None = None
    ours: bool | None = None

    @property
    def active(self) -> bool:
        """Whether it still costs money."""
        return self.state not in FINAL_STATES

    @property
    def line(self) -> Line:
        """The line that its name belongs to."""
        return self.identity.submission, self.identity.index


@dataclass(frozen=True, kw_only=True)
class World:
    """A grid as it was found at one moment.

    The training jobs are read before the ledger, and a child writes into the ledger before it creates: so whatever
    training job is here, its line is here too, if it has one.

    Attributes:
        grid: The grid's name.
        regions: Its training Regions.
        submissions: The ledger's submissions by their id.
        lines: The ledger's jobs.
        cancels: The recorded cancels by submission and scope, as `Ledger.cancels` returns them.
        training_jobs: All training jobs of the grid's names, of every Region.
        children: Batch's status of the child that answers for a line; one that Batch does not know is "UNKNOWN".
        batch_jobs: The ids of all Batch jobs that bear a submission's name, by that name. More than one is too many.
        read_at: When it was read, in seconds since 1970.
        roles: The execution role's ARN by Region.
        calls: Accepted calls that change something, oldest first, where somebody records them: each with `service`,
            `action`, `region`, `parameters` and `time`. None where nobody does, as in AWS.
        at_rest: Whether everything should have ended by now; then nothing may be on its way any more.
        before: The world as it was read some time ago, to see that what had ended has stayed so.
    """

    grid: str
    regions: Sequence[str]
    submissions: Mapping[str, Item]
    lines: Mapping[Line, Item]
    cancels: Mapping[str, Mapping[str, Item]]
    training_jobs: Sequence[TrainingJob]
    children: Mapping[Line, str]
    read_at: float
    batch_jobs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    calls: Sequence[Mapping[str, Any]] | None = None
    at_rest: bool = False
    before: World | None = None


def is_by_hand(head: Item) -> bool:
    """Return whether somebody gave Batch the manifest itself: then its first child has claimed the submission."""
    return head.get("owner") is not None and head.get("owner") == head.get("batch_job")


def had_child(head: Item, index: int, status: str) -> bool:
    """Return True if the Batch job of a submission by hand has had a child for a line.

    Args:
        head: The submission's item. Its first child records the array's size; earlier versions did not, and then a
            line that Batch does not know counts as one without a child.
        index: The line.
        status: Batch's status of the line's child, or "UNKNOWN".
    """
    return index < head["children"] if "children" in head else status != "UNKNOWN"


def owns(item: Item | None, job: TrainingJob) -> bool:
    """Return whether a line, as the ledger has it, is alive and this training job is its current one.

    Args:
        item: The line's item in the ledger; None if there is none.
        job: A training job whose name is of this line.
    """
    return (
        item is not None
        and item["state"] not in FINAL_STATES
        and (item["attempt"], item["region"]) == (job.identity.attempt, job.region)
    )


def attempts(item: Item | None) -> dict[int, Item]:
    """Return what the ledger says of each attempt of a line."""
    if item is None:
        return {}
    return {**{tried["attempt"]: tried for tried in item.get("tried", [])}, item["attempt"]: item}


def elsewhere(items: Iterable[Item], regions: Collection[str]) -> list[str]:
    """Return the Regions in which lines are now though they are none of these: the grid had them once."""
    return sorted({item["region"] for item in items}.difference(regions))


def regions_of(items: Iterable[Item]) -> set[str]:
    """Return the Regions in which lines have trained, or would, also those that the grid has no more."""
    return {attempt["region"] for item in items for attempt in attempts(item).values()}


def is_strangers(item: Item | None, job: TrainingJob) -> bool:
    """Return whether a training job is somebody else's of the name of one of ours, as its tags say, else the ledger."""
    if job.ours is not None:
        return not job.ours
    return attempts(item).get(job.identity.attempt, {}).get("failure") == CONFLICT.name
