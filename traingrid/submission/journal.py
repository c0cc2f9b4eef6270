"""Journal: the state of a command that runs for days, as numbered objects that are only created and never replaced.

An entry is written if its number is free (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html).
Each entry is therefore decided with all entries before it known, also if the command runs twice at the same time: the
process whose number is taken reads the other's entry and decides again.
"""

from __future__ import annotations

import json
import uuid
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traingrid.aws.s3 import Storage

T = TypeVar("T")


class JournalEntry(BaseModel):
    """An entry; `writer` distinguishes two processes that write the same decision."""

    model_config = ConfigDict(frozen=True)
    writer: str = Field(default_factory=lambda: uuid.uuid4().hex)


class Begun(JournalEntry):
    """The first entry.

    Attributes:
        spec: The part of the specification that must not change.
    """

    kind: Literal["begun"] = "begun"
    spec: dict[str, Any]

    @classmethod
    def of(cls, identity: Mapping[str, Any]) -> Begun:
        """Return the entry with the identity of a specification, as it is when it is read again."""
        return cls(spec=json.loads(json.dumps(identity)))


class Submitted(JournalEntry):
    """A manifest that the intake has submitted.

    Attributes:
        batch: The number of the entry with the manifest.
    """

    kind: Literal["submitted"] = "submitted"
    batch: int
    submission: str


class Rejected(JournalEntry):
    """A manifest that the intake has rejected, so that none of its jobs was trained. The decision is made again."""

    kind: Literal["rejected"] = "rejected"
    batch: int


class JournalMovedError(Exception):
    """Another process has written the next entry; the caller decides again with it."""


def until_recorded(decide: Callable[[], T]) -> T:
    """Repeat a decision with the entries of faster processes until its own entries are recorded; return its result."""
    while True:
        try:
            return decide()
        except JournalMovedError:
            continue


def check_identity(own: Mapping[str, Any], recorded: Mapping[str, Any], work: str, next_step: str) -> None:
    """Check that a specification is the one with which its work has begun.

    Args:
        own: Its identity.
        recorded: The identity in the journal's first entry.
        work: The work that exists, as the beginning of a sentence with its verb.
        next_step: The next step after an error.

    Raises:
        UsageError: Some values differ; the text has their keys.
    """
    different_keys = sorted(key for key, value in Begun.of(own).spec.items() if value != recorded.get(key))
    if different_keys:
        raise UsageError(f"{work} with other values of {', '.join(different_keys)}.", next_step)


EntryT = TypeVar("EntryT", bound=JournalEntry)


class Journal(Generic[EntryT]):
    """The journal of one command.

    Args:
        storage: S3 in the home Region.
        prefix: The folder of its entries.
        read: Reads an entry of any kind.
        noun: The kind of work for errors, such as "sweep".

    Attributes:
        entries: All entries that have been read or written, by their number.
    """

    def __init__(self, storage: Storage, prefix: S3Uri, read: TypeAdapter[EntryT], noun: str) -> None:
        self._storage, self._prefix, self._adapter, self._noun = storage, prefix, read, noun
        self.entries: list[EntryT] = []

    def refresh(self) -> list[EntryT]:
        """Read the entries of other processes, and return all entries.

        Raises:
            TraingridError: An object is not an entry, or an entry is missing.
        """
        last = self._uri(len(self.entries) - 1).key if self.entries else ""
        for key in list(self._storage.keys_after(self._prefix, last)):
            uri = S3Uri(self._prefix.bucket, key)
            if uri != self._uri(len(self.entries)):
                step = f"Restore {self._uri(len(self.entries))} from its last version, or use another name."
                raise TraingridError(f"The journal of the {self._noun} has no entry before {uri}.", step)
            self.entries.append(self._read(uri))
        return self.entries

    def first_entry(self) -> EntryT | None:
        """Return the first entry without reading the others; None if there is none.

        Raises:
            TraingridError: The object is not an entry.
        """
        content = self._storage.read_if_exists(self._uri(0))
        return None if content is None else self._parsed(self._uri(0), content)

    def append(self, entry: EntryT) -> int:
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

    def _read(self, uri: S3Uri) -> EntryT:
        return self._parsed(uri, self._storage.read(uri))

    def _parsed(self, uri: S3Uri, content: bytes) -> EntryT:
        try:
            return self._adapter.validate_json(content)
        except ValidationError as error:
            step = f"Use the version of traingrid that wrote it, or another name for the {self._noun}."
            raise TraingridError(f"{uri} is not an entry of a {self._noun}'s journal: {error}.", step) from error
