"""One rank's records of a channel. The rank's position is simulated, so that no second process is needed."""

import itertools
import json
import threading
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.streams import feed
from training_container.contract.training_job import Folders
from training_container.trainer.data import channels
from training_container.trainer.data.channels import ChannelError, Ranks
from training_container.trainer.data.read_options import ReadOptions

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


def place(rank: int, size: int, local_rank: int | None = None, local_size: int | None = None) -> Ranks:
    return Ranks(
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
    assert read(train) == ["1a", "1b", "3a", "3b"]


def test_files_are_shared_by_all_ranks_or_by_the_ranks_of_their_host(job: Job) -> None:
    folders = job({"train": {"S3DistributionType": "ShardedByS3Key"}})
    # Rank 3 is the second rank of the second host.
    train = channels.open("train", cluster=place(3, 4, 1, 2), folders=folders, reading=IN_ORDER)
    assert read(train) == ["1a", "1b", "3a", "3b"]
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

    assert read(opened(own)) == ["1a", "1b", "3a", "3b"]  # every host has different files
    assert read(opened(elsewhere)) == ["3a", "3b"]


def test_each_epoch_is_shuffled_differently_and_reproducibly(job: Job) -> None:
    folders = job({"train": {}})

    def opened(seed: int = 0) -> channels.Channel:
        return channels.open("train", cluster=place(0, 1), folders=folders, reading=ReadOptions(seed=seed))

    assert read(opened(), 3) == read(opened(), 3)
    assert sorted(read(opened(), 3)) == sorted(read(opened(), 4))
    assert len({tuple(read(opened(seed), epoch)) for seed in (0, 1) for epoch in (3, 4)}) == 4


@pytest.mark.parametrize("by", ["file", "record"])
def test_ranks_read_each_record_once_in_every_epoch(job: Job, by: str) -> None:
    folders = job({"train": {}})
    ranks = [
        channels.open("train", cluster=place(rank, 3), folders=folders, reading=ReadOptions(shard_by=by))
        for rank in range(3)
    ]
    for epoch in (0, 5):
        shares = [read(rank, epoch) for rank in ranks]
        assert sorted(itertools.chain(*shares)) == [f"{number}{letter}" for number in range(4) for letter in "ab"]
        assert [len(share) for share in shares] == [rank.count for rank in ranks]


def test_several_files_are_read_at_once_in_a_fixed_order(job: Job) -> None:
    reading = ReadOptions(shuffle_files=False, shuffle_records=0, parallel_reads=2)
    train = channels.open("train", cluster=place(0, 1), folders=job({"train": {}}), reading=reading)
    assert read(train) == ["0a", "1a", "0b", "1b", "2a", "3a", "2b", "3b"]


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
        (
            {"train": {"TrainingInputMode": "Pipe", "RecordWrapperType": "RecordIO"}},
            place(0, 1),
            "RecordWrapperType RecordIO.*None",
        ),
    ],
)
def test_a_channel_that_these_ranks_cannot_read_is_explained(
    job: Job, settings: Mapping[str, Mapping[str, str]], ranks: Ranks, words: str
) -> None:
    with pytest.raises(ChannelError, match=words):
        channels.open("train", cluster=ranks, folders=job(settings))
