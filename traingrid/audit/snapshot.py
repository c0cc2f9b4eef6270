"""World: one value with the ledger's items, the training jobs of every Region and the states of Batch's children.

`traingrid.audit.read_snapshot` reads it, and `traingrid.audit.audit` checks it. This module makes no calls.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid.backoff import PASS_SECONDS

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traingrid.backends.training_job import TrainingJob
    from traingrid.ledger.damage import Damaged
    from traingrid.ledger.items import JobItem, Line
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.ledger.user_requests import Cancel

SETTLED_SECONDS = 2 * PASS_SECONDS
"""The reconciler closes abandoned lines within two passes. Before that, an open line is late, not lost."""


@dataclass(frozen=True, kw_only=True)
class World:
    """The state of a grid at one moment.

    The training jobs are read before the ledger, and a child writes to the ledger before it creates a training job. So
    if a training job in this value has a line, the line is in this value too.

    Attributes:
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
        damaged: The items of the ledger that cannot be read. The other checks leave out what depends on them.
    """

    grid: str
    regions: Sequence[str]
    submissions: Mapping[str, SubmissionItem]
    lines: Mapping[Line, JobItem]
    cancels: Mapping[str, Mapping[str, Cancel]]
    training_jobs: Sequence[TrainingJob]
    children: Mapping[Line, str]
    read_at: float
    batch_jobs: Mapping[str, Sequence[str]] = field(default_factory=dict)
    roles: Mapping[str, str] = field(default_factory=dict)
    calls: Sequence[Mapping[str, Any]] | None = None
    at_rest: bool = False
    before: World | None = None
    damaged: Sequence[Damaged] = ()

    def may_have(self, submission: str, index: int | None = None) -> bool:
        """Return True if a damaged item is that of a submission, or of one of its jobs, so that it is not missing."""
        return any((part.submission, part.index) == (submission, index) for part in self.damaged)
