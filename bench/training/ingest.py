"""P3: Pipe mode against TensorFlow reading the same records from a file in memory, and the demultiplexer.

A pass reads the same records as often as makes it last PASS_SECONDS. Each pair of passes is measured back to back, in
alternating order, so that other load on the machine affects both. Readers and writers are processes, each pinned to a
core; the writer stands for SageMaker's agent. Wall-clock ratios on two cores show the writer's core as much as the
reader's, so each row also has the processor time of the reader per gigabyte.
"""

import contextlib
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import tensorflow as tf

from bench.size import size
from training_container.trainer.demux import record_reader
from training_container.trainer.demux.demultiplexer import PROGRAM

ROUNDS = size(11, 1)
PASS_SECONDS = size(3.0, 0.01)
JPEG_SIDE = 400
"""Pixels per side; with noise, such a JPEG has about 110 KB, as in ImageNet."""
RANKS = 2
MANY_RANKS = 8
"""As many as a host with eight GPUs has."""

# Copies a file to a FIFO, a number of times, 256 KiB at a time, as a plain writer would.
_WRITER = """
import os, sys
os.sched_setaffinity(0, {int(sys.argv[4])})
to = os.open(sys.argv[2], os.O_WRONLY)
for _ in range(int(sys.argv[3])):
    with open(sys.argv[1], "rb", buffering=0) as file:
        while block := file.read(1 << 18):
            while block:
                block = block[os.write(to, block):]
"""


@dataclass(frozen=True, kw_only=True)
class Pass:
    """The cost of reading a file some number of times: seconds, and the readers' processor seconds."""

    wall: float
    cpu: float


class Reader:
    """A process of ingest_rank.py on one core."""

    def __init__(self, number: int) -> None:
        program = [sys.executable, "-m", "bench.training.ingest_rank", str(core(number))]
        self._process = subprocess.Popen(program, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.communicate()

    def begin(self, paths: Sequence[Path], work: str, *, by: str = "fifo") -> None:
        """Start a pass. See ingest_rank.py for `work` and `by`."""
        order = {"paths": [str(path) for path in paths], "by": by, "work": work}
        print(json.dumps(order), file=self._process.stdin, flush=True)

    def result(self) -> Pass:
        """Wait for the end of the pass."""
        assert self._process.stdout  # noqa: S101  # opened as a pipe
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"a reader of the measurement has exited with {self._process.wait()}")
        return Pass(**json.loads(line))


def core(number: int) -> int:
    """Return the core of process `number`; there may be fewer cores than processes."""
    cores = sorted(os.sched_getaffinity(0))
    return cores[number % len(cores)]


