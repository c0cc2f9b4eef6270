"""Sweep journal: the entries of a sweep's journal (`traingrid/submission/journal.py`)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from traingrid import names
from traingrid.aws.s3_uri import S3Uri
from traingrid.submission.journal import Begun, Journal, JournalEntry, Rejected, Submitted
from traingrid.sweep.spec import Value

if TYPE_CHECKING:
    from traingrid.aws.s3 import Storage


class NewTrial(BaseModel):
    """A trial of a batch.

    Attributes:
        number: Its number in the sweep, from 0.
        line: The position of its base line.
        region: The Region of its base line.
    """

    model_config = ConfigDict(frozen=True)
    number: int
    line: int
    region: str
    parameters: dict[str, Value]


class TrialBatch(JournalEntry):
    """Trials that become one submission. It is written before the manifest.

    Attributes:
        manifest: The content of the manifest, which is uploaded to a key that only this entry has.
    """

    kind: Literal["batch"] = "batch"
    trials: tuple[NewTrial, ...]
    manifest: str


class StoppedEarly(JournalEntry):
    """The decision to stop a trial. It is written before the trial is cancelled.

    Attributes:
        epoch: The epoch at which the rule was applied.
        median: The median of the completed trials' best values.
    """

    kind: Literal["stopped_early"] = "stopped_early"
    trial: int
    epoch: int
    best: float
    median: float


class Ended(JournalEntry):
    """The result of a trial.

    Attributes:
        index: The index of its job in its submission.
        region: The Region in which it trained.
        value: The last value of the objective's metric; None if there is none.
        curve: Epoch and value of the objective's metric.
        seconds: Seconds of training.
        dollars: Its cost; 0 without a budget.
        has_model: True if its job has a model; entries of versions that did not record it count as if it had one.
    """

    kind: Literal["ended"] = "ended"
    trial: int
    index: int
    state: str
    region: str
    value: float | None
    metrics: tuple[str, ...] = ()
    curve: tuple[tuple[int, float], ...] = ()
    seconds: int = 0
    dollars: float = 0.0
    reason: str = ""
    has_model: bool = True


class OutOfBudget(JournalEntry):
    """The decision to submit no more trials and to cancel the open ones until the specification has a higher budget."""

    kind: Literal["out_of_budget"] = "out_of_budget"
    dollars: float
    budget: float


Entry: TypeAlias = Begun | TrialBatch | Submitted | Rejected | StoppedEarly | Ended | OutOfBudget
_READ: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


def sweep_journal(storage: Storage, bucket: str, name: str) -> Journal[Entry]:
    """Return the journal of a sweep.

    Args:
        storage: S3 in the home Region.
        bucket: The manifest bucket of the grid.
    """
    return Journal(storage, S3Uri(bucket, f"{names.SWEEP_PREFIX}{name}/"), _READ, "sweep")
