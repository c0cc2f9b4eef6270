"""Records read by Python, a megabyte at a time: what serves where the native plugin is not, and the tolerant reader.

One record at a time through from_generator would be ten times slower for small records.
"""

from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from training_container.trainer.byte_blocks import blocks, failure_beside
from training_container.trainer.framing import Splitter, StreamError, corrupt_records_seen

__all__ = ["StreamError", "corrupt_records_seen", "fifo_records", "file_records"]


def fifo_records(path: str, channel: str, *, tolerate: int, timeout_seconds: float) -> tf.data.Dataset:
    """Return the records of one FIFO: see fifo.records, which is this where there is no plugin."""
    return _dataset(lambda: _record_lists(path, channel, tolerate=tolerate, timeout_seconds=timeout_seconds))


def file_records(files: Sequence[str], channel: str, *, tolerate: int) -> tf.data.Dataset:
    """Return the records of TFRecord files, skipping up to `tolerate` in all whose data CRC is wrong.

    A file without a byte has no records here (S3's consoles make folders of such). The count starts afresh with every
    iteration, so that an epoch allows what the one before it did.

    Raises:
        tf.errors.InvalidArgumentError: while iterating; it holds the text of a StreamError.
    """

    def generate() -> Iterator[list[bytes]]:
        left = tolerate
        for file in files:
            splitter = Splitter(channel, file, tolerate=left)
            yield from _lists(splitter, blocks(file, channel, 0.0))
            if splitter.start or splitter.held:
                splitter.finish()
            left = splitter.tolerate

    return _dataset(generate)


def _record_lists(path: str, channel: str, *, tolerate: int, timeout_seconds: float) -> Iterator[list[bytes]]:
    splitter = Splitter(channel, path, tolerate=tolerate)
    yield from _lists(splitter, blocks(path, channel, timeout_seconds))
    if failure := failure_beside(path):
        raise StreamError(failure)
    splitter.finish()


def _lists(splitter: Splitter, source: Iterator[bytes]) -> Iterator[list[bytes]]:
    for block in source:
        if records := splitter.feed(block):
            yield records


def _dataset(generate: Callable[[], Iterator[list[bytes]]]) -> tf.data.Dataset:
    lists = tf.data.Dataset.from_generator(generate, output_signature=tf.TensorSpec([None], tf.string))
    return lists.unbatch()
