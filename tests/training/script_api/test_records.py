"""A channel as the records, files or stream of a rank, without TensorFlow."""

import json
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.training.streams import feed
from training_container.contract.training_job import Folders
from training_container.script_api import records
from training_container.script_api.ranks import Ranks
from training_container.trainer.data.channels import ChannelError, ReadOptions
from training_container.trainer.demux.framing import StreamError, masked_crc

UNSHUFFLED = ReadOptions(shuffle_files=False, shuffle_records=0)


def framed(*contents: bytes) -> bytes:
    """Return TFRecords."""
    parts = []
    for content in contents:
        length = len(content).to_bytes(8, "little")
        parts += [length, masked_crc(length).to_bytes(4, "little"), content, masked_crc(content).to_bytes(4, "little")]
    return b"".join(parts)


@pytest.fixture
def folders(tmp_path: Path) -> Callable[..., Folders]:
    """A function that declares a job's channels with their settings."""

    def make(**channels: dict[str, str]) -> Folders:
        found = Folders(base=tmp_path)
        found.config.mkdir(parents=True)
        found.data.mkdir(parents=True)
        (found.config / "inputdataconfig.json").write_text(json.dumps(channels))
        return found

    return make


def write(folders: Folders, files: dict[str, bytes], channel: str = "train") -> None:
    for name, content in files.items():
        path = folders.data / channel / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)


def place(folders: Folders, rank: int = 0, size: int = 1, local_size: int = 1) -> Ranks:
    return Ranks(rank=rank, size=size, local_rank=rank % local_size, local_size=local_size, folders=folders)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(("files", "by"), [(1, "auto"), (3, "auto"), (1, "record"), (3, "record"), (4, "file")])
def test_ranks_and_their_workers_together_read_every_record_once(
    folders: Callable[..., Folders], files: int, by: str, workers: int
) -> None:
    job = folders(train={})
    write(job, {f"{file}": framed(*(b"%d-%d" % (file, record) for record in range(6))) for file in range(files)})
    reading = ReadOptions(shard_by=by)
    shares = [records.open("train", place=place(job, rank, 2), reading=reading) for rank in (0, 1)]
    found = [[one for worker in range(workers) for one in share.records(3, worker, workers)] for share in shares]
    assert [len(one) for one in found] == [share.count for share in shares] == [3 * files, 3 * files]
    assert sorted(found[0] + found[1]) == sorted(b"%d-%d" % (a, b) for a in range(files) for b in range(6))
    assert [set(one) for one in found] == [set(share.records(3)) for share in shares]


def test_a_worker_reads_no_records_of_another(folders: Callable[..., Folders]) -> None:
    job = folders(train={})
    write(job, {"a": framed(b"one", b"two", b"three", b"four").replace(b"three", b"thsee")})
    train = records.open("train", place=place(job), reading=UNSHUFFLED)
    assert list(train.records(0, 0, 2)) == [b"one", b"two"]
    with pytest.raises(StreamError, match="is corrupt"):
        list(train.records(0, 1, 2))


def test_up_to_the_allowed_number_of_corrupt_records_is_skipped(folders: Callable[..., Folders]) -> None:
    job = folders(train={})
    write(job, {name: framed(b"good", b"bad").replace(b"bad", b"bed") for name in "ab"})
    reading = ReadOptions(tolerate=2)
    assert list(records.open("train", place=place(job), reading=reading).records(0)) == [b"good", b"good"]
    with pytest.raises(StreamError, match="is corrupt"):
        list(records.open("train", place=place(job), reading=ReadOptions(tolerate=1)).records(0))


def test_an_epochs_order_depends_on_the_epoch_only(folders: Callable[..., Folders]) -> None:
    job = folders(train={})
    write(job, {"a": framed(*(bytes([value]) for value in range(50)))})
    share = records.open("train", place=place(job), reading=ReadOptions(shuffle_records=16))
    first = list(share.records(0))
    assert first == list(share.records(0))
    assert sorted(first) == sorted(share.records(1))
    assert first != list(share.records(1))


