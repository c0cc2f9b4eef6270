"""Record reader: reads the records of a FIFO, as SageMaker's Pipe mode writes them, and of files with corrupt records.

TensorFlow's file system seeks, which a FIFO does not support. native/ has a file system `fifo://` with which
TFRecordDataset reads FIFOs in C++. It cannot skip a corrupt record. Where records may be skipped, or the plugin was not
built, this module reads in Python, a megabyte at a time: one record at a time through from_generator would be ten times
slower for small records.

TensorFlow is imported by the functions that return a dataset, because `blocks` also serves scripts without TensorFlow.
"""

from __future__ import annotations

import contextlib
import fcntl
import functools
import os
import select
import sys
import time
import urllib.parse
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from training_container.trainer.demux.framing import Splitter, StreamError

if TYPE_CHECKING:
    import tensorflow as tf

LIBRARY = Path(sys.prefix) / "lib" / "traingrid" / "libfifo_filesystem.so"
"""The plugin that setup/training.sh builds for the TensorFlow in the same environment."""
TIMEOUT_SECONDS = 600.0
BLOCK = 1 << 20
"""Bytes per read; larger blocks are slower, because they exceed the CPU's cache."""
PIPE_SIZE = 1 << 20
"""Default of /proc/sys/fs/pipe-max-size, the maximum for processes without privileges."""
_LOOK = 0.1
"""Seconds between two checks of a path."""


def fifo_records(
    path: str, channel: str, *, tolerate: int = 0, timeout_seconds: float = TIMEOUT_SECONDS
) -> tf.data.Dataset:
    """Return the TFRecords of one FIFO, each a scalar tf.string. The dataset can be iterated only once.

    Args:
        path: The FIFO, which may appear later.
        channel: The channel's name, for error messages.
        tolerate: The number of records to skip if their data CRC does not match, counted by
            framing.corrupt_records_seen().
        timeout_seconds: The maximum time until the FIFO appears, and the maximum time without data.

    Raises:
        tf.errors.DataLossError: During iteration: the stream is empty, truncated or corrupt, or timed out. The text
            names channel, byte and record. If the data's CRC does not match, the text is TensorFlow's, "corrupted
            record at BYTE". If the plugin is not loaded, or `tolerate` is set, the error is an InvalidArgumentError
            that names channel, byte and record in both cases.
    """
    if tolerate or not load_plugin():
        return fifo_records_in_python(path, channel, tolerate=tolerate, timeout_seconds=timeout_seconds)
    import tensorflow as tf  # noqa: PLC0415  # see above

    query = urllib.parse.urlencode({"channel": channel, "timeout": f"{timeout_seconds:g}"})
    # Without TensorFlow's buffer: the plugin has its own, and TensorFlow's would wait for more than the next record.
    return tf.data.TFRecordDataset(f"fifo://{path}?{query}", buffer_size=0)


@functools.cache
def load_plugin() -> bool:
    """Load the `fifo://` plugin if it was built. Return True if it is loaded."""
    if not LIBRARY.exists():
        return False
    import tensorflow as tf  # noqa: PLC0415  # see above

    tf.experimental.register_filesystem_plugin(str(LIBRARY))
    return True


def fifo_records_in_python(path: str, channel: str, *, tolerate: int, timeout_seconds: float) -> tf.data.Dataset:
    """Return the records of one FIFO without the plugin; see fifo_records."""

    def generate() -> Iterator[list[bytes]]:
        splitter = Splitter(channel, path, tolerate=tolerate)
        yield from _lists(splitter, blocks(path, channel, timeout_seconds))
        if failure := _failure_beside(path):
            raise StreamError(failure)
        splitter.finish()

    return _dataset(generate)


@dataclass(frozen=True)
class FilePart:
    """Consecutive records of a file.

    Attributes:
        record: The number of the first record, for messages.
        start: The byte at which it starts.
        stop: The byte after the last record; None for the end of the file.
    """

    path: str
    record: int = 0
    start: int = 0
    stop: int | None = None


