import gzip
import itertools
import re
from collections.abc import Sequence
from pathlib import Path

import pytest
import tensorflow as tf

from training_container.trainer.data.record_index import ShardError, indexed, record_starts, store, stored
from training_container.trainer.data.shards import Shard, balanced, check_is_training, files_of, shard


def write(folder: Path, *counts: int) -> tuple[Path, ...]:
    """Write files with these numbers of records; every record contains its file and number."""
    for number, count in enumerate(counts):
        with tf.io.TFRecordWriter(str(folder / f"part-{number:03d}.tfrecord")) as writer:
            for record in range(count):
                writer.write(f"{number:03d}/{record:03d}".encode())
    return files_of(folder, "train")


def contents(share: Shard) -> list[str]:
    dataset = tf.data.TFRecordDataset(tf.constant([str(path) for path in share.files], tf.string))
    return [record.decode() for record in dataset.shard(share.every, share.offset).as_numpy_iterator()]


@pytest.mark.parametrize("by", ["file", "record"])
@pytest.mark.parametrize("ranks", [1, 2, 3, 7])
@pytest.mark.parametrize("counts", [(5, 7, 1, 3), (10,), (2, 2, 2), (1,) * 30])
def test_shares_are_disjoint_and_complete(tmp_path: Path, counts: Sequence[int], ranks: int, by: str) -> None:
    files = write(tmp_path, *counts)
    shares = [shard(files, rank, ranks, by) for rank in range(ranks)]
    read = [contents(share) for share in shares]
    assert sorted(itertools.chain(*read)) == contents(shard(files, 0, 1, by))
    assert [len(records) for records in read] == [share.count() for share in shares]


@pytest.mark.parametrize("end", [".sagemaker-uploading", ".sagemaker-uploaded", ".sagemaker-ignore"])
def test_markers_beside_the_index_of_records_change_nothing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], end: str
) -> None:
    (tmp_path / "data").mkdir()
    index = {path.name: indexed(path) for path in write(tmp_path / "data", 3, 2)}
    cached = tmp_path / "records-train.json"
    store(cached, index)
    cached.with_name(cached.name + end).touch()
    assert stored(cached) == index
    store(cached, index)
    assert stored(cached) == index
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", cached.name, cached.name + end]
    assert capsys.readouterr().out == ""


def test_records_are_assigned_in_turn(tmp_path: Path) -> None:
    files = write(tmp_path, 3, 2)
    assert contents(shard(files, 1, 2, "record")) == ["000/001", "001/000"]


def test_whole_files_are_balanced_by_their_bytes_and_read_in_the_order_of_their_keys() -> None:
    assert balanced([1, 2, 3, 9, 3], 3) == [[3], [1, 2], [0, 4]]


def test_files_are_in_the_order_of_their_s3_keys(tmp_path: Path) -> None:
    keys = ["a-b/x", "a/x", "a0", "é"]
    for key in keys:
        (tmp_path / key).parent.mkdir(exist_ok=True)
        (tmp_path / key).write_bytes(b"x")
    assert [path.relative_to(tmp_path).as_posix() for path in files_of(tmp_path, "train")] == keys


def test_records_are_found_up_to_a_byte(tmp_path: Path) -> None:
    (path,) = write(tmp_path, 3)
    assert list(record_starts(path)) == [0, 23, 46]
    assert list(record_starts(path, 23)) == [0, 23]
    assert list(record_starts(path, first=23)) == [23, 46]


@pytest.mark.parametrize("cut", [1, 5, 20])
def test_a_truncated_file_is_reported(tmp_path: Path, cut: int) -> None:
    (path,) = write(tmp_path, 3)
    path.write_bytes(path.read_bytes()[:-cut])
    with pytest.raises(ShardError, match=re.escape(path.name)):
        indexed(path)


def test_a_file_that_is_not_a_tfrecord_file_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "README.txt"
    path.write_text("These are not the records you are looking for.")
    with pytest.raises(ShardError, match=r"README\.txt is truncated or not a TFRecord file"):
        indexed(path)


def test_a_compressed_file_is_reported(tmp_path: Path) -> None:
    (path,) = write(tmp_path, 3)
    path.write_bytes(gzip.compress(path.read_bytes()))
    with pytest.raises(
        ShardError, match=re.escape(f"{path.name} is compressed with gzip. Rewrite it without compression")
    ):
        indexed(path)


@pytest.mark.parametrize(
    "hidden", ["_temporary/0/task_1/part-0", "b/.snapshot/part-0", ".hoodie/0", "_delta_log/0.json"]
)
def test_files_in_hidden_folders_are_no_data(tmp_path: Path, hidden: str) -> None:
    """Below a channel: /.../_raw may be the folder of the channel, and `_day=3` is the value of a partition."""
    channel = tmp_path / "_raw"
    for name in (hidden, "part-0", "_day=3/part-0"):
        (channel / name).parent.mkdir(parents=True, exist_ok=True)
        (channel / name).write_text("data")
    assert files_of(channel, "train") == (channel / "_day=3" / "part-0", channel / "part-0")


def test_a_channel_without_files_is_reported(tmp_path: Path) -> None:
    (tmp_path / "_SUCCESS").write_text("done")
    (tmp_path / "folder-marker").touch()
    with pytest.raises(ShardError, match="Channel validation has no files"):
        files_of(tmp_path, "validation")


def test_a_channel_with_training_and_validation_files_is_refused(tmp_path: Path) -> None:
    for name in ("train-00000-of-00001", "validation-00000-of-00001", "dataset.json"):
        (tmp_path / name).write_text("data")
    files = files_of(tmp_path, "train")
    assert [path.name for path in files] == ["train-00000-of-00001", "validation-00000-of-00001"]
    with pytest.raises(ShardError, match="such as train-00000-of-00001 and validation-00000-of-00001"):
        check_is_training(files, tmp_path)


@pytest.mark.parametrize(
    "names", [["Train/1/a.jpg", "Val/1/a.jpg"], ["train2017/a", "test_2017/a"], ["validation_1", "train.1"]]
)
def test_folders_for_training_and_another_purpose_are_refused(tmp_path: Path, names: list[str]) -> None:
    with pytest.raises(ShardError, match="two kinds"):
        check_is_training([tmp_path / name for name in names], tmp_path)


@pytest.mark.parametrize(
    "names", [["train-0", "train-1"], ["part-0", "validation-0"], ["train/a", "valley/a", "testing/a", "test_tube/a"]]
)
def test_files_of_one_kind_and_of_classes_are_training_data(tmp_path: Path, names: list[str]) -> None:
    check_is_training([tmp_path / name for name in names], tmp_path)
