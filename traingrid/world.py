"""World: one value with the ledger's items, the training jobs of every Region and the states of Batch's children.

`traingrid.world_reading` reads it, and `traingrid.audit` checks it. This module makes no calls.
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
"""The reconciler closes abandoned lines within two sweeps. Before that, an open line is late, not lost."""

GONE = frozenset({"SUCCEEDED", "FAILED", "UNKNOWN"})
"""Batch's statuses of a terminated child, and UNKNOWN for a child that Batch does not know."""


@dataclass(frozen=True, kw_only=True)
class TrainingJob:
    """A training job with a name of a grid.

    Attributes:
        name: Its name.
        identity: The parts of the name: submission, index, attempt.
        region: Its Region.
        state: SageMaker's TrainingJobStatus.
        created_at: CreationTime in seconds since 1970.
        arn: Its ARN.
        ended_at: TrainingEndTime in seconds since 1970; None while it runs, and if it never started to train.
        described: DescribeTrainingJob's reply, if the world was read with details.
        ours: Whether it has the grid's tag; None if the tags were not read, because the job matches its line.
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
        """True if it may still cost money."""
        return self.state not in FINAL_STATES

    @property
    def line(self) -> Line:
        """The line that its name belongs to."""
        return self.identity.submission, self.identity.index


@dataclass(frozen=True, kw_only=True)
class World:
    """The state of a grid at one moment.

    The training jobs are read before the ledger, and a child writes to the ledger before it creates a training job. So
    if a training job in this value has a line, the line is in this value too.

    Attributes:
        grid: The grid's name.
        regions: Its training Regions.
        submissions: The ledger's submissions by their id.
        lines: The ledger's jobs.
        cancels: The recorded cancels by submission and scope, as `Ledger.cancels` returns them.
        training_jobs: All training jobs with names of the grid, in every Region.
        children: Batch's status of the child of each line; "UNKNOWN" if Batch does not know the child.
        batch_jobs: The ids of all Batch jobs with a submission's name, by that name. More than one is a violation.
        read_at: When it was read, in seconds since 1970.
        roles: The execution role's ARN by Region.
        calls: The accepted calls that change state, oldest first, if they were recorded: each with `service`,
            `action`, `region`, `parameters` and `time`. None without a record, as in AWS.
        at_rest: Whether all work should have ended; then nothing may be in progress.
        before: The world as read earlier, to check that final states have not changed.
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
    """Return True if a user submitted the manifest to Batch; then its first child has claimed the submission."""
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
    """Return True if a line has not ended according to the ledger, and this training job is its current one.

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
    """Return the ledger's facts of each attempt of a line."""
    if item is None:
        return {}
    return {**{tried["attempt"]: tried for tried in item.get("tried", [])}, item["attempt"]: item}


def elsewhere(items: Iterable[Item], regions: Collection[str]) -> list[str]:
    """Return the Regions in which lines are now, other than the given ones; such Regions have left the grid."""
    return sorted({item["region"] for item in items}.difference(regions))


def regions_of(items: Iterable[Item]) -> set[str]:
    """Return the Regions of all attempts of the lines, including Regions that have left the grid."""
    return {attempt["region"] for item in items for attempt in attempts(item).values()}


def is_strangers(item: Item | None, job: TrainingJob) -> bool:
    """Return True if a training job with one of our names is not this grid's, by its tags or else by the ledger."""
    if job.ours is not None:
        return not job.ours
    return attempts(item).get(job.identity.attempt, {}).get("failure") == CONFLICT.name
