"""Byte blocks: reads blocks of bytes from a file, or from a FIFO that may not exist yet. Does not import TensorFlow.

native/fifo_source.h implements the same in C++.
"""

import contextlib
import fcntl
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path

from training_container.trainer.demux.framing import StreamError

BLOCK = 1 << 20
"""Bytes per read; larger blocks are slower, because they exceed the CPU's cache."""
PIPE_SIZE = 1 << 20
"""Default of /proc/sys/fs/pipe-max-size, the maximum for processes without privileges."""
_LOOK = 0.1
"""Seconds between two checks of a path."""


def blocks(path: str, channel: str, timeout_seconds: float) -> Iterator[bytes]:
    """Yield the bytes of a file, or of a FIFO until its writer closes it.

    Args:
        path: The path. A FIFO may appear later; it is opened once.
        channel: The channel's name, for error messages.
        timeout_seconds: The maximum time until the FIFO appears, and the maximum time without data.

    Raises:
        StreamError: The FIFO did not appear, or provided no data, within the timeout.
    """
    file = _opened(path, channel, timeout_seconds)
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


def failure_beside(path: str) -> str:
    """Return the error that the demultiplexer wrote for its FIFO; "" if it succeeded or there is none."""
    try:
        return ending(path).read_text()
    except FileNotFoundError:
        return ""


def ending(path: str) -> Path:
    """Return the file with the result of a demultiplexed FIFO: empty on success, otherwise the error."""
    return Path(f"{path}.ending")


def _opened(path: str, channel: str, timeout_seconds: float) -> int:
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
    own = os.fstat(file)
    while not poll.poll(_LOOK * 1000):
        try:
            now = os.stat(path)  # noqa: PTH116  # comparable with fstat's result
        except FileNotFoundError:
            return bool(poll.poll(0))
        if (now.st_dev, now.st_ino) != (own.st_dev, own.st_ino):
            return bool(poll.poll(0))
        if time.monotonic() >= deadline:
            return False
    return True
