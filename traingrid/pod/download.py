"""Download: copies objects from S3 to files, many at once, with bounded memory.

An object is read in pieces, so that a few large objects are as fast as many small ones. Each thread holds one chunk in
memory. A lost connection continues where it was lost, and S3 refuses to continue with another version of the object
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html, If-Match).
"""

from __future__ import annotations

import logging
import time
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import closing
from dataclasses import dataclass, field
from threading import Event
from typing import TYPE_CHECKING, Any

from botocore.exceptions import (
    BotoCoreError,
    ClientError,
    FlexibleChecksumError,
    IncompleteReadError,
)

from traingrid.aws.clients import CALLS_AT_ONCE
from traingrid.aws.outage import is_outage
from traingrid.backoff import backoff_seconds
from traingrid.pod.failure import disk_full, download_error
from traingrid.pod.patience import LONGEST_WAIT, PATIENCE_SECONDS
from traingrid.text import byte_size, counted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from pathlib import Path

    from traingrid.pod.objects import StoredObject

logger = logging.getLogger(__name__)

PIECE_BYTES = 64 * 1024 * 1024
CHUNK_BYTES = 1024 * 1024
_REPORT_SECONDS = 30.0
_REPLACED = ("PreconditionFailed", "412")


@dataclass(frozen=True, slots=True)
class _Piece:
    stored: StoredObject
    file: Path
    start: int
    end: int


@dataclass
class Downloads:
    """Downloads of one host.

    Attributes:
        s3: The client, which `CALLS_AT_ONCE` threads may share.
        request: The CreateTrainingJob request, with the size of the volume.
        size: The bytes of all objects so far.
    """

    s3: Any
    request: Mapping[str, Any]
    size: int = 0
    _stopped: Event = field(default_factory=Event)

    def fetch(self, objects: Iterable[StoredObject], folder: Path, title: str) -> None:
        """Download objects into a folder.

        Args:
            objects: The objects. They are read as the download proceeds, because there may be millions.
            folder: The folder.
            title: The name of the data in the log.

        Raises:
            PodError: The volume is too small, or an object was replaced.
            ClientError: S3 refused a call.
            OSError: A file cannot be written.
        """
        started, reported, before, count = time.monotonic(), time.monotonic(), self.size, 0
        pool = ThreadPoolExecutor(CALLS_AT_ONCE, thread_name_prefix="download")
        running: set[Future[None]] = set()
        try:
            for stored in objects:
                count += 1
                self._reserve(stored.size)
                for piece in _pieces(stored, folder):
                    if len(running) >= 2 * CALLS_AT_ONCE:
                        running = _settled(running)
                    running.add(pool.submit(self._fetch, piece))
                if time.monotonic() - reported > _REPORT_SECONDS:
                    reported = time.monotonic()
                    logger.info("%s: %s so far, %s", title, counted(count, "object"), byte_size(self.size - before))
            while running:
                running = _settled(running)
        finally:
            self._stopped.set()
            pool.shutdown(cancel_futures=True)
            self._stopped.clear()
        size, seconds = byte_size(self.size - before), time.monotonic() - started
        logger.info("%s: %s with %s in %.1f s", title, counted(count, "object"), size, seconds)

    def _reserve(self, size: int) -> None:
        """Fail before the volume is full: Kubernetes would evict the pod without a useful reason.

        https://kubernetes.io/docs/concepts/storage/volumes/#emptydir (sizeLimit)
        """
        self.size += size
        limit = self.request.get("ResourceConfig", {}).get("VolumeSizeInGB")
        if limit and self.size > limit * 2**30:
            raise download_error(disk_full(self.request, byte_size(self.size)))

    def _fetch(self, piece: _Piece) -> None:
        """Download a piece, and continue after an outage."""
        at, tries, last = piece.start, 0, time.monotonic()
        failed: BotoCoreError | ClientError
        with piece.file.open("r+b") as file:
            while at < piece.end and not self._stopped.is_set():
                before = at
                try:
                    file.seek(at)
                    for chunk in self._chunks(piece, at):
                        file.write(chunk)
                        at += len(chunk)
                except FlexibleChecksumError as error:
                    at, failed = piece.start, error
                except (BotoCoreError, ClientError) as error:
                    if isinstance(error, ClientError) and error.response["Error"]["Code"] in _REPLACED:
                        text = f"The S3 object {piece.stored.place} was replaced while it was downloaded."
                        raise download_error(text) from error
                    if not isinstance(error, IncompleteReadError) and not is_outage(error):
                        raise
                    failed = error
                else:
                    continue
                if at > before:
                    tries, last = 0, time.monotonic()
                tries += 1
                if self._stopped.is_set() or time.monotonic() - last > PATIENCE_SECONDS:
                    raise failed
                logger.info("%s: %s. It continues.", piece.stored.place, failed)
                self._stopped.wait(backoff_seconds(tries, LONGEST_WAIT))

    def _chunks(self, piece: _Piece, at: int) -> Iterator[bytes]:
        """Yield the bytes of a piece from a position on.

        botocore verifies the checksum of an object that is read as a whole.
        """
        place = piece.stored.place
        is_whole = at == 0 and piece.end == piece.stored.size
        part = {} if is_whole else {"Range": f"bytes={at}-{piece.end - 1}"}
        reply = self.s3.get_object(Bucket=place.bucket, Key=place.key, IfMatch=piece.stored.etag, **part)
        with closing(reply["Body"]) as body:
            for chunk in body.iter_chunks(CHUNK_BYTES):
                if self._stopped.is_set():
                    return
                yield chunk


def _pieces(stored: StoredObject, folder: Path) -> Iterator[_Piece]:
    """Create the file of an object, and yield its pieces; none for an empty object."""
    file = folder / stored.path
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("wb") as opened:
        opened.truncate(stored.size)
    for start in range(0, stored.size, PIECE_BYTES):
        yield _Piece(stored, file, start, min(start + PIECE_BYTES, stored.size))


def _settled(running: set[Future[None]]) -> set[Future[None]]:
    """Wait until one of the pieces has ended, raise its error if it failed, and return the others."""
    done, left = wait(running, return_when=FIRST_COMPLETED)
    for future in done:
        future.result()
    return left
