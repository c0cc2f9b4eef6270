"""P3: throughput of a Pipe-mode FIFO, relative to TensorFlow reading the same records from a page-cached file.

Each pair is measured back to back, in alternating order, and the figure is the median of the pairs' ratios, so that
other load on the machine affects both. A pass takes at least half a second; in shorter ones, one-time costs such as
processes waking each other would dominate. The writer is a separate process, as SageMaker's agent is.
"""

import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import tensorflow as tf

from training_container.trainer.demux import record_reader
from training_container.trainer.demux.demultiplexer import rank_fifo

ROUNDS = 11
JPEG_SIDE = 400
"""Pixels per side; with noise, such a JPEG has about 110 KB, as in ImageNet."""
CHANNEL = "train"

Measured = Callable[[], float]

# Copies a file to a FIFO, 256 KiB at a time, as a plain writer would.
_WRITER = """
import os, sys
to = os.open(sys.argv[2], os.O_WRONLY)
with open(sys.argv[1], "rb", buffering=0) as file:
    while block := file.read(1 << 18):
        while block:
            block = block[os.write(to, block):]
"""


def ingest(rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the ratios of records per second, FIFO to file: raw, decoded, and without the plugin."""
    with tempfile.TemporaryDirectory(prefix="traingrid-ingest-", dir=_memory()) as folder:
        large, small, images = (Path(folder) / name for name in ("large", "small", "images"))
        write_records(large, [os.urandom(110_000)], 5000)
        write_records(small, [os.urandom(1000)], 300_000)
        write_records(images, jpegs(8), 1200)
        fallback = _by_python if record_reader.plugin_loaded() else None
        return {
            "plugin": record_reader.plugin_loaded(),
            "raw_110_kb": against_file(large, _total, rounds),
            "raw_1_kb": against_file(small, _total, rounds),
            "jpeg_110_kb": against_file(images, _decoded_total, rounds),
            "python_raw_110_kb": against_file(large, _total, rounds, fallback) if fallback else None,
            "python_raw_1_kb": against_file(small, _total, rounds, fallback) if fallback else None,
            "python_jpeg_110_kb": against_file(images, _decoded_total, rounds, fallback) if fallback else None,
        }


def demultiplexer(rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the ratios of time, one FIFO per rank to one demultiplexed stream, for two rank processes."""
    with tempfile.TemporaryDirectory(prefix="traingrid-demux-", dir=_memory()) as folder:
        large, small, images = (Path(folder) / name for name in ("large", "small", "images"))
        write_records(large, [os.urandom(110_000)], 5000)
        write_records(small, [os.urandom(1000)], 300_000)
        write_records(images, jpegs(8), 1200)
        return {
            "raw_110_kb": shared_against_own(large, "raw", rounds),
            "raw_1_kb": shared_against_own(small, "raw", rounds),
            "jpeg_110_kb": shared_against_own(images, "jpeg", rounds),
        }


def write_records(path: Path, contents: list[bytes], count: int) -> None:
    """Write `count` records, cycling through the contents."""
    with tf.io.TFRecordWriter(str(path)) as file:
        for number in range(count):
            file.write(contents[number % len(contents)])


def jpegs(count: int) -> list[bytes]:
    """Return JPEGs of about 110 KB: noise on a gradient."""
    generator = tf.random.Generator.from_seed(1)
    ramp = tf.linspace(0.0, 191.0, JPEG_SIDE)[:, None, None]
    images = [ramp + generator.uniform([JPEG_SIDE, JPEG_SIDE, 3], 0, 64) for _ in range(count)]
    return [tf.io.encode_jpeg(tf.cast(image, tf.uint8), quality=94).numpy() for image in images]


def against_file(
    file: Path,
    consume: Callable[[tf.data.Dataset], None],
    rounds: int,
    reader: Callable[[str], tf.data.Dataset] | None = None,
) -> dict[str, Any]:
    """Return the ratio of reading through a FIFO to reading the file."""
    read = reader or (lambda path: record_reader.fifo_records(path, CHANNEL))

    def from_file() -> float:
        return _seconds(lambda: consume(tf.data.TFRecordDataset(str(file))))

    def from_fifo() -> float:
        with fed(file, Path(f"{file}_0")) as path:
            return _seconds(lambda: consume(read(str(path))))

    return alternating(from_file, from_fifo, file.stat().st_size, rounds)


def alternating(base: Measured, ours: Measured, size: int, rounds: int) -> dict[str, Any]:
    """Return the median of base/ours over pairs, all ratios, and the medians in MB/s."""
    base(), ours()  # excludes one-time costs
    pairs = []
    for number in range(rounds):
        first, second = (base, ours) if number % 2 else (ours, base)
        took = {first: first(), second: second()}
        pairs.append((took[base], took[ours]))
    ratios = sorted(round(one / other, 3) for one, other in pairs)
    return {
        "ratio": round(statistics.median(ratios), 3),
        "ratios": ratios,
        "base_mb_per_s": round(size / statistics.median(one for one, _ in pairs) / 1e6, 1),
        "mb_per_s": round(size / statistics.median(other for _, other in pairs) / 1e6, 1),
    }


@contextmanager
def fed(file: Path, path: Path) -> Iterator[Path]:
    """Create a FIFO to which a process writes the file."""
    os.mkfifo(path)
    with subprocess.Popen([sys.executable, "-S", "-c", _WRITER, str(file), str(path)]) as writer:
        try:
            time.sleep(0.1)  # time for the interpreter to start
            yield path
        finally:
            writer.wait()
            path.unlink()


def shared_against_own(file: Path, work: str, rounds: int) -> dict[str, Any]:
    """Compare two rank processes on one demultiplexed stream with two on a FIFO each with half of the records."""
    halves = [Path(f"{file}_half_{rank}") for rank in range(2)]
    for rank, half in enumerate(halves):
        with tf.io.TFRecordWriter(str(half)) as written:
            for record in tf.data.TFRecordDataset(str(file)).shard(2, rank):
                written.write(record.numpy())
    program = [sys.executable, "-m", "bench.training.ingest_rank", work]
    ranks = [subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) for _ in range(2)]

    def both(paths: list[str]) -> float:
        started = time.perf_counter()
        for rank, path in zip(ranks, paths, strict=True):
            print(path, file=rank.stdin, flush=True)
        for rank in ranks:
            assert rank.stdout  # noqa: S101  # opened as a pipe
            if rank.stdout.readline() != "done\n":
                raise RuntimeError(f"a rank of the measurement has exited with {rank.wait()}")
        return time.perf_counter() - started

    def own() -> float:
        with fed(halves[0], Path(f"{file}_0_0")) as first, fed(halves[1], Path(f"{file}_1_0")) as second:
            return both([str(first), str(second)])

    def shared() -> float:
        with fed(file, file.parent / f"{file.name}_0"):
            paths = [rank_fifo(file.parent, file.name, 0, rank, 2) for rank in range(2)]
            return both(paths)

    try:
        return alternating(own, shared, file.stat().st_size, rounds)
    finally:
        for process in ranks:
            process.communicate()


def _memory() -> str | None:
    """Return a folder in memory, whose files are always in the page cache."""
    return "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108 - the file system, not a fixed file


def _by_python(path: str) -> tf.data.Dataset:
    timeout = record_reader.TIMEOUT_SECONDS
    return record_reader.fifo_records_in_python(path, CHANNEL, tolerate=0, timeout_seconds=timeout)


def _seconds(work: Callable[[], None]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def _total(records: tf.data.Dataset) -> None:
    """Read all records in TensorFlow, without Python code per record."""
    consumed(records, "raw")


def _decoded_total(records: tf.data.Dataset) -> None:
    consumed(records, "jpeg")


def consumed(records: tf.data.Dataset, work: str) -> None:
    """Read all records, in batches to minimize the cost of the consumer; decode them if `work` is "jpeg"."""
    if work == "jpeg":
        records = records.map(
            lambda record: tf.reduce_sum(tf.cast(tf.io.decode_jpeg(record)[::50, ::50], tf.int64)),
            num_parallel_calls=tf.data.AUTOTUNE,
        )
    total = records.batch(64).prefetch(1).reduce(tf.constant(0, tf.int64), lambda count, _: count + 1)
    if int(total) == 0:
        raise RuntimeError("the reader returned no records")