def test_a_rank_has_other_records_of_a_single_file_in_each_epoch(folders: Callable[..., Folders]) -> None:
    job = folders(train={})
    write(job, {"a": framed(*(bytes([value]) for value in range(50)))})
    share = records.open("train", place=place(job, 0, 2))
    assert len({frozenset(share.records(epoch)) for epoch in range(5)}) > 1


def test_a_host_with_its_own_files_shares_them_among_its_ranks(folders: Callable[..., Folders]) -> None:
    job = folders(train={"S3DistributionType": "ShardedByS3Key"})
    write(job, {"a": framed(b"1"), "b": framed(b"2")})
    found = [records.open("train", place=place(job, rank, 4, 2), reading=UNSHUFFLED) for rank in (2, 3)]
    assert [list(share.records(0)) for share in found] == [[b"1"], [b"2"]]
    assert records.files("train", place=place(job, 3, 4, 2)) == [job.data / "train" / "b"]


def test_a_corrupt_record_is_named_with_its_channel_and_file(folders: Callable[..., Folders]) -> None:
    job = folders(train={})
    write(job, {"a": framed(b"good", b"bad").replace(b"bad", b"bed")})
    with pytest.raises(StreamError, match=r"Channel train: record 1 at byte 20 of .*train/a is corrupt"):
        list(records.open("train", place=place(job)).records(0))


def test_each_epoch_reads_the_next_stream(folders: Callable[..., Folders]) -> None:
    job = folders(train={"TrainingInputMode": "Pipe"})
    contents = (framed(b"1", b"2"), framed(b"3"))
    threading.Thread(target=feed, args=(job.data, "train", contents), daemon=True).start()
    share = records.open("train", place=place(job), reading=UNSHUFFLED)
    assert share.count is None
    assert [list(share.records(0)), list(share.records(1))] == [[b"1", b"2"], [b"3"]]


def test_a_rank_reads_its_own_stream_and_other_formats_as_bytes(folders: Callable[..., Folders]) -> None:
    job = folders(text_0={"TrainingInputMode": "Pipe"}, text_1={"TrainingInputMode": "Pipe"})
    threading.Thread(target=feed, args=(job.data, "text_1", (b"a,b\n1,2\n",)), daemon=True).start()
    assert b"".join(records.stream("text", 0, place=place(job, 1, 2))) == b"a,b\n1,2\n"


@pytest.mark.parametrize(
    ("settings", "size", "local_size", "words"),
    [
        ({"other": {}}, 1, 1, "Channel train does not exist"),
        ({"train": {"TrainingInputMode": "Pipe", "RecordWrapperType": "RecordIO"}}, 1, 1, "streamed as RecordIO"),
        (
            {"train": {"TrainingInputMode": "Pipe", "ContentType": "application/x-recordio"}},
            1,
            1,
            "streamed as RecordIO",
        ),
        ({"train": {"TrainingInputMode": "Pipe"}}, 2, 1, "is streamed to 2 hosts in full"),
        ({"train_0": {"TrainingInputMode": "Pipe"}}, 2, 2, "but there are 2 ranks"),
    ],
)
def test_a_channel_that_the_ranks_cannot_read_is_refused(
    folders: Callable[..., Folders], settings: dict[str, dict[str, str]], size: int, local_size: int, words: str
) -> None:
    with pytest.raises(ChannelError, match=words):
        records.open("train", place=place(folders(**settings), 0, size, local_size))


def test_a_stream_has_no_files_and_several_ranks_cannot_read_its_bytes(folders: Callable[..., Folders]) -> None:
    job = folders(train={"TrainingInputMode": "Pipe"})
    with pytest.raises(ChannelError, match="is a stream"):
        records.files("train", place=place(job))
    with pytest.raises(ChannelError, match="one stream for the 2 ranks"):
        records.stream("train", 0, place=place(job, 0, 2, 2))
