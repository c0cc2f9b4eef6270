"""Records of one FIFO, as SageMaker's Pipe mode writes them.

TensorFlow cannot read a FIFO by itself (it seeks). native/ has a file system for it, `fifo://`, so that TFRecordDataset
reads in C++; where that was not built, block_reader.py serves.
"""

import functools
import sys
import urllib.parse
from pathlib import Path

import tensorflow as tf

from training_container.trainer import block_reader

LIBRARY = Path(sys.prefix) / "lib" / "traingrid" / "libfifo_filesystem.so"
"""Where setup/training.sh puts the plugin: it belongs to the TensorFlow beside it."""
TIMEOUT_SECONDS = 600.0


def records(path: str, channel: str, *, tolerate: int = 0, timeout_seconds: float = TIMEOUT_SECONDS) -> tf.data.Dataset:
    """Return the TFRecords of one FIFO, each a scalar tf.string, to be iterated once.

    Args:
        path: of the FIFO, which may appear later.
        channel: for the errors.
        tolerate: how many records whose data CRC is wrong are skipped, counted by block_reader.corrupt_records_seen().
        timeout_seconds: how long the FIFO may take to appear, and how long it may be silent.

    Raises:
        tf.errors.DataLossError: while iterating: the stream is empty, cut or corrupt, or did not come in time. The text
            names channel, byte and record. Where the plugin is not loaded or `tolerate` is set, it is an
            InvalidArgumentError with the same text.
    """
    if tolerate or not plugin_loaded():
        return block_reader.fifo_records(path, channel, tolerate=tolerate, timeout_seconds=timeout_seconds)
    query = urllib.parse.urlencode({"channel": channel, "timeout": f"{timeout_seconds:g}"})
    # No buffer of TensorFlow's: the plugin has one, and this one would wait for more than the next record.
    return tf.data.TFRecordDataset(f"fifo://{path}?{query}", buffer_size=0)


@functools.cache
def plugin_loaded() -> bool:
    """Return whether `fifo://` is known to this process, after loading the plugin where it has been built."""
    if not LIBRARY.exists():
        return False
    tf.experimental.register_filesystem_plugin(str(LIBRARY))
    return True
