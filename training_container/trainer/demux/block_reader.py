"""Block reader: reads records in Python, a megabyte at a time, without the native plugin or with tolerance of errors.

Reading one record at a time through from_generator would be ten times slower for small records.
"""

from collections.abc import Callable, Iterator, Sequence

import tensorflow as tf

from training_container.trainer.demux.byte_blocks import blocks, failure_beside
from training_container.trainer.demux.framing import Splitter, StreamError, corrupt_records_seen

__all__ = ["StreamError", "corrupt_records_seen", "fifo_records", "file_records"]


def fifo_records(path: str, channel: str, *, tolerate: int, timeout_seconds: float) -> tf.data.Dataset:
    """Return the records of one FIFO. fifo.records uses this if there is no plugin, and documents it."""
    return _dataset(lambda: _record_lists(path, channel, tolerate=tolerate, timeout_seconds=timeout_seconds))


def file_records(files: Sequence[str], channel: str, *, tolerate: int) -> tf.data.Dataset:
    """Return the records of TFRecord files, skipping up to `tolerate` records in total whose data CRC does not match.

    An empty file has no records (S3's consoles create folders as empty objects). Each iteration restarts the count, so
    every epoch tolerates the same number.

    Raises:
        tf.errors.InvalidArgumentError: During iteration, with the text of a StreamError.
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
