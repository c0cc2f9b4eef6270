"""One rank's records of a channel. The rank's position is simulated, so that no second process is needed."""

import dataclasses
import itertools
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.streams import feed
from training_container.contract.training_job import Folders
from training_container.trainer.data import channels, record_index
from training_container.trainer.data.channels import ChannelError, RankPosition, ReadOptions
from training_container.trainer.data.record_datasets import is_mounted

IN_ORDER = ReadOptions(shuffle_files=False, shuffle_records=0)
Job = Callable[[Mapping[str, Mapping[str, str]]], Folders]


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job with these channel settings. The files of `train` are part-0 to part-3, with two records each."""

    def write(settings: Mapping[str, Mapping[str, str]]) -> Folders:
        folders = Folders(base=tmp_path)
        folders.config.mkdir(parents=True)
        (folders.config / "inputdataconfig.json").write_text(json.dumps(settings))
        (folders.data / "train").mkdir(parents=True)
        for number in range(4):
            write_records(folders.data / "train" / f"part-{number}", f"{number}a", f"{number}b")
        return folders

    return write


def write_records(path: Path, *records: str) -> Path:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record.encode())
    return path


def place(rank: int, size: int, local_rank: int | None = None, local_size: int | None = None) -> RankPosition:
    return RankPosition(
        rank=rank,
        size=size,
        local_rank=rank if local_rank is None else local_rank,
        local_size=local_size or size,
    )


def read(channel: channels.Channel, epoch: int = 0) -> list[str]:
    return [record.decode() for record in channel.records(epoch).as_numpy_iterator()]


def test_copied_and_mounted_channels_are_read_as_files(job: Job) -> None:
    train = channels.open("train", cluster=place(1, 2), folders=job({"train": {}}), reading=IN_ORDER)
    assert (train.name, train.mode, train.streams, train.count) == ("train", "File", None, 4)
    assert read(train) == ["2a", "2b", "3a", "3b"]


def test_files_are_shared_by_all_ranks_or_by_the_ranks_of_their_host(job: Job) -> None:
    folders = job({"train": {"S3DistributionType": "ShardedByS3Key"}})
    # Rank 3 is the second rank of the second host.
    train = channels.open("train", cluster=place(3, 4, 1, 2), folders=folders, reading=IN_ORDER)
    assert read(train) == ["2a", "2b", "3a", "3b"]
    (folders.config / "inputdataconfig.json").write_text('{"train": {"S3DistributionType": "FullyReplicated"}}')
    train = channels.open("train", cluster=place(3, 4, 1, 2), folders=folders, reading=IN_ORDER)
    assert read(train) == ["3a", "3b"]


@pytest.mark.parametrize("inner", ["", "part"])
def test_a_folder_inside_a_channel_is_sharded_like_the_channel(job: Job, tmp_path: Path, inner: str) -> None:
    folders = job({"validation": {}, "train": {"S3DistributionType": "ShardedByS3Key"}})
    own, elsewhere = folders.data / "train" / inner, tmp_path / "elsewhere"
    for folder in (own, elsewhere):
        folder.mkdir(exist_ok=True)
        for number in range(4):
            write_records(folder / f"part-{number}", f"{number}a", f"{number}b")

    def opened(folder: Path) -> channels.Channel:
        return channels.open("train", cluster=place(3, 4, 1, 2), folders=folders, folder=folder, reading=IN_ORDER)

    assert read(opened(own)) == ["2a", "2b", "3a", "3b"]  # every host has different files
    assert read(opened(elsewhere)) == ["3a", "3b"]


def test_each_epoch_is_shuffled_differently_and_reproducibly(job: Job) -> None:
    folders = job({"train": {}})

    def opened(seed: int = 0) -> channels.Channel:
        return channels.open("train", cluster=place(0, 1), folders=folders, reading=ReadOptions(seed=seed))

    assert read(opened(), 3) == read(opened(), 3)
    assert sorted(read(opened(), 3)) == sorted(read(opened(), 4))
    assert len({tuple(read(opened(seed), epoch)) for seed in (0, 1) for epoch in (3, 4)}) == 4


@pytest.mark.parametrize("tolerate", [0, 1])
@pytest.mark.parametrize("size", [3, 5])
@pytest.mark.parametrize("by", ["auto", "file", "record"])
def test_ranks_read_each_record_once_in_every_epoch(job: Job, by: str, size: int, tolerate: int) -> None:
    folders = job({"train": {}})
    reading = ReadOptions(shard_by=by, tolerate=tolerate, parallel_reads=2)
    ranks = [
        channels.open("train", cluster=place(rank, size), folders=folders, reading=reading) for rank in range(size)
    ]
    if by == "auto":
        assert max(rank.count for rank in ranks) - min(rank.count for rank in ranks) <= 1
    for epoch in (0, 5):
        shares = [read(rank, epoch) for rank in ranks]
        assert sorted(itertools.chain(*shares)) == [f"{number}{letter}" for number in range(4) for letter in "ab"]
        assert [len(share) for share in shares] == [rank.count for rank in ranks]


def test_several_files_are_read_at_once_in_a_fixed_order(job: Job) -> None:
    reading = ReadOptions(shuffle_files=False, shuffle_records=0, parallel_reads=2)
    train = channels.open("train", cluster=place(0, 1), folders=job({"train": {}}), reading=reading)
    assert read(train) == ["0a", "1a", "0b", "1b", "2a", "3a", "2b", "3b"]


def test_a_rank_has_other_records_in_each_epoch_unless_files_keep_their_order(job: Job) -> None:
    folders = job({"train": {}})

    def shares(*, shuffled: bool) -> set[tuple[str, ...]]:
        reading = ReadOptions(shuffle_files=shuffled)
        train = channels.open("train", cluster=place(1, 3), folders=folders, reading=reading)
        return {tuple(sorted(read(train, epoch))) for epoch in range(6)}

    assert len(shares(shuffled=True)) > 2
    assert len(shares(shuffled=False)) == 1


def test_ranks_read_other_records_of_a_single_file_in_each_epoch(job: Job, tmp_path: Path) -> None:
    folders = job({"train": {}})
    (tmp_path / "one").mkdir()
    write_records(tmp_path / "one" / "part", *"abcdefghijk")

    def shares(epoch: int) -> list[frozenset[str]]:
        ranks = [
            channels.open("train", cluster=place(rank, 3), folders=folders, folder=tmp_path / "one")
            for rank in range(3)
        ]
        return [frozenset(read(rank, epoch)) for rank in ranks]

    epochs = [shares(epoch) for epoch in range(6)]
    assert len({first for first, _, _ in epochs}) > 2
    assert all(sorted(map(len, epoch)) == [3, 4, 4] and len(frozenset.union(*epoch)) == 11 for epoch in epochs)


def test_a_record_in_the_middle_of_a_file_is_named_by_its_number_in_the_file(job: Job, tmp_path: Path) -> None:
    folders = job({"train": {}})
    (tmp_path / "one").mkdir()
    one = write_records(tmp_path / "one" / "part", *"abcdefg")
    train = channels.open("train", cluster=place(1, 2), folders=folders, folder=tmp_path / "one", reading=IN_ORDER)
    assert read(train) == ["d", "e", "f", "g"]
    origins = [(path.decode(), number) for _, path, number in train.origins(0).as_numpy_iterator()]
    assert origins == [(str(one), number) for number in (3, 4, 5, 6)]


def test_fast_file_mode_reads_several_files_at_once_by_default(job: Job) -> None:
    folders = job({"train": {"TrainingInputMode": "FastFile"}})
    train = channels.open("train", cluster=place(0, 1), folders=folders, reading=IN_ORDER)
    assert read(train) == ["0a", "1a", "2a", "3a", "0b", "1b", "2b", "3b"]
    alone = dataclasses.replace(IN_ORDER, parallel_reads=1)
    assert read(channels.open("train", cluster=place(0, 1), folders=folders, reading=alone))[:2] == ["0a", "0b"]


@pytest.mark.parametrize(("kind", "mounted"), [("fuse.fastfile", True), ("fuse", True), ("ext4", False)])
def test_a_folder_below_a_mount_of_fuse_is_recognized(tmp_path: Path, kind: str, mounted: bool) -> None:
    table = tmp_path / "mountinfo"
    lines = [
        "22 1 8:1 / / rw,relatime - overlay overlay rw",
        f"40 22 0:50 / {tmp_path}/data/train rw,nosuid shared:7 - {kind} source rw,user_id=0",
    ]
    table.write_text("\n".join(lines) + "\n")
    assert is_mounted(tmp_path / "data" / "train", table) is mounted
    assert not is_mounted(tmp_path / "data", table)
    assert not is_mounted(tmp_path, tmp_path / "nowhere")


def test_counts_with_the_data_or_beside_the_checkpoints_are_used(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    folders = job({"train": {}})
    train = channels.open("train", cluster=place(1, 2), folders=folders, reading=IN_ORDER)
    expected = read(train)
    monkeypatch.setattr(record_index, "indexed", None)  # headers are not read again
    for path in (folders.data / "train" / "_records.json", folders.checkpoints / "records-train.json"):
        path.parent.mkdir(exist_ok=True)
        record_index.store(path, train.index)
        assert read(channels.open("train", cluster=place(1, 2), folders=folders, reading=IN_ORDER)) == expected
        path.unlink()


def test_an_index_of_other_files_is_detected_where_a_rank_begins(job: Job, tmp_path: Path) -> None:
    folders = job({"train": {}})
    (tmp_path / "one").mkdir()
    one = write_records(tmp_path / "one" / "part", *"abcdefgh")  # 17 bytes each
    wrong = {"size": one.stat().st_size, "records": 8, "starts": [16 * number for number in range(8)]}
    (tmp_path / "one" / "_records.json").write_text(json.dumps({"version": 1, "files": {"part": wrong}}))
    train = channels.open("train", cluster=place(1, 2), folders=folders, folder=tmp_path / "one", reading=IN_ORDER)
    with pytest.raises(tf.errors.DataLossError, match="corrupted record at 64"):
        read(train)


def test_a_rank_with_its_own_stream_reads_the_next_fifo_each_time(job: Job, tmp_path: Path) -> None:
    folders = job({"train_0": {"TrainingInputMode": "Pipe"}, "train_1": {"TrainingInputMode": "Pipe"}})
    contents = [write_records(tmp_path / f"epoch-{epoch}", f"epoch {epoch}").read_bytes() for epoch in range(2)]
    threading.Thread(target=feed, args=(folders.data, "train_1", contents), daemon=True).start()
    train = channels.open("train", cluster=place(1, 2), folders=folders)
    assert (train.name, train.mode, train.streams, train.count) == ("train", "Pipe", "rank", None)
    # As in a training that is resumed in epoch 7: SageMaker restarts the numbers of streams at 0.
    assert [read(train, epoch) for epoch in (7, 8)] == [["epoch 0"], ["epoch 1"]]


def test_a_stream_of_the_host_is_read_by_its_only_rank(job: Job, tmp_path: Path) -> None:
    folders = job({"train": {"TrainingInputMode": "Pipe", "S3DistributionType": "ShardedByS3Key"}})
    content = write_records(tmp_path / "object", "a", "b").read_bytes()
    threading.Thread(target=feed, args=(folders.data, "train", [content]), daemon=True).start()
    train = channels.open("train", cluster=place(1, 2, 0, 1), folders=folders, reading=IN_ORDER)
    assert train.streams == "host"
    assert read(train) == ["a", "b"]


@pytest.mark.parametrize(
    ("settings", "ranks", "words"),
    [
        (
            {"training": {}, "test": {}},
            place(0, 1),
            r"Channel train does not exist \(the job's channels: test, training\)",
        ),
        (
            {f"train_{rank}": {"TrainingInputMode": "Pipe"} for rank in range(2)},
            place(0, 4),
            r"2 rank\(s\) \(train_0, train_1\), but there are 4 ranks.*streams: host",
        ),
        (
            {"train": {"TrainingInputMode": "Pipe", "S3DistributionType": "FullyReplicated"}},
            place(0, 4, 0, 2),
            "to 2 hosts in full.*ShardedByS3Key",
        ),
    ],
)
def test_a_channel_that_these_ranks_cannot_read_is_explained(
    job: Job, settings: Mapping[str, Mapping[str, str]], ranks: RankPosition, words: str
) -> None:
    with pytest.raises(ChannelError, match=words):
        channels.open("train", cluster=ranks, folders=job(settings))
