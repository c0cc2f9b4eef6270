"""Reading a FIFO with the native plugin and with the reader in Python: the same bytes, and the same messages."""

import contextlib
import itertools
import os
import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest
import tensorflow as tf

from tests.support.packages import NATIVE, needs
from training_container.trainer.demux import record_reader
from training_container.trainer.demux.framing import masked_crc

Reader = Callable[..., tf.data.Dataset]
ERRORS = (tf.errors.DataLossError, tf.errors.InvalidArgumentError)
SMALL = (b"hello", b"", b"seven b")


@pytest.fixture(params=[pytest.param("plugin", marks=needs(NATIVE)), "python"])
def read(request: pytest.FixtureRequest) -> Reader:
    """`fifo_records`, with and without the plugin."""
    if request.param == "python":
        return lambda path, timeout_seconds=30.0: record_reader.fifo_records_in_python(
            str(path), "train", tolerate=0, timeout_seconds=timeout_seconds
        )
    return lambda path, timeout_seconds=30.0: record_reader.fifo_records(
        str(path), "train", timeout_seconds=timeout_seconds
    )


def framed(records: Sequence[bytes]) -> bytes:
    parts = []
    for record in records:
        length = len(record).to_bytes(8, "little")
        parts += [length, masked_crc(length).to_bytes(4, "little"), record, masked_crc(record).to_bytes(4, "little")]
    return b"".join(parts)


def fed(path: Path, data: bytes, piece: int = 1 << 20, late: float = 0.0) -> threading.Thread:
    """Create a FIFO, and write to it from a thread, as SageMaker's agent does."""

    def write() -> None:
        time.sleep(late)
        if not path.exists():
            os.mkfifo(path)
        with contextlib.suppress(BrokenPipeError), path.open("wb", buffering=0) as file:
            for start in range(0, len(data), piece):
                file.write(data[start : start + piece])

    if not late:
        os.mkfifo(path)
    writer = threading.Thread(target=write, daemon=True)
    writer.start()
    return writer


def values(records: tf.data.Dataset) -> list[bytes]:
    return [record.numpy() for record in records]


def until_failure(records: tf.data.Dataset) -> tuple[list[bytes], str]:
    """Return the records before the failure, and its message; "" without a failure."""
    got: list[bytes] = []
    try:
        got.extend(record.numpy() for record in records)
    except ERRORS as error:
        return got, str(error)
    return got, ""


@pytest.mark.parametrize("piece", [7, 4096, 1 << 20])
def test_a_valid_stream_is_read_to_its_end(read: Reader, tmp_path: Path, piece: int) -> None:
    random.seed(piece)
    sizes = [0, 1, 11, 12, 13, 1000, 5 * piece]
    records = [random.randbytes(size) for size in random.sample(sizes * 20, 100)]
    writer = fed(tmp_path / "train_0", framed(records), piece)
    assert values(read(tmp_path / "train_0")) == records
    writer.join()


def test_tensorflow_reads_the_same_from_a_file(read: Reader, tmp_path: Path) -> None:
    with tf.io.TFRecordWriter(str(tmp_path / "file")) as file:
        for size in (3, 0, 3 << 20, 100_000):
            file.write(random.randbytes(size) + b"\0")
    fed(tmp_path / "train_0", (tmp_path / "file").read_bytes())
    assert values(read(tmp_path / "train_0")) == values(tf.data.TFRecordDataset(str(tmp_path / "file")))


def test_a_fifo_may_appear_later(read: Reader, tmp_path: Path) -> None:
    fed(tmp_path / "train_0", framed(SMALL), late=0.3)
    assert values(read(tmp_path / "train_0")) == list(SMALL)