def file_records(parts: Sequence[FilePart], channel: str, *, tolerate: int) -> tf.data.Dataset:
    """Return the records of TFRecord files, skipping up to `tolerate` records in total whose data CRC does not match.

    An empty file has no records (S3's consoles create folders as empty objects). Each iteration restarts the count, so
    every epoch tolerates the same number.

    Raises:
        tf.errors.InvalidArgumentError: During iteration, with the text of a StreamError.
    """

    def generate() -> Iterator[list[bytes]]:
        tolerated_records = tolerate
        for part in parts:
            splitter = Splitter(channel, part.path, tolerate=tolerated_records)
            splitter.start, splitter.record = part.start, part.record
            yield from _lists(splitter, _blocks_of(part))
            if splitter.start or splitter.held:
                splitter.finish()
            tolerated_records = splitter.tolerate

    return _dataset(generate)


def _blocks_of(part: FilePart) -> Iterator[bytes]:
    remaining_bytes = sys.maxsize if part.stop is None else part.stop - part.start
    with Path(part.path).open("rb", buffering=0) as file:
        file.seek(part.start)
        while remaining_bytes > 0 and (block := file.read(min(BLOCK, remaining_bytes))):
            remaining_bytes -= len(block)
            yield block


def _lists(splitter: Splitter, source: Iterator[bytes]) -> Iterator[list[bytes]]:
    for block in source:
        if records := splitter.feed(block):
            yield records


def _dataset(generate: Callable[[], Iterator[list[bytes]]]) -> tf.data.Dataset:
    import tensorflow as tf  # noqa: PLC0415  # see above

    lists = tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([None], tf.string))
    return lists.unbatch()


def blocks(path: str, channel: str, timeout_seconds: float) -> Iterator[bytes]:
    """Yield the bytes of a FIFO until its writer closes it. native/fifo_source.h does the same in C++.

    Args:
        path: The path. A FIFO may appear later; it is opened once.
        channel: The channel's name, for error messages.
        timeout_seconds: The maximum time until the FIFO appears, and the maximum time without data.

    Raises:
        StreamError: The FIFO did not appear, or provided no data, within the timeout.
    """
    file = _opened_descriptor(path, channel, timeout_seconds)
    try:
        poll = select.poll()
        poll.register(file, select.POLLIN)
        position = 0
        while True:
            try:
                block = os.read(file, BLOCK)
            except BlockingIOError:
                if not poll.poll(timeout_seconds * 1000):
                    raise StreamError(
                        f"Channel {channel}: {path} provided no data for {timeout_seconds:g} s after byte {position}. "
                        "Its writer hangs; pipe_timeout_seconds sets the timeout."
                    ) from None
                continue
            if not block:
                return
            position += len(block)
            yield block
    finally:
        os.close(file)


def _failure_beside(path: str) -> str:
    """Return the error that the demultiplexer wrote for its FIFO; "" if it succeeded or there is none."""
    try:
        return ending(path).read_text()
    except FileNotFoundError:
        return ""


def ending(path: str) -> Path:
    """Return the file with the result of a demultiplexed FIFO: empty on success, otherwise the error."""
    return Path(f"{path}.ending")


def _opened_descriptor(path: str, channel: str, timeout_seconds: float) -> int:
    """Return a descriptor that has bytes to read, or is at its end.

    The writer's open() blocks until the reader opens the FIFO. Until the writer has opened it, the path may be
    replaced: a FIFO left by an earlier run has no writer.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        with contextlib.suppress(FileNotFoundError):
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            if _has_writer(file, path, deadline):
                with contextlib.suppress(
                    OSError, AttributeError
                ):  # not a FIFO, not Linux, or the user's pipe memory is exhausted
                    fcntl.fcntl(file, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
                return file
            os.close(file)
        if time.monotonic() >= deadline:
            raise StreamError(
                f"Channel {channel}: nothing wrote to {path} within {timeout_seconds:g} s. Check that the channel is "
                "in Pipe mode and has objects; pipe_timeout_seconds sets the timeout."
            )
        time.sleep(_LOOK)


def _has_writer(file: int, path: str, deadline: float) -> bool:
    """Wait until there is something to read. Return False if the path is a different file now, or time is up."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    own_status = os.fstat(file)
    while not poll.poll(_LOOK * 1000):
        try:
            path_status = os.stat(path)  # noqa: PTH116  # comparable with fstat's result
        except FileNotFoundError:
            return bool(poll.poll(0))
        if (path_status.st_dev, path_status.st_ino) != (own_status.st_dev, own_status.st_ino):
            return bool(poll.poll(0))
        if time.monotonic() >= deadline:
            return False
    return True
