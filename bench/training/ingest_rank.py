"""A reader of the measurements in ingest.py: a process on one core, which receives its work on standard input.

python -m bench.training.ingest_rank CORE

Each line is JSON: `paths` (files to read, in order, or one FIFO), `by` ("file", "fifo" for the plugin, or "python" for
the reader without it) and `work` ("raw", or "jpeg" to decode). The answer has the seconds, `wall` and `cpu`; the latter
are those of all threads of this process.
"""

import json
import os
import sys
import time

os.sched_setaffinity(0, {int(sys.argv[1])})  # before TensorFlow starts threads

import tensorflow as tf  # noqa: E402  # its threads inherit the core

from training_container.trainer.demux import record_reader  # noqa: E402  # imports TensorFlow


def main() -> None:
    """Answer one line after the other."""
    for line in sys.stdin:
        order = json.loads(line)
        wall, cpu = time.perf_counter(), time.process_time()
        consume(records(order["paths"], order["by"]), order["work"])
        seconds = {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}
        print(json.dumps(seconds), flush=True)


def records(paths: list[str], by: str) -> tf.data.Dataset:
    """Return the records of files, or of one FIFO."""
    if by == "python":
        return record_reader.fifo_records_in_python(paths[0], "train", tolerate=0, timeout_seconds=60)
    return record_reader.fifo_records(paths[0], "train") if by == "fifo" else tf.data.TFRecordDataset(paths)


def consume(found: tf.data.Dataset, work: str) -> None:
    """Read all records, in batches to minimize the cost of the consumer; decode them if `work` is "jpeg"."""
    if work == "jpeg":
        found = found.map(
            lambda record: tf.reduce_sum(tf.cast(tf.io.decode_jpeg(record)[::50, ::50], tf.int64)),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
    total = found.batch(64).prefetch(1).reduce(tf.constant(0, tf.int64), lambda count, _: count + 1)
    if int(total) == 0:
        raise RuntimeError("the reader returned no records")


main()
