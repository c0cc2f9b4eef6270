"""Pipe mode: streams a channel's objects one after the other through FIFOs, one FIFO for each epoch.

Contract: SageMaker Developer Guide, "Input modes", and "Common data formats for training"; API reference, Channel,
S3DataSource and ShuffleConfig.
"""

import errno
import fcntl
import os
import random
import select
import sys
import termios
import threading
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from localcloud.sagemaker.request import Channel
from localcloud.sagemaker.transfer import TransferError, objects

PIECE_BYTES = 1024 * 1024
_LOOK_SECONDS = 0.01  # interval of the check whether a FIFO has a reader

Object = tuple[str, str]
"""Bucket and key."""


class Pipes:
    """The FIFOs of all hosts of one job."""

    def __init__(self, s3: Any, channels: Sequence[Channel], bases: Sequence[Path]) -> None:
        """List the objects of the Pipe channels, and create the FIFOs of their first epoch.

        Args:
            s3: S3 client of the job's role.
            channels: The job's channels, in all modes.
            bases: Each host's folder that replaces /opt/ml.

        Raises:
            TransferError: If S3 refuses a call, or a ManifestFile cannot be read.
        """
        self.failure = ""
        self._ended, self._failing = threading.Event(), threading.Lock()
        self._on_failure: Callable[[], None] = lambda: None
        piped = [(channel, _listed(s3, channel)) for channel in channels if channel.piped]
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
        self._ended.set()

    def _write(self, stream: "_Stream") -> None:
        try:
            while stream.write_epoch(self._ended):
                pass
        except (TransferError, FileNotFoundError) as error:  # FileNotFoundError: the job's folder was deleted
            with self._failing:
                if self._ended.is_set() or self.failure:
                    return
                self.failure = str(error)
            self._on_failure()


class _Stream:
    """Streams one channel to one host."""

    def __init__(
        self, s3: Any, channel: Channel, order: Sequence[Object], folder: Path, share: tuple[int, int]
    ) -> None:
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
        fifo = _opened(self._path, ended)
        if fifo is None:
            return False
        try:
            for place in epoch_order(self._channel, self._order, self._epoch, *self._share):
                self._write_object(fifo, place)
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

    def _write_object(self, fifo: int, place: Object) -> None:
        try:
            body = self._s3.get_object(Bucket=place[0], Key=place[1])["Body"]
            for piece in body.iter_chunks(PIECE_BYTES):
                rest = memoryview(piece)
                while rest:
                    rest = rest[os.write(fifo, rest) :]
        except (ClientError, BotoCoreError) as error:
            # The reader only sees the end of the stream; the job's FailureReason gives the reason.
            message = f"ClientError: Data download failed:Unable to stream s3://{place[0]}/{place[1]} ({error})"
            raise TransferError(message) from error


def epoch_order(channel: Channel, order: Sequence[Object], epoch: int, host: int, hosts: int) -> list[Object]:
    """Return the objects that one host reads from a channel in one epoch, in order.

    With ShuffleConfig, the order differs in each epoch but is the same for the same seed. If the channel is also
    sharded, each epoch assigns the objects to different hosts (API reference, Channel.ShuffleConfig).

    Args:
        channel: The channel.
        order: Its objects in listing order.
        epoch: Number of the epoch, from 0.
        host: Number of the host, from 0.
        hosts: Number of hosts.
    """
    found = list(order)
    if channel.shuffle_seed is not None:
        random.Random(f"{channel.shuffle_seed}/{epoch}").shuffle(found)  # noqa: S311 - not used for secrets
    return found[host::hosts] if channel.sharded else found


def _listed(s3: Any, channel: Channel) -> list[Object]:
    try:
        return [place for place, _ in objects(s3, channel)]
    except (ClientError, BotoCoreError, ValueError, LookupError, TypeError) as error:
        message = f"ClientError: Data download failed:Unable to list {channel.uri} ({error!r})"
        raise TransferError(message) from error


def _opened(path: Path, ended: threading.Event) -> int | None:
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
    answer = fcntl.ioctl(fifo, termios.FIONREAD, b"\0" * 4)
    return int.from_bytes(answer, sys.byteorder)
