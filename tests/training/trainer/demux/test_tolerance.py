"""Corrupt records that a job may skip: their number and kind, and the count of skipped records."""

import os
import threading
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.trainer.demux.test_record_reader import framed, values
from training_container.trainer.demux import record_reader
from training_container.trainer.demux.framing import corrupt_records_seen

RECORDS = [b"zero", b"one", b"two", b"three", b"four"]


def damaged(*numbers: int) -> bytes:
    """Return framed records; in those with these numbers, a bit of the data is flipped."""
    parts = [bytearray(framed([record])) for record in RECORDS]
    for number in numbers:
        parts[number][12] ^= 1
    return b"".join(parts)


def stream(path: Path, data: bytes) -> str:
    os.mkfifo(path)
    threading.Thread(target=path.write_bytes, args=(data,), daemon=True).start()
    return str(path)


def test_as_many_corrupt_records_as_allowed_are_skipped_and_counted(tmp_path: Path) -> None:
    before = corrupt_records_seen()
    path = stream(tmp_path / "train_0", damaged(1, 3))
    assert values(record_reader.fifo_records(path, "train", tolerate=2)) == [b"zero", b"two", b"four"]
    assert corrupt_records_seen() - before == 2


def test_one_corrupt_record_more_than_allowed_fails(tmp_path: Path) -> None:
    path = stream(tmp_path / "train_0", damaged(1, 3))
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"record 3 at byte 58 .* is corrupt"):
        values(record_reader.fifo_records(path, "train", tolerate=1))


def test_a_corrupt_length_always_fails(tmp_path: Path) -> None:
    data = bytearray(framed(RECORDS))
    data[0] ^= 1
    with pytest.raises(tf.errors.InvalidArgumentError, match="the header of record 0 at byte 0"):
        values(record_reader.fifo_records(stream(tmp_path / "train_0", bytes(data)), "train", tolerate=9))


def test_the_limit_applies_to_all_files_of_each_epoch(tmp_path: Path) -> None:
    files = []
    for name, data in (("a", damaged(0)), ("b", b""), ("c", damaged(4))):
        (tmp_path / name).write_bytes(data)
        files.append(record_reader.FilePart(str(tmp_path / name)))
    records = record_reader.file_records(files, "train", tolerate=2)
    assert values(records) == values(records) == RECORDS[1:] + RECORDS[:4]
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"record 4 at byte 79 of {tmp_path}/c is corrupt"):
        values(record_reader.file_records(files, "train", tolerate=1))


def test_a_truncated_file_fails(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(framed(RECORDS)[:-1])
    with pytest.raises(tf.errors.InvalidArgumentError, match=f"Channel train: {tmp_path}/a was truncated at byte 98"):
        values(record_reader.file_records([record_reader.FilePart(str(tmp_path / "a"))], "train", tolerate=1))


def test_a_part_of_a_file_is_read_with_the_numbers_of_its_records(tmp_path: Path) -> None:
    (tmp_path / "a").write_bytes(damaged(0, 2, 4))
    part = record_reader.FilePart(str(tmp_path / "a"), 1, len(framed(RECORDS[:1])), len(framed(RECORDS[:4])))
    assert values(record_reader.file_records([part], "train", tolerate=1)) == [b"one", b"three"]
    with pytest.raises(tf.errors.InvalidArgumentError, match=r"record 2 at byte 39 of .* is corrupt"):
        values(record_reader.file_records([part], "train", tolerate=0))