def test_a_fifo_of_an_earlier_run_is_replaced_by_the_new_one(read: Reader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train_0")  # it never gets a writer
    fed(tmp_path / "new", framed(SMALL))
    threading.Timer(0.3, (tmp_path / "new").rename, [tmp_path / "train_0"]).start()
    assert values(read(tmp_path / "train_0")) == list(SMALL)


def test_records_are_returned_before_the_stream_continues(read: Reader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train_0")
    proceed, seen = threading.Event(), []

    def write() -> None:
        with (tmp_path / "train_0").open("wb", buffering=0) as file:
            file.write(framed([b"first"]))
            seen.append(proceed.wait(20))
            file.write(framed([b"second"]))

    threading.Thread(target=write, daemon=True).start()
    records = iter(read(tmp_path / "train_0"))
    assert next(records).numpy() == b"first"
    proceed.set()
    assert [record.numpy() for record in records] == [b"second"]
    assert seen == [True]


def test_a_truncation_at_any_byte_is_reported(read: Reader, tmp_path: Path) -> None:
    data = framed(SMALL)
    ends = [0, *itertools.accumulate(len(record) + 16 for record in SMALL)]
    for cut in set(range(len(data))) - set(ends):
        path = tmp_path / f"train_{cut}"
        fed(path, data[:cut])
        got, failure = until_failure(read(path))
        number = sum(end <= cut for end in ends) - 1
        assert got == list(SMALL[:number])
        place = "the header of " if cut - ends[number] < 12 else ""
        assert f"Channel train: {path} was truncated at byte {cut}, inside {place}record {number}," in failure
        assert f"starts at byte {ends[number]}." in failure


def test_a_flipped_bit_in_any_byte_is_reported(read: Reader, tmp_path: Path) -> None:
    data = framed(SMALL)
    ends = [0, *itertools.accumulate(len(record) + 16 for record in SMALL)]
    for place in range(len(data)):
        path = tmp_path / f"train_{place}"
        fed(path, data[:place] + bytes([data[place] ^ 16]) + data[place + 1 :])
        got, failure = until_failure(read(path))
        number = sum(end <= place for end in ends) - 1
        assert got == list(SMALL[:number])
        header = "the header of " if place - ends[number] < 12 else ""
        if not header and "corrupted" in failure:  # by the plugin; TensorFlow checks the data
            assert f"corrupted record at {ends[number] + 12}" in failure
            continue
        assert f"Channel train: {header}record {number} at byte {ends[number]} of {path} is corrupt" in failure


def test_an_empty_stream_is_reported(read: Reader, tmp_path: Path) -> None:
    fed(tmp_path / "train_0", b"")
    assert "Channel train" in (failure := until_failure(read(tmp_path / "train_0"))[1])
    assert "ended without any data" in failure


def test_a_forged_length_is_not_allocated(read: Reader, tmp_path: Path) -> None:
    length = (1 << 40).to_bytes(8, "little")
    fed(tmp_path / "train_0", framed([b"one"]) + length + masked_crc(length).to_bytes(4, "little") + b"data")
    got, failure = until_failure(read(tmp_path / "train_0"))
    assert got == [b"one"]
    assert f"Channel train: record 1 at byte 19 of {tmp_path / 'train_0'} has a length of {1 << 40} bytes" in failure


def test_a_killed_writer_is_reported(read: Reader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train_0")
    program = (
        "import sys, time; sys.stdout.buffer.write(bytes.fromhex(sys.argv[1])); sys.stdout.flush(); time.sleep(99)"
    )
    data = framed([b"whole", bytes(100)])[:70]
    records = iter(read(tmp_path / "train_0"))
    with subprocess.Popen(
        ["/bin/sh", "-c", 'exec "$0" -c "$1" "$2" >"$3"', sys.executable, program, data.hex(), tmp_path / "train_0"]
    ) as writer:
        try:
            assert next(records).numpy() == b"whole"
        finally:
            writer.kill()
    with pytest.raises(ERRORS, match="was truncated at byte 70, inside record 1"):
        next(records)


def test_a_fifo_that_never_appears_is_reported(read: Reader, tmp_path: Path) -> None:
    failure = until_failure(read(tmp_path / "train_0", timeout_seconds=0.2))[1]
    assert f"Channel train: nothing wrote to {tmp_path / 'train_0'} within 0.2 s." in failure


def test_a_fifo_without_a_writer_is_reported(read: Reader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train_0")
    failure = until_failure(read(tmp_path / "train_0", timeout_seconds=0.2))[1]
    assert f"Channel train: nothing wrote to {tmp_path / 'train_0'} within 0.2 s." in failure


def test_a_writer_that_hangs_is_reported(read: Reader, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "train_0")
    silent = threading.Event()

    def write() -> None:
        with (tmp_path / "train_0").open("wb", buffering=0) as file:
            file.write(framed(SMALL)[:-3])
            silent.wait(20)

    writer = threading.Thread(target=write)
    writer.start()
    got, failure = until_failure(read(tmp_path / "train_0", timeout_seconds=0.3))
    silent.set()
    writer.join()
    assert got == list(SMALL[:2])
    assert f"{tmp_path / 'train_0'} provided no data for 0.3 s after byte {len(framed(SMALL)) - 3}." in failure


def test_a_reader_that_stops_early_does_not_block_the_writer(read: Reader, tmp_path: Path) -> None:
    writer = fed(tmp_path / "train_0", framed([bytes(1 << 20)] * 8))
    assert len(values(read(tmp_path / "train_0").take(1))) == 1
    writer.join(20)
    assert not writer.is_alive()


def test_an_error_of_the_demultiplexer_takes_precedence(read: Reader, tmp_path: Path) -> None:
    (tmp_path / "train_0.ending").write_text("Channel train: it was killed.")
    fed(tmp_path / "train_0", framed(SMALL))
    assert "Channel train: it was killed." in until_failure(read(tmp_path / "train_0"))[1]
