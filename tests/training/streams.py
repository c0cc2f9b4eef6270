"""SageMaker's side of Pipe mode, for tests: one FIFO per epoch and channel, each made when the one before was read."""

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path


def feed(folder: Path, channel: str, epochs: Iterable[bytes]) -> None:
    """Write <channel>_0, <channel>_1, ... one after the other; a reader that goes early is none of our business."""
    for number, content in enumerate(epochs):
        path = folder / f"{channel}_{number}"
        os.mkfifo(path)
        with contextlib.suppress(BrokenPipeError), path.open("wb") as fifo:
            fifo.write(content)
