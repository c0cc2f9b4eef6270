"""Blocks of bytes from a FIFO that may not exist yet, or from a file. Imports no TensorFlow.

native/fifo_source.h is the same in C++.
"""

import contextlib
import fcntl
import os
import select
import time
from collections.abc import Iterator
from pathlib import Path

from training_container.trainer.framing import StreamError

BLOCK = 1 << 20
"""Bytes asked for at once: larger ones are slower (they leave the cache)."""
PIPE_SIZE = 1 << 20
"""What /proc/sys/fs/pipe-max-size allows a process without privileges, by default."""
_LOOK = 0.1
"""Seconds between two looks at a path."""


def blocks(path: str, channel: str, timeout_seconds: float) -> Iterator[bytes]:
    """Yield what comes out of a FIFO until its writer closes it, or a file's bytes.

    Args:
        path: of the FIFO, which may appear later; it is opened once.
        channel: for the errors.
        timeout_seconds: how long the FIFO may take to appear, and how long it may be silent.

    Raises:
        StreamError: it did not appear, or was silent, for too long.
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
                        f"Channel {channel}: {path} has been silent for {timeout_seconds:g} s after byte {position}. "
                        "Its writer hangs; pipe_timeout_seconds sets how long to wait."
                    ) from None
                continue
            if not block:
                return
            position += len(block)
            yield block
    finally:
        os.close(file)


def failure_beside(path: str) -> str:
    """Return what a demultiplexer has to say about why its FIFO ended, "" if all is well or there was none."""
    try:
        return ending(path).read_text()
    except FileNotFoundError:
        return ""


def ending(path: str) -> Path:
    """Return the file that tells how a dealt FIFO has ended: nothing in it where all is well, else a sentence."""
    return Path(f"{path}.ending")


def _opened(path: str, channel: str, timeout_seconds: float) -> int:
    """Return a descriptor with bytes, or an end, waiting in it.

    The writer's open() waits for ours. Until it has come, the path may be replaced: what an earlier run has left there
    has no writer any more.
    """
    deadline = time.monotonic() + timeout_seconds
    while True:
        with contextlib.suppress(FileNotFoundError):
            file = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            if _has_writer(file, path, deadline):
                with contextlib.suppress(
                    OSError, AttributeError
                ):  # no FIFO; no Linux; no more pipe memory for this user
                    fcntl.fcntl(file, fcntl.F_SETPIPE_SZ, PIPE_SIZE)
                return file
            os.close(file)
        if time.monotonic() >= deadline:
            raise StreamError(
                f"Channel {channel}: nothing wrote to {path} within {timeout_seconds:g} s. Check that the channel is "
                "in Pipe mode and has objects; pipe_timeout_seconds sets how long to wait."
            )
        time.sleep(_LOOK)


def _has_writer(file: int, path: str, deadline: float) -> bool:
    """Wait until there is something to read; False if the path has become another file or it is too late."""
    poll = select.poll()
    poll.register(file, select.POLLIN)
    own = os.fstat(file)
    while not poll.poll(_LOOK * 1000):
        try:
            now = os.stat(path)  # noqa: PTH116  # compared with fstat's
        except FileNotFoundError:
            return bool(poll.poll(0))
        if (now.st_dev, now.st_ino) != (own.st_dev, own.st_ino):
            return bool(poll.poll(0))
        if time.monotonic() >= deadline:
            return False
    return True
