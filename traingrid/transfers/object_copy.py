"""Object copy: copies one object to another Region, in one request or in parts, and verifies the copy.

It may be interrupted anywhere and repeated, also by two processes at once. An existing object is never replaced: S3
writes the copy only if the key does not exist.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from math import ceil

from botocore.exceptions import ClientError

from traingrid.aws.s3_copy import (
    FULL,
    MAX_COPY_BYTES,
    MAX_PART_BYTES,
    MAX_PARTS,
    MIB,
    MIN_PART_BYTES,
    CopyStore,
    ObjectHead,
    Part,
    Piece,
    Upload,
)
from traingrid.aws.s3_uri import S3Uri
from traingrid.backoff import backoff_seconds
from traingrid.threads import Workers
from traingrid.transfers.errors import MoveError, SourceChangedError, TargetDiffersError
from traingrid.transfers.verification import MARK, Evidence, evidence, mark_of

_DEFAULT = "CRC64NVME"
_OF_PARTS = ("CRC64NVME", "CRC32C", "CRC32")
"""The algorithms with which S3 computes the checksum of a whole object that is uploaded in parts
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html)."""
_SOURCE_IS_GONE = {"NoSuchKey", "404"}
_EXISTS = {"PreconditionFailed", "ConditionalRequestConflict", "412"}
_UPLOAD_IS_GONE = {"NoSuchUpload", "InvalidPart", "ConditionalRequestConflict", "PreconditionFailed"}
"""The errors after which the state of the target is read again: another process completed or aborted the upload."""
_TRIES = 5


@dataclass(frozen=True, kw_only=True)
class Sizes:
    """The sizes of requests, in bytes, which tests reduce.

    Attributes:
        in_one_piece: An object that is larger is copied in parts, so that each request takes seconds.
        largest: The maximum size of an object that S3 copies in one request.
        smallest_part: The minimum size of a part except the last one.
    """

    in_one_piece: int = 512 * MIB
    part: int = 128 * MIB
    largest: int = MAX_COPY_BYTES
    smallest_part: int = MIN_PART_BYTES


@dataclass(frozen=True)
class _Plan:
    """How to copy an object: the size of the parts in bytes, or 0; and True to record the source in the metadata."""

    part_bytes: int
    marked: bool


@dataclass(frozen=True)
class _Task:
    """An object with its facts, its copy, and the metadata to add."""

    source: S3Uri
    head: ObjectHead
    target: S3Uri
    mark: Mapping[str, str]


@dataclass(frozen=True, kw_only=True)
class ObjectCopy:
    """Copies objects between two Regions.

    Attributes:
        threads: The number of parts of an object to copy at once.
        target_has_kms: True if the targets' bucket encrypts with a key of KMS, so that their ETags are not comparable.
        sleep: Waits for a number of seconds.
    """

    source_store: CopyStore
    target_store: CopyStore
    threads: int = 4
    sizes: Sizes = field(default_factory=Sizes)
    target_has_kms: bool = False
    sleep: Callable[[float], None] = time.sleep

    def copy(self, source: S3Uri, etag: str, target: S3Uri, stopped: Callable[[], bool]) -> Evidence | None:
        """Copy an object unless its copy exists, and verify the copy.

        Args:
            source: The object.
            etag: Its ETag in the listing of its folder.
            stopped: Returns True if copying must end.

        Returns:
            The evidence that the target is a copy of the source. None if copying ended before.

        Raises:
            SourceChangedError: The source differs from its listing.
            TargetDiffersError: The target exists and is not a copy of the source.
            MoveError: S3 has written a copy that differs, or other processes keep changing the target.
        """
        source_head = self.source_store.head(source)
        if source_head is None or source_head.etag != etag:
            raise SourceChangedError(source)
        mark = mark_of(source, source_head)
        for tries in range(_TRIES):
            target_head = self.target_store.head(target)
            if target_head:
                proof = evidence(source_head, target_head, mark)
                if proof is None:
                    raise TargetDiffersError(target, "its checksum, ETag or size differs")
                return proof
            if tries:
                self.sleep(backoff_seconds(tries, 10.0))
            if stopped() or not self._write(source, source_head, target, stopped):
                return None
        raise MoveError(f"{target} could not be written: other requests kept changing it.", "Retry the line.")

    def _write(self, source: S3Uri, source_head: ObjectHead, target: S3Uri, stopped: Callable[[], bool]) -> bool:
        """Write the copy; return False if copying ended before. The caller verifies it."""
        plan = self._plan(source, source_head)
        task = _Task(source, source_head, target, {MARK: mark_of(source, source_head)} if plan.marked else {})
        try:
            if plan.part_bytes == 0:
                algorithm = next(iter(source_head.checksums), _DEFAULT)
                self.target_store.copy(source, source_head, target, algorithm, task.mark)
                return True
            return self._copy_in_parts(task, plan.part_bytes, stopped)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            if code in _SOURCE_IS_GONE or (code in _EXISTS and not self._is_unchanged(source, source_head)):
                raise SourceChangedError(source) from error
            if code not in _EXISTS | _UPLOAD_IS_GONE:
                raise
            return True

    def _is_unchanged(self, source: S3Uri, source_head: ObjectHead) -> bool:
        current_head = self.source_store.head(source)
        return current_head is not None and current_head.etag == source_head.etag

    def _plan(self, source: S3Uri, source_head: ObjectHead) -> _Plan:
        """Decide how to copy an object, so that the copy has a checksum or an ETag that can be compared, if possible.

        The parts of an object without a checksum become parts of the same size, so that the ETag is the same. An
        object whose only checksum cannot be computed from parts was written in one request, and can be copied in one.
        """
        if source_head.checksums:
            of_parts = any(name in source_head.checksums for name in _OF_PARTS)
            limit = self.sizes.in_one_piece if of_parts else self.sizes.largest
            return _Plan(0 if source_head.size <= limit else self._own_parts(source_head), marked=False)
        comparable = source_head.etag_is_md5 and not self.target_has_kms
        if comparable and source_head.parts:
            first = self.source_store.first_part_bytes(source)
            large = first >= self.sizes.smallest_part or source_head.parts == 1
            if first and ceil(source_head.size / first) == source_head.parts and large and first <= MAX_PART_BYTES:
                return _Plan(first, marked=False)
        if source_head.size <= (self.sizes.largest if comparable else self.sizes.in_one_piece):
            return _Plan(0, marked=not comparable or source_head.parts > 0)
        return _Plan(self._own_parts(source_head), marked=True)

    def _own_parts(self, source_head: ObjectHead) -> int:
        if source_head.size <= self.sizes.part * MAX_PARTS:
            return self.sizes.part
        return ceil(source_head.size / MAX_PARTS / MIB) * MIB

    def _copy_in_parts(self, task: _Task, size: int, stopped: Callable[[], bool]) -> bool:
        """Copy an object in parts of some bytes, and continue an unfinished upload; return False if copying ended."""
        store, source_head, target = self.target_store, task.head, task.target
        upload, parts = self._upload(task)
        pieces = _pieces(source_head.size, size)
        done = {piece.number: parts[piece.number] for piece in pieces if _is_part(piece, parts)}

        def copy_part(piece: Piece) -> None:
            done[piece.number] = store.copy_part(task.source, source_head.etag, target, upload.id, piece)

        missing = [piece for piece in pieces if piece.number not in done]
        if not Workers(copy_part, missing, self.threads, stopped).run():
            return False
        try:
            store.complete(source_head, target, upload, done)
        except ClientError as error:
            if error.response["Error"]["Code"] != "BadDigest":
                raise
            store.abort(target, upload.id)  # it has a part of another program; the next try begins a new upload
            return True
        for other_upload in store.uploads(target):
            store.abort(target, other_upload.id)
        return True

    def _upload(self, task: _Task) -> tuple[Upload, dict[int, Part]]:
        """Return an unfinished upload of the target with its parts, or a new one.

        Another program's parts are detected by the checksum or the ETag of the whole object. If neither can be
        compared, which the mark shows, unfinished uploads are aborted.
        """
        store, target = self.target_store, task.target
        algorithm = next((name for name in _OF_PARTS if name in task.head.checksums), _DEFAULT)
        for upload in store.uploads(target):
            if not task.mark and (upload.algorithm, upload.kind) == (algorithm, FULL):
                return upload, store.parts(target, upload.id)
            store.abort(target, upload.id)
        identifier = store.begin(task.head, target, algorithm, task.mark)
        return Upload(id=identifier, algorithm=algorithm, kind=FULL), {}


def _pieces(size: int, part_bytes: int) -> list[Piece]:
    starts = enumerate(range(0, size, part_bytes), start=1)
    return [
        Piece(number=number, start=start, end=min(start + part_bytes, size), whole=size <= part_bytes)
        for number, start in starts
    ]


def _is_part(piece: Piece, parts: Mapping[int, Part]) -> bool:
    return piece.number in parts and parts[piece.number].size == piece.size
