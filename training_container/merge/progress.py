"""Progress: lines in the log that show the steps of a long merge. This module does not import TensorFlow."""

import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

Batch = TypeVar("Batch", bound=tuple[Any, ...])
SECONDS = 30.0
"""The time between two lines about one step."""


def counted(batches: Iterable[Batch], step: str, *, clock: Callable[[], float] = time.monotonic) -> Iterator[Batch]:
    """Yield batches, and print the number of their images every `SECONDS`, and at the end if the caller reads all.

    Args:
        batches: The batches; the first item of each has the shape [batch, ...].
        step: The step of the merge, for example "Evaluating job 0 of 0a1b2c3d".
        clock: Returns the time in seconds.
    """
    began = printed = clock()
    images = 0
    print(f"{step} ...")
    for batch in batches:
        yield batch
        images += int(batch[0].shape[0])
        if (now := clock()) - printed >= SECONDS:
            printed = now
            print(f"{step}: {images:,} images after {now - began:.0f} s")
    print(f"{step}: {images:,} images in {clock() - began:.0f} s")
