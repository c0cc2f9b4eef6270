"""Object range: downloads bytes of an object into a file, and continues after a lost connection."""

from __future__ import annotations

from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError, FlexibleChecksumError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path
    from threading import Event

    from traingrid.aws.s3_uri import S3Uri
    from traingrid.transfers.retries import Retries

CHUNK_BYTES = 1024 * 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectRange:
    """The bytes of an object from `start` up to `end`, which have the same place in a file.

    Attributes:
        source: The object, with its `etag` and its `size` in bytes.
        file: The file, which exists.
    """

    source: S3Uri
    etag: str
    size: int
    file: Path
    start: int
    end: int

    def download(
        self, s3: Any, retries: Retries, stop: Event, progress: Callable[[int], object] = lambda _position: None
    ) -> None:
        """Write the bytes into the file, unless `stop` is set before.

        Args:
            stop: Set to end the download after the next chunk.
            progress: Receives the position after each chunk.

        Raises:
            BotoCoreError: S3 does not answer any more.
            ClientError: S3 refused a request; the code is PreconditionFailed if another object has replaced this one
                (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html, If-Match).
            OSError: The file cannot be written.
        """
        position = self.start
        with self.file.open("r+b") as file:
            while position < self.end and not stop.is_set():
                first_position = position
                try:
                    file.seek(position)
                    for chunk in self._chunks(s3, position):
                        position += file.write(chunk)
                        progress(position)
                        if stop.is_set():
                            return
                except (BotoCoreError, ClientError) as error:
                    if isinstance(error, FlexibleChecksumError):
                        position = self.start
                    if position > first_position:
                        retries.renew()
                    retries.wait(error, stop)

    def _chunks(self, s3: Any, position: int) -> Iterator[bytes]:
        """Yield the bytes from a position on. botocore verifies the checksum of an object that is read as a whole."""
        is_whole = (position, self.end) == (0, self.size)
        part = {} if is_whole else {"Range": f"bytes={position}-{self.end - 1}"}
        reply = s3.get_object(Bucket=self.source.bucket, Key=self.source.key, IfMatch=self.etag, **part)
        with closing(reply["Body"]) as body:
            yield from body.iter_chunks(CHUNK_BYTES)
