"""Rounds journal: the entries of the journal of rounds (`traingrid/submission/journal.py`).

A round has six entries: its lines, their submission, the merge with the contributions that it reads, its submission,
and the global model. A global model follows from the entry of its merge alone: from the archives of the contributions,
which their ETags identify, the last global model, and the options in the merge's manifest.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter

from traingrid import names
from traingrid.aws.s3_uri import S3Uri
from traingrid.strict_json import json_object
from traingrid.submission.journal import Begun, Journal, JournalEntry, Rejected, Submitted

if TYPE_CHECKING:
    from traingrid.aws.s3 import Storage


class RoundLines(JournalEntry):
    """The lines of a round, which become one submission. It is written before the manifest.

    Attributes:
        number: The number of the round, from 1.
        began_at: The time of the decision, in seconds since 1970, from which a missing Region is waited for.
        manifest: The content of the manifest, which is uploaded to a key that only this entry has.
    """

    kind: Literal["lines"] = "lines"
    number: int
    began_at: float
    manifest: str

    @property
    def regions(self) -> list[str]:
        """The Region of each line."""
        return _regions(self.manifest)


class Contribution(BaseModel):
    """The model of a Region, as the merge of a round reads it.

    Attributes:
        index: The index of its job in the submission of the round.
        artifact: The S3 URI of the model's archive.
        etag: The ETag of the archive, which changes with its content.
        size: The size of the archive in bytes.
    """

    model_config = ConfigDict(frozen=True)
    region: str
    index: int
    artifact: str
    etag: str
    size: int


class LeftOut(BaseModel):
    """A Region without a contribution to a round.

    Attributes:
        diverged: True if its training has diverged; False if its job failed or did not end in time.
    """

    model_config = ConfigDict(frozen=True)
    region: str
    index: int
    reason: str
    diverged: bool = False


class RoundMerge(JournalEntry):
    """The decision to merge the models of a round. It is written before any model is copied.

    Attributes:
        key: The key of the manifest, below the prefix of manifests.
    """

    kind: Literal["merge"] = "merge"
    number: int
    contributions: tuple[Contribution, ...]
    left_out: tuple[LeftOut, ...] = ()
    manifest: str
    key: str

    @property
    def region(self) -> str:
        """The Region that merges."""
        return _regions(self.manifest)[0]


class GlobalModel(JournalEntry):
    """The global model of a round.

    Attributes:
        model: The job of the merge, SUBMISSION/INDEX.
        artifact: The S3 URI of the model's archive.
        metrics: The last values of the metrics of the merge: those of the global model and of each contribution.
    """

    kind: Literal["model"] = "model"
    number: int
    model: str
    region: str
    artifact: str
    etag: str
    size: int
    metrics: dict[str, float] = Field(default_factory=dict)


Entry: TypeAlias = Begun | RoundLines | RoundMerge | Submitted | Rejected | GlobalModel
_READ: TypeAdapter[Entry] = TypeAdapter(Annotated[Entry, Field(discriminator="kind")])


def rounds_journal(storage: Storage, bucket: str, name: str) -> Journal[Entry]:
    """Return the journal of rounds.

    Args:
        storage: S3 in the home Region.
        bucket: The manifest bucket of the grid.
    """
    return Journal(storage, S3Uri(bucket, f"{names.ROUNDS_PREFIX}{name}/"), _READ, "series of rounds")


def _regions(manifest: str) -> list[str]:
    """Return the Region of each line of a manifest that `json_lines` has made, without its comment."""
    return [str(json_object(line)["region"]) for line in manifest.splitlines() if not line.startswith("#")]
