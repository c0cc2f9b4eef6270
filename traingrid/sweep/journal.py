"""Journal: the state of a sweep, as numbered objects in the manifest bucket that are only created and never replaced.

An entry is written if its number is free (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html).
Each entry is therefore decided with all entries before it known, also if the command runs twice at the same time: the
process whose number is taken reads the other's entry and decides again.
"""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from traingrid import names
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.sweep.spec import Value

if TYPE_CHECKING:
    from traingrid.aws.s3 import Storage


class _Entry(BaseModel):
    """An entry; `writer` tells two processes apart that write the same decision."""

    model_config = ConfigDict(frozen=True)
    writer: str = Field(default_factory=lambda: uuid.uuid4().hex)


class Begun(_Entry):
    """The first entry.

    Attributes:
        spec: The identity of the specification (`SweepSpec.identity`).
    """

    kind: Literal["begun"] = "begun"
    spec: dict[str, Any]


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


class TrialBatch(_Entry):
    """Trials that become one submission. It is written before the manifest.

    Attributes:
        manifest: The content of the manifest, which is uploaded to a key that only this entry has.
    """

    kind: Literal["batch"] = "batch"
    trials: tuple[NewTrial, ...]
    manifest: str


class Submitted(_Entry):
    """A batch that the intake has submitted.

    Attributes:
        batch: The number of the batch's entry.
    """

    kind: Literal["submitted"] = "submitted"
    batch: int
    submission: str


class Rejected(_Entry):
    """A batch that the intake has rejected, so that none of its trials was trained. They are drawn again."""

    kind: Literal["rejected"] = "rejected"
    batch: int


class StoppedEarly(_Entry):
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


class Ended(_Entry):
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


class OutOfBudget(_Entry):
    """The decision to submit no more trials and to cancel the open ones until the specification has a higher budget."""

    kind: Literal["out_of_budget"] = "out_of_budget"
    dollars: float
    budget: float


Entry: TypeAlias = Begun | TrialBatch | Submitted | Rejected | StoppedEarly | Ended | OutOfBudget
_READ: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


class JournalMovedError(Exception):
    """Another process has written the next entry; the caller decides again with it."""


class Journal:
    """The journal of one sweep.

    Args:
        storage: S3 in the home Region.

    Attributes:
        entries: All entries that have been read or written, by their number.
    """

    def __init__(self, storage: Storage, bucket: str, name: str) -> None:
        self._storage = storage
        self._prefix = S3Uri(bucket, f"{names.SWEEP_PREFIX}{name}/")
        self.entries: list[Entry] = []

    def refresh(self) -> list[Entry]:
        """Read the entries of other processes, and return all entries.

        Raises:
            TraingridError: An object is not an entry, or an entry is missing.
        """
        last = self._uri(len(self.entries) - 1).key if self.entries else ""
        for key in list(self._storage.keys_after(self._prefix, last)):
            uri = S3Uri(self._prefix.bucket, key)
            if uri != self._uri(len(self.entries)):
                step = f"Restore {self._uri(len(self.entries))} from its last version, or use another name."
                raise TraingridError(f"The journal of the sweep has no entry before {uri}.", step)
            self.entries.append(self._read(uri))
        return self.entries

    def first_entry(self) -> Begun | None:
        """Return the first entry without reading the others; None if there is none.

        Raises:
            TraingridError: The object is not an entry.
        """
        content = self._storage.read_if_exists(self._uri(0))
        entry = None if content is None else self._parsed(self._uri(0), content)
        return entry if isinstance(entry, Begun) else None

    def append(self, entry: Entry) -> int:
        """Write the next entry, and return its number.

        Raises:
            JournalMovedError: Another process has written an entry meanwhile.
        """
        number = len(self.entries)
        uri = self._uri(number)
        content = entry.model_dump_json().encode()
        # After a lost reply, S3 refuses our own repeated request.
        if not self._storage.write_if_none(uri, content, "application/json") and self._read(uri) != entry:
            raise JournalMovedError
        self.entries.append(entry)
        return number

    def _uri(self, number: int) -> S3Uri:
        return S3Uri(self._prefix.bucket, f"{self._prefix.key}{number:06d}.json")

    def _read(self, uri: S3Uri) -> Entry:
        return self._parsed(uri, self._storage.read(uri))

    @staticmethod
    def _parsed(uri: S3Uri, content: bytes) -> Entry:
        try:
            return _READ.validate_json(content)
        except ValidationError as error:
            step = "Use the version of traingrid that wrote it, or another name for the sweep."
            raise TraingridError(f"{uri} is not an entry of a sweep's journal: {error}.", step) from error
