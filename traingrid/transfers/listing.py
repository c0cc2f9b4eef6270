"""Listing: compares the objects of two folders, by two sorted listings that are read page by page.

A folder may have millions of objects, so no list of them is kept.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.text import byte_size
from traingrid.transfers.errors import MoveError, TargetDiffersError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.aws.s3_copy import CopyStore, Listed
    from traingrid.aws.s3_uri import S3Uri

_ARCHIVED = {"GLACIER", "DEEP_ARCHIVE"}
"""Storage classes whose objects must be restored before they can be copied
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html)."""


@dataclass(frozen=True, kw_only=True)
class Pair:
    """An object of the source, and the object with its name in the target, if any.

    Attributes:
        name: The key below the folder.
    """

    name: str
    source: Listed
    target: Listed | None


@dataclass(frozen=True, kw_only=True)
class Survey:
    """The result of a comparison.

    Attributes:
        objects: The number of objects of the source.
        bytes: Their size in bytes.
        missing: The number of these objects that the target lacks.
        missing_bytes: Their size in bytes.
        source_digest: A hash of names, sizes and ETags of the source.
        target_digest: The same of the target.
        has_marker: True if the source is the replica of a dataset version.
    """

    objects: int
    bytes: int
    missing: int
    missing_bytes: int
    source_digest: str
    target_digest: str
    has_marker: bool


@dataclass(frozen=True, kw_only=True)
class Folders:
    """The folder that is copied, and the folder that it is copied to, with the stores of their Regions.

    If `names` is not empty, only these objects are copied and compared; those of `last` are copied after all others. If
    `max_bytes` is not 0, a larger source is not copied.
    """

    source: S3Uri
    source_store: CopyStore
    target: S3Uri
    target_store: CopyStore
    names: frozenset[str] = frozenset()
    last: frozenset[str] = frozenset()
    max_bytes: int = 0

    def pairs(self) -> Iterator[Pair]:
        """Yield every object of the source in the order of names, without indexes of records.

        Raises:
            TargetDiffersError: The target has an object that the source lacks, or one with another size.
        """
        copies = self._objects(self.target_store, self.target)
        copy = next(copies, None)
        for name, listed in self._objects(self.source_store, self.source):
            if copy is not None and copy[0] < name:
                break
            if copy is None or copy[0] != name:
                yield Pair(name=name, source=listed, target=None)
                continue
            if copy[1].size != listed.size:
                reason = f"it has {copy[1].size:,} bytes, and the source's has {listed.size:,}"
                raise TargetDiffersError(self.target / name, reason)
            yield Pair(name=name, source=listed, target=copy[1])
            copy = next(copies, None)
        if copy is not None:
            raise TargetDiffersError(self.target / copy[0], "the source has no such object")

    def survey(self) -> Survey:
        """Compare the two folders by names and sizes, without a change.

        Raises:
            MoveError: The source has no objects or is too large, an object must be restored from an archive, or the
                target has other objects.
        """
        objects = size = missing = missing_bytes = 0
        source, target = hashlib.sha256(), hashlib.sha256()
        for pair in self.pairs():
            if pair.source.storage_class in _ARCHIVED:
                text = f"{self.source / pair.name} is archived (storage class {pair.source.storage_class})."
                raise MoveError(text, "Restore it, and retry the line.")
            objects, size = objects + 1, size + pair.source.size
            source.update(_fact(pair.name, pair.source))
            if pair.target is None:
                missing, missing_bytes = missing + 1, missing_bytes + pair.source.size
            else:
                target.update(_fact(pair.name, pair.target))
        if not objects:
            next_step = "Correct copy_from or init_from, or restore the objects."
            raise MoveError(f"{self.source} has no objects to copy.", next_step)
        if self.max_bytes and size > self.max_bytes:
            text = f"{self.source} has {byte_size(size)}, and at most {byte_size(self.max_bytes)} are copied."
            raise MoveError(text, "Submit a line that trains in the Region of the source.")
        return Survey(
            objects=objects,
            bytes=size,
            missing=missing,
            missing_bytes=missing_bytes,
            source_digest=source.hexdigest(),
            target_digest=target.hexdigest(),
            has_marker=self._has_marker(),
        )

    def _objects(self, store: CopyStore, folder: S3Uri) -> Iterator[tuple[str, Listed]]:
        """Yield the objects of a folder that are copied, by name, without indexes of records."""
        for name, listed in named_objects(store, folder):
            if name in self.names or not (self.names or names.is_record_index(name)):
                yield name, listed

    def _has_marker(self) -> bool:
        """Return True if the source is the replica of a dataset; never for some of its objects."""
        return not self.names and self.source_store.head(self.source / names.DATASET_MARKER) is not None


def named_objects(store: CopyStore, folder: S3Uri) -> Iterator[tuple[str, Listed]]:
    """Yield the objects of a folder by name, without its marker and the empty keys of S3's console for folders."""
    token, prefix = "", f"{folder.key}/"
    while True:
        page, token = store.page(folder, token)
        for listed in page:
            name = listed.key.removeprefix(prefix)
            if name != names.DATASET_MARKER and not (listed.key.endswith("/") and not listed.size):
                yield name, listed
        if not token:
            return


def _fact(name: str, listed: Listed) -> bytes:
    return json.dumps([name, listed.size, listed.etag]).encode() + b"\n"