def ingest(rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the cost of reading a FIFO and the file, with the plugin."""
    with records("ingest") as (large, small, images), Reader(0) as reader:
        return {
            "plugin": record_reader.load_plugin(),
            "cores": sorted(os.sched_getaffinity(0)),
            "raw_110_kb": against_file(reader, large, "raw", rounds),
            "raw_1_kb": against_file(reader, small, "raw", rounds),
            "jpeg_110_kb": against_file(reader, images, "jpeg", rounds),
            "python_raw_1_kb": against_file(reader, small, "raw", min(rounds, 6), by="python"),
        }


def demultiplexer(rounds: int = ROUNDS) -> dict[str, Any]:
    """Return the cost of one demultiplexed stream: against a FIFO per rank for two ranks, and alone for eight."""
    with records("demux") as (large, small, images), Reader(0) as first, Reader(1) as second:
        readers = (first, second)
        return {
            "raw_110_kb": against_own_fifos(readers, large, "raw", rounds),
            "raw_1_kb": against_own_fifos(readers, small, "raw", rounds),
            "jpeg_110_kb": against_own_fifos(readers, images, "jpeg", rounds),
            "alone_110_kb": alone(large, MANY_RANKS, rounds),
            "alone_1_kb": alone(small, MANY_RANKS, rounds),
        }


@contextmanager
def records(name: str) -> Iterator[tuple[Path, Path, Path]]:
    """Write large records, small ones and JPEGs to files in memory."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  # the file system, not a fixed file
    with tempfile.TemporaryDirectory(prefix=f"traingrid-{name}-", dir=memory) as folder:
        large, small, images = (Path(folder) / kind for kind in ("large", "small", "images"))
        write_records(large, [os.urandom(110_000)], size(5000, 50))
        write_records(small, [os.urandom(1000)], size(300_000, 3000))
        write_records(images, jpegs(8), size(1200, 16))
        yield large, small, images


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


def against_file(reader: Reader, file: Path, work: str, rounds: int, by: str = "fifo") -> dict[str, Any]:
    """Compare reading a FIFO with reading the file."""

    def from_file(repeats: int) -> Pass:
        reader.begin([file] * repeats, work, by="file")
        return reader.result()

    def from_fifo(repeats: int) -> Pass:
        with fed(file, Path(f"{file}_0"), repeats, core(1)) as path:
            reader.begin([path], work, by=by)
            return reader.result()

    return alternating(from_file, from_fifo, file.stat().st_size, rounds)


def alternating(
    base: Callable[[int], Pass], ours: Callable[[int], Pass], size: int, rounds: int, *, absolute: bool = False
) -> dict[str, Any]:
    """Return the rounds of both ratios, base.wall / ours.wall and ours.cpu / base.cpu, and CPU seconds per GB.

    With `absolute`, the rounds of `cpu` are ours in seconds per GB.
    """
    ours(1)  # excludes one-time costs
    repeats = enough(min(base(1).wall for _ in range(2)))
    pairs = []
    for number in range(rounds):
        turns = (base, ours) if number % 2 else (ours, base)
        took = {turn: turn(repeats) for turn in turns}
        pairs.append((took[base], took[ours]))
    gigabytes = repeats * size / 1e9
    return {
        "seconds_per_pass": round(min(one.wall for pair in pairs for one in pair), 2),
        "wall": {"rounds": [round(one.wall / other.wall, 3) for one, other in pairs]},
        "cpu": {"rounds": [round(other.cpu / (gigabytes if absolute else one.cpu), 3) for one, other in pairs]},
        "base_cpu_s_per_gb": round(statistics.median(one.cpu for one, _ in pairs) / gigabytes, 3),
        "cpu_s_per_gb": round(statistics.median(other.cpu for _, other in pairs) / gigabytes, 3),
    }


def enough(seconds: float) -> int:
    """Return how many repetitions, each of which takes some seconds, take PASS_SECONDS."""
    return math.ceil(1.1 * PASS_SECONDS / seconds)


@contextmanager
def fed(file: Path, path: Path, repeats: int, at: int) -> Iterator[Path]:
    """Create a FIFO to which a process on the core `at` writes the file several times."""
    os.mkfifo(path)
    arguments = [str(file), str(path), str(repeats), str(at)]
    with subprocess.Popen([sys.executable, "-S", "-c", _WRITER, *arguments]) as writer:
        try:
            yield path
        finally:
            writer.wait()
            path.unlink()


def against_own_fifos(readers: Sequence[Reader], file: Path, work: str, rounds: int) -> dict[str, Any]:
    """Compare two readers on one demultiplexed stream with two on a FIFO each with half of the records."""
    halves = [Path(f"{file}_half_{rank}") for rank in range(RANKS)]
    for rank, half in enumerate(halves):
        with tf.io.TFRecordWriter(str(half)) as written:
            for record in tf.data.TFRecordDataset(str(file)).shard(RANKS, rank):
                written.write(record.numpy())

    def both(paths: Sequence[Path]) -> Pass:
        for reader, path in zip(readers, paths, strict=True):
            reader.begin([path], work)
        results = [reader.result() for reader in readers]
        return Pass(wall=max(one.wall for one in results), cpu=sum(one.cpu for one in results))

    def own(repeats: int) -> Pass:
        with contextlib.ExitStack() as stack:
            fifos = [Path(f"{half}_0") for half in halves]
            for rank, (half, fifo) in enumerate(zip(halves, fifos, strict=True)):
                stack.enter_context(fed(half, fifo, repeats, core(RANKS + rank)))
            return both(fifos)

    def shared(repeats: int) -> Pass:
        with demultiplexed(file, RANKS, repeats) as (fifos, process):
            found = both(fifos)
            return Pass(wall=found.wall, cpu=found.cpu + cpu_seconds(process))

    return alternating(own, shared, file.stat().st_size, rounds)


@contextmanager
def demultiplexed(file: Path, ranks: int, repeats: int) -> Iterator[tuple[list[Path], "subprocess.Popen[bytes]"]]:
    """Start a demultiplexer, and a writer of its stream. Yield the ranks' FIFOs, and the process."""
    fifos = [Path(f"{file}.rank{rank}") for rank in range(ranks)]
    for fifo in fifos:
        os.mkfifo(fifo)
    source = Path(f"{file}_0")
    try:
        with fed(file, source, repeats, core(RANKS + 1)):
            command = [str(PROGRAM), "train", str(source), "60", *map(str, fifos)]
            with subprocess.Popen(command, stdin=subprocess.PIPE) as process:
                os.sched_setaffinity(process.pid, {core(RANKS)})
                yield fifos, process
    finally:
        for fifo in fifos:
            fifo.unlink()


def cpu_seconds(process: "subprocess.Popen[bytes]") -> float:
    """Wait for the end of a process. Return the processor seconds that it used.

    Raises:
        RuntimeError: It failed.
    """
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise RuntimeError(f"{process.args!r} has exited with {process.returncode}")
    return usage.ru_utime + usage.ru_stime


def alone(file: Path, ranks: int, rounds: int) -> dict[str, Any]:
    """Return the processor seconds per GB of the demultiplexer, and of dd as the least that any copy takes here.

    `ranks` programs discard the demultiplexer's records, and one program dd's bytes.
    """

    def demultiplexer_only(repeats: int) -> Pass:
        with demultiplexed(file, ranks, repeats) as (fifos, process):
            return discarded(fifos, process)

    def dd_only(repeats: int) -> Pass:
        source, target = Path(f"{file}_0"), Path(f"{file}.copy")
        os.mkfifo(target)
        try:
            with fed(file, source, repeats, core(RANKS + 1)):
                command = ["dd", f"if={source}", f"of={target}", "bs=1M", "status=none"]
                with subprocess.Popen(command) as process:
                    os.sched_setaffinity(process.pid, {core(RANKS)})
                    return discarded([target], process)
        finally:
            target.unlink()

    return {"ranks": ranks, **alternating(dd_only, demultiplexer_only, file.stat().st_size, rounds, absolute=True)}


def discarded(fifos: Sequence[Path], process: "subprocess.Popen[bytes]") -> Pass:
    """Read FIFOs to their end, and return the time and the processor seconds of the process that writes to them."""
    started = time.perf_counter()
    copies = [subprocess.Popen(["/bin/sh", "-c", 'exec cat "$0" > /dev/null', str(fifo)]) for fifo in fifos]
    for number, copy in enumerate(copies):
        os.sched_setaffinity(copy.pid, {core(RANKS + 1 + 2 * number)})  # on two cores, not the writing process's
    cpu = cpu_seconds(process)
    for copy in copies:
        copy.wait()
    return Pass(wall=time.perf_counter() - started, cpu=cpu)
