"""Pipe mode: streams a channel's objects one after the other through FIFOs, one FIFO for each epoch.

Contract: SageMaker Developer Guide, "Input modes", and "Common data formats for training"; API reference, Channel,
S3DataSource and ShuffleConfig.
"""

import errno
import fcntl
import itertools
import os
import random
import select
import sys
import termios
import threading
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from localcloud.sagemaker.pipe_items import Item, items, recordio
from localcloud.sagemaker.request import Channel, S3Uri
from localcloud.sagemaker.transfer import TransferError

PIECE_BYTES = 1024 * 1024
_LOOK_SECONDS = 0.01  # interval of the check whether a FIFO has a reader


class Pipes:
    """The FIFOs of all hosts of one job."""

    def __init__(self, s3: Any, channels: Sequence[Channel], bases: Sequence[Path]) -> None:
        """List the items of the Pipe channels, and create the FIFOs of their first epoch.

        Args:
            s3: S3 client of the job's role.
            channels: The job's channels, in all modes.
            bases: Each host's folder that replaces /opt/ml.

        Raises:
            TransferError: If S3 refuses a call, or a manifest file cannot be read.
        """
        self.failure = ""
        self._end_event, self._failure_lock = threading.Event(), threading.Lock()
        self._on_failure: Callable[[], None] = lambda: None
        piped = [(channel, _items_of_channel(s3, channel)) for channel in channels if channel.piped]
        self._streams = [
            _Stream(s3, channel, order, base / "input/data", (host, len(bases)))
            for channel, order in piped
            for host, base in enumerate(bases)
        ]

    def start(self, on_failure: Callable[[], None]) -> None:
        """Start writing.

        Args:
            on_failure: Called once, from a writer's thread, if data cannot be read; `failure` then has the reason.
        """
        self._on_failure = on_failure
        for stream in self._streams:
            threading.Thread(target=self._write, args=(stream,), name=f"pipe-{stream.name}", daemon=True).start()

    def close(self) -> None:
        """Stop writing. The hosts have ended, so no writer waits for a reader that has opened its FIFO."""
        self._end_event.set()

    def _write(self, stream: "_Stream") -> None:
        """Write a channel epoch by epoch, until the job has ended or the data cannot be read."""
        try:
            while stream.write_epoch(self._end_event):
                pass
        except (TransferError, FileNotFoundError) as error:  # FileNotFoundError: the job's folder was deleted
            with self._failure_lock:
                if self._end_event.is_set() or self.failure:
                    return
                self.failure = str(error)
            self._on_failure()


class _Stream:
    """Streams one channel to one host."""

    def __init__(self, s3: Any, channel: Channel, order: Sequence[Item], folder: Path, share: tuple[int, int]) -> None:
        self.name = f"{share[0]}-{channel.name}"
        self._s3, self._channel, self._order = s3, channel, order
        self._folder, self._share = folder, share
        self._epoch = 0
        os.mkfifo(self._path)

    @property
    def _path(self) -> Path:
        return self._folder / f"{self._channel.name}_{self._epoch}"

    def write_epoch(self, ended: threading.Event) -> bool:
        """Write an epoch to its FIFO's reader, and create the next FIFO; return False after the job has ended.

        A reader that closes the FIFO early skips the rest of this epoch.
        """
        fifo = _opened_fifo(self._path, ended)
        if fifo is None:
            return False
        try:
            for item in epoch_order(self._channel, self._order, self._epoch, *self._share):
                for part in item:
                    self._write_part(fifo, part)
            _wait_until_read(fifo, ended)
        except BrokenPipeError:
            pass
        finally:
            os.close(fifo)
        if ended.is_set():
            return False
        self._epoch += 1
        os.mkfifo(self._path)
        return True

    def _write_part(self, fifo: int, part: S3Uri | bytes) -> None:
        try:
            size, pieces = self._content(part)
            if self._channel.record_wrapper == "RecordIO":
                header, padding = recordio(size)
                pieces = itertools.chain([header], pieces, [padding])
            for piece in pieces:
                unwritten = memoryview(piece)
                while unwritten:
                    unwritten = unwritten[os.write(fifo, unwritten) :]
        except (ClientError, BotoCoreError, ValueError) as error:
            # The reader only sees the end of the stream; the job's FailureReason gives the reason.
            raise TransferError(f"ClientError: Data download failed:Unable to stream {part!s} ({error})") from error

    def _content(self, part: S3Uri | bytes) -> tuple[int, Iterable[bytes]]:
        """Return the size of an object or of an attribute's value, and its bytes."""
        if isinstance(part, bytes):
            return len(part), [part]
        reply = self._s3.get_object(Bucket=part.bucket, Key=part.key)
        return reply["ContentLength"], reply["Body"].iter_chunks(PIECE_BYTES)


def epoch_order(channel: Channel, order: Sequence[Item], epoch: int, host: int, hosts: int) -> list[Item]:
    """Return the objects, or lines of an augmented manifest, that one host reads in one epoch, in order.

    With ShuffleConfig, the order differs in each epoch but is the same for the same seed. If the channel is also
    sharded, each epoch assigns the objects to different hosts (API reference, Channel.ShuffleConfig). The reference
    does not describe how the lines of an augmented manifest are sharded; they are distributed like objects.

    Args:
        order: Its objects in listing order, or its lines.
        epoch: Number of the epoch, from 0.
        host: Number of the host, from 0.
    """
    shuffled = list(order)
    if channel.shuffle_seed is not None:
        random.Random(f"{channel.shuffle_seed}/{epoch}").shuffle(shuffled)  # noqa: S311 - not used for secrets
    return shuffled[host::hosts] if channel.sharded else shuffled


def _items_of_channel(s3: Any, channel: Channel) -> list[Item]:
    try:
        return list(items(s3, channel))
    except (ClientError, BotoCoreError, ValueError, LookupError, TypeError) as error:
        message = f"ClientError: Data download failed:Unable to list {channel.uri} ({error!r})"
        raise TransferError(message) from error


def _opened_fifo(path: Path, ended: threading.Event) -> int | None:
    """Return the FIFO's descriptor after a reader has opened it, or None after the job has ended.

    The FIFO is opened repeatedly without blocking, because a blocking open would keep this thread forever without a
    reader.
    """
    while not ended.is_set():
        try:
            fifo = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
        except OSError as error:
            if error.errno != errno.ENXIO:
                raise
            ended.wait(_LOOK_SECONDS)
            continue
        os.set_blocking(fifo, True)
        return fifo
    return None


def _wait_until_read(fifo: int, ended: threading.Event) -> None:
    """Wait until the reader has read all data or closed the FIFO, or the job has ended."""
    closed = select.poll()
    closed.register(fifo, 0)  # poll always reports POLLERR
    while not ended.is_set() and not closed.poll(0) and _unread_bytes(fifo):
        ended.wait(_LOOK_SECONDS)


def _unread_bytes(fifo: int) -> int:
    """Return the number of unread bytes in a pipe (pipe(7): FIONREAD)."""
    count_bytes = fcntl.ioctl(fifo, termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(count_bytes, sys.byteorder)
