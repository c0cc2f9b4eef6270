import itertools
import re
from pathlib import Path

import pytest
import tensorflow as tf

from training_container.trainer.shards import ShardError, record_count, shard, tfrecord_files


def write(folder: Path, *counts: int) -> tuple[Path, ...]:
    """Write files of so many records; every record says which file and record it is."""
    for number, count in enumerate(counts):
        with tf.io.TFRecordWriter(str(folder / f"part-{number:03d}.tfrecord")) as writer:
            for record in range(count):
                writer.write(f"{number}/{record}".encode())
    return tfrecord_files(folder)


def contents(files: tuple[Path, ...], every: int, offset: int) -> list[str]:
    dataset = tf.data.TFRecordDataset([str(path) for path in files]).shard(every, offset)
    return [record.decode() for record in dataset.as_numpy_iterator()]


@pytest.mark.parametrize("ranks", [1, 2, 3, 4, 7])
@pytest.mark.parametrize("counts", [(5, 7, 1, 3), (10,), (2, 2, 2), (1,) * 30])
def test_shards_are_disjoint_and_complete(tmp_path: Path, counts: tuple[int, ...], ranks: int) -> None:
    files = write(tmp_path, *counts)
    parts = [shard(files, rank, ranks) for rank in range(ranks)]
    read = [contents(part.files, part.every, part.offset) for part in parts]
    assert sorted(itertools.chain(*read)) == sorted(contents(files, 1, 0))
    assert [len(records) for records in read] == [part.records for part in parts]


def test_enough_files_are_shared_out_whole(tmp_path: Path) -> None:
    parts = [shard(write(tmp_path, 2, 2, 2, 2), rank, 2) for rank in range(2)]
    assert [len(part.files) for part in parts] == [2, 2]


def test_too_few_files_are_shared_out_by_record(tmp_path: Path) -> None:
    parts = [shard(write(tmp_path, 6, 6, 6), rank, 2) for rank in range(2)]
    assert [part.records for part in parts] == [9, 9]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_cut_file_is_named(tmp_path: Path, cut: int) -> None:
    (path,) = write(tmp_path, 3)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ShardError, match=re.escape(path.name)):
        record_count(path)


def test_what_is_no_tfrecord_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "README.txt"
    path.write_text("These are not the records you are looking for.")
    with pytest.raises(ShardError, match=r"README\.txt is cut off or is no TFRecord file"):
        record_count(path)


def test_a_channel_without_files_is_named(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").touch()
    (tmp_path / "folder-marker").touch()
    with pytest.raises(ShardError, match="has no files"):
        tfrecord_files(tmp_path)
