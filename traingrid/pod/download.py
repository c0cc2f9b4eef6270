"""Download: copies objects from S3 to files, many at once, with bounded memory.

An object is read in pieces, so that a few large objects are as fast as many small ones. Each thread holds one chunk in
memory.
"""

import logging
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from threading import Event
from typing import Any

from botocore.exceptions import ClientError

from traingrid.aws.clients import CALLS_AT_ONCE
from traingrid.aws.outage import code_of
from traingrid.pod.failure import disk_full, download_error
from traingrid.pod.objects import StoredObject
from traingrid.text import byte_size, counted
from traingrid.threads import Workers
from traingrid.transfers.object_range import ObjectRange
from traingrid.transfers.retries import PATIENCE_SECONDS, Retries

logger = logging.getLogger(__name__)

PIECE_BYTES = 64 * 1024 * 1024
_REPORT_SECONDS = 30.0
_REPLACED = ("PreconditionFailed", "412")


@dataclass
class Downloads:
    """Downloads of one host.

    Attributes:
        s3: The client, which `CALLS_AT_ONCE` threads may share.
        request: The CreateTrainingJob request, with the size of the volume.
        objects: The number of objects so far.
        size: Their size in bytes.
    """

    s3: Any
    request: Mapping[str, Any]
    objects: int = 0
    size: int = 0

    def fetch(self, objects: Iterable[StoredObject], folder: Path, title: str) -> None:
        """Download objects into a folder.

        Args:
            objects: The objects. They are read as the download proceeds, because there may be millions.
            title: The name of the data in the log.

        Raises:
            PodError: The volume is too small, or an object was replaced.
            ClientError: S3 refused a call.
            OSError: A file cannot be written.
        """
        started = time.monotonic()
        objects_before = self.objects
        size_before = self.size
        stop = Event()

        def downloaded() -> tuple[str, str]:
            return counted(self.objects - objects_before, "object"), byte_size(self.size - size_before)

        workers = Workers(partial(self._fetch, stop), self._pieces(objects, folder), CALLS_AT_ONCE)
        workers.start()
        try:
            while not workers.wait(_REPORT_SECONDS):
                logger.info("%s: %s so far, %s", title, *downloaded())
        finally:
            stop.set()
        logger.info("%s: %s with %s in %.1f s", title, *downloaded(), time.monotonic() - started)

    def _pieces(self, objects: Iterable[StoredObject], folder: Path) -> Iterator[ObjectRange]:
        """Create the file of each object, and yield its pieces; none for an empty object."""
        for stored_object in objects:
            self._reserve(stored_object.size)
            file = folder / stored_object.path
            try:
                file.parent.mkdir(parents=True, exist_ok=True)
                with file.open("wb") as opened:
                    opened.truncate(stored_object.size)
            except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
                text = (
                    f"The S3 object {stored_object.uri} cannot be a file here: one key is both an object and the "
                    "folder of other objects. Rename the object or the folder."
                )
                raise download_error(text) from error
            for start in range(0, stored_object.size, PIECE_BYTES):
                end = min(start + PIECE_BYTES, stored_object.size)
                yield ObjectRange(
                    source=stored_object.uri,
                    etag=stored_object.etag,
                    size=stored_object.size,
                    file=file,
                    start=start,
                    end=end,
                )

    def _reserve(self, size: int) -> None:
        """Fail before the volume is full: Kubernetes would evict the pod without a useful reason.

        https://kubernetes.io/docs/concepts/storage/volumes/#emptydir (sizeLimit)
        """
        self.objects += 1
        self.size += size
        limit = self.request.get("ResourceConfig", {}).get("VolumeSizeInGB")
        if limit and self.size > limit * 2**30:
            raise download_error(disk_full(self.request, byte_size(self.size)))

    def _fetch(self, stop: Event, piece: ObjectRange) -> None:
        try:
            piece.download(self.s3, Retries(PATIENCE_SECONDS), stop)
        except ClientError as error:
            if code_of(error) not in _REPLACED:
                raise
            text = f"The S3 object {piece.source} was replaced while it was downloaded."
            raise download_error(text) from error
