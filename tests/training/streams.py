"""Streams: emulates SageMaker's Pipe mode: one FIFO per epoch and channel, each created when the previous was read."""

import contextlib
import os
import struct
from collections.abc import Iterable
from pathlib import Path


def feed(folder: Path, channel: str, epochs: Iterable[bytes]) -> None:
    """Write <channel>_0, <channel>_1, ... one after the other, even if a reader closes a FIFO early."""
    for number, content in enumerate(epochs):
        path = folder / f"{channel}_{number}"
        os.mkfifo(path)
        with contextlib.suppress(BrokenPipeError), path.open("wb") as fifo:
            fifo.write(content)


def wrapped(*items: bytes) -> bytes:
    """Return items as SageMaker wraps them in RecordIO, in the form of its SDK (v2, src/sagemaker/amazon/common.py)."""
    return b"".join(struct.pack("<II", 0xCED7230A, len(item)) + item + bytes(-len(item) % 4) for item in items)
