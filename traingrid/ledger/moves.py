"""Ledger items of copies: one item for each folder that data is copied to, and for each model that is merged.

The items prevent that several children copy the same folder at once, show the progress, and record which job caused
which transfer. A copy that two children make at once is still correct, because copying an object twice has no further
effect. Before objects of a copy are deleted, its state becomes `pruning`, so that no job begins to train on it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Self

from traingrid.aws.clients import ClientFactory, client
from traingrid.aws.dynamodb import Table
from traingrid.aws.outage import Patient
from traingrid.ledger.errors import ItemError, each
from traingrid.ledger.field_types import BYTES, COUNT, FLAG, TEXT, TIME, TIME_OR_EMPTY, check_types, map_of
from traingrid.ledger.revisions import write_revision
from traingrid.ledger.timestamps import epoch_seconds, now
from traingrid.names import MOVES

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.ledger.damage import Damaged

_TYPES = {
    **dict.fromkeys(("source", "region", "from_region", "owner", "source_digest", "target_digest"), TEXT),
    "job": ("the name of a job, or empty", lambda value: value == "" or _is_job(value)),
    **dict.fromkeys(("existed", "objects", "copied_objects", "revision"), COUNT),
    **dict.fromkeys(("bytes", "missing_bytes", "copied_bytes"), BYTES),
    "updated_at": TIME,
    "began_at": TIME_OR_EMPTY,
    "earlier": ("a map of bytes by job", lambda value: map_of(BYTES)[1](value) and all(map(_is_job, value))),
    "verified": map_of(COUNT),
    "is_object": FLAG,
    "state": ("a state of a copy", lambda value: value in ("copying", "copied", "pruning", "pruned")),
}
_JOB = re.compile(r"[^/]+/\d+")


def _is_job(value: Any) -> bool:
    return isinstance(value, str) and _JOB.fullmatch(value) is not None


@dataclass(frozen=True, kw_only=True, slots=True)
class MoveItem:
    """The copy of one folder, or of one object.

    Attributes:
        target: The S3 URI of the folder, or of the object, that is copied to.
        source: The S3 URI of the folder, or of the object, that is copied.
        region: The Region of the target.
        from_region: The Region of the source.
        is_object: True if source and target are objects, which may have different names.
        state: `copying`; `copied` after every object was verified; `pruning` while its objects are deleted; `pruned`
            afterwards. An item is never deleted, because the transfer has been paid for.
        owner: The Batch child that copies, or the command that prunes; empty after a cancel.
        job: The submission and the index of the job that copied last, with a slash between them.
        updated_at: The time of the last write.
        began_at: The time at which the first child began, or the first one after the copy was pruned.
        existed: The number of objects that the target had then: they are not written by the copy.
        objects: The number of objects of the source.
        bytes: Their size in bytes.
        missing_bytes: The size of the objects that the target lacked when `job` began to copy.
        earlier: The bytes that other jobs transferred before `job` began, by job.
        copied_objects: The number of verified objects of the target.
        copied_bytes: Their size in bytes.
        verified: The number of objects by the way in which they were verified (`traingrid.transfers.verification`).
        source_digest: A hash of the keys, sizes and ETags of the source.
        target_digest: The same of the target, once it is copied.
        revision: The number of the item's last change.
    """

    target: str
    source: str
    region: str
    from_region: str
    is_object: bool = False
    state: Literal["copying", "copied", "pruning", "pruned"] = "copying"
    owner: str = ""
    job: str = ""
    updated_at: str = ""
    began_at: str = ""
    existed: int = 0
    objects: int = 0
    bytes: int = 0
    missing_bytes: int = 0
    earlier: Mapping[str, int] = field(default_factory=dict)
    copied_objects: int = 0
    copied_bytes: int = 0
    verified: Mapping[str, int] = field(default_factory=dict)
    source_digest: str = ""
    target_digest: str = ""
    revision: int = 1

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the copy of a stored item.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        check_types(item, _TYPES, required=("source", "region", "from_region", "job", "updated_at"))
        if item.get("existed") and not item.get("began_at"):
            raise ItemError(item, "began_at")
        return cls(**{name: item[name] for name in cls.__slots__ if name in item} | {"target": item["item"]})

    def stored(self) -> dict[str, Any]:
        """Return the fields to store, without the keys."""
        mappings = {"verified": dict(self.verified), "earlier": dict(self.earlier)}
        plain_fields = {name: getattr(self, name) for name in self.__slots__ if name not in {"target", *mappings}}
        return {**plain_fields, **mappings, "updated_at": now()}

    @property
    def percent(self) -> int:
        """The share of the bytes, or of the objects if they are empty, that is verified."""
        done, total = (self.copied_bytes, self.bytes) if self.bytes else (self.copied_objects, self.objects)
        return min(100 * done // total, 100) if total else 0

    @property
    def own_bytes(self) -> int:
        """The bytes that `job` has transferred; for an unfinished copy, according to its recorded progress."""
        copied_before = self.bytes - self.missing_bytes
        return max(self.copied_bytes - copied_before, 0) if self.state == "copying" else self.missing_bytes

    @property
    def transferred(self) -> dict[str, int]:
        """The bytes that each job has transferred between Regions; a merge also copies models within one."""
        bytes_by_job = {} if self.region == self.from_region else self._with(self.own_bytes)
        return {job: size for job, size in bytes_by_job.items() if job}

    @property
    def written_bytes(self) -> int:
        """The size of the objects that the copy wrote and that still exist, in bytes."""
        size = min(sum(self._with(self.own_bytes).values()), self.bytes)
        return min(size, self.copied_bytes) if self.state in ("copying", "pruning") else size

    def is_written(self, modified_at: float) -> bool:
        """Return True if the copy wrote an object of the target.

        Args:
            modified_at: The time at which the object was written, in seconds since 1970.
        """
        return not self.existed or modified_at >= epoch_seconds(self.began_at)

    def transferred_before(self, missing_bytes: int) -> dict[str, int]:
        """Return the bytes that each job has transferred before another one continues the copy.

        Args:
            missing_bytes: The size of the objects that the target lacks now.
        """
        remaining_bytes = missing_bytes if self.state == "copying" else 0
        return self._with(max(self.missing_bytes - remaining_bytes, 0))

    def _with(self, own: int) -> dict[str, int]:
        """Return `earlier` with the bytes of `job`."""
        bytes_by_job = {**self.earlier, self.job: self.earlier.get(self.job, 0) + own}
        return {job: size for job, size in bytes_by_job.items() if size}


class Moves:
    """The copies of one grid.

    Args:
        table: The name of the ledger's table.
        region: The table's Region; by default the environment's.
        make_client: Makes the client of DynamoDB.
    """

    def __init__(self, table: str, region: str | None = None, make_client: ClientFactory = client) -> None:
        self._table = Table(table, region, make_client)

    def find(self, target: str) -> MoveItem | None:
        """Return the copy to a folder, or None if there is none."""
        item = self._table.get(MOVES, target)
        return None if item is None else MoveItem.from_item(item)

    def look_up(self, target: str) -> MoveItem | Damaged | None:
        """Return the copy to a folder, or None if there is none: `find` for a caller to which it is one of many."""
        try:
            return self.find(target)
        except ItemError as error:
            return error.damaged

    def all(self) -> Iterator[MoveItem | Damaged]:
        """Yield every copy in the order of the targets."""
        yield from each(MoveItem.from_item, self._table.query(MOVES, "#item > :value", " "))

    def add(self, item: MoveItem) -> bool:
        """Write the first revision of a copy; return False, without a change, if the folder has one."""
        return self._table.put_new({"submission": MOVES, "item": item.target, **item.stored()})

    def change(self, read: MoveItem, changed: MoveItem) -> MoveItem | None:
        """Write the next revision of a copy (`write_revision`)."""
        return write_revision(self._table, (MOVES, read.target), read, changed)


class PatientMoves(Patient[Moves], Moves):
    """The copies of one grid, whose requests wait out an outage."""
