"""FIFO: reads the records of one FIFO, as SageMaker's Pipe mode writes them.

TensorFlow's file system seeks, which a FIFO does not support. native/ has a file system `fifo://` with which
TFRecordDataset reads FIFOs in C++. If it was not built, block_reader.py replaces it.
"""

import functools
import sys
import urllib.parse
from pathlib import Path

import tensorflow as tf

from training_container.trainer.demux import block_reader

LIBRARY = Path(sys.prefix) / "lib" / "traingrid" / "libfifo_filesystem.so"
"""The plugin that setup/training.sh builds for the TensorFlow in the same environment."""
TIMEOUT_SECONDS = 600.0


def records(path: str, channel: str, *, tolerate: int = 0, timeout_seconds: float = TIMEOUT_SECONDS) -> tf.data.Dataset:
    """Return the TFRecords of one FIFO, each a scalar tf.string. The dataset can be iterated only once.

    Args:
        path: The FIFO, which may appear later.
        channel: The channel's name, for error messages.
        tolerate: The number of records to skip if their data CRC does not match, counted by
            block_reader.corrupt_records_seen().
        timeout_seconds: The maximum time until the FIFO appears, and the maximum time without data.

    Raises:
        tf.errors.DataLossError: During iteration: the stream is empty, truncated or corrupt, or timed out. The text
            names channel, byte and record. If the plugin is not loaded, or `tolerate` is set, the error is an
            InvalidArgumentError with the same text.
    """
    if tolerate or not plugin_loaded():
        return block_reader.fifo_records(path, channel, tolerate=tolerate, timeout_seconds=timeout_seconds)
    query = urllib.parse.urlencode({"channel": channel, "timeout": f"{timeout_seconds:g}"})
    # Without TensorFlow's buffer: the plugin has its own, and TensorFlow's would wait for more than the next record.
    return tf.data.TFRecordDataset(f"fifo://{path}?{query}", buffer_size=0)


@functools.cache
def plugin_loaded() -> bool:
    """Load the `fifo://` plugin if it was built. Return True if it is loaded."""
    if not LIBRARY.exists():
        return False
    tf.experimental.register_filesystem_plugin(str(LIBRARY))
    return True
