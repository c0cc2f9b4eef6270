"""Records: a channel as this rank's records, files or stream, without TensorFlow.

Example:
    from trainer import records

    train = records.open("train")               # TFRecord files, or a stream of their records
    for epoch in range(10):
        for record in train.records(epoch): ... # bytes

    mine = records.files("train")               # any files: this rank's share of their paths

A rank reads the same records as with `trainer.channels` in the same input mode, in an order that depends on seed, epoch
and rank. Every byte is verified by the records' checksums.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from training_container.contract.training_job import Folders
from training_container.script_api.ranks import Ranks, current
from training_container.trainer.data.declared_channels import declared, is_a_part, streams_of
from training_container.trainer.data.read_options import ChannelError, ReadOptions
from training_container.trainer.data.shards import Shard, files_of, shard
from training_container.trainer.demux import demultiplexer
from training_container.trainer.demux.framing import Splitter, StreamError
from training_container.trainer.demux.record_reader import blocks, ending

__all__ = ["ChannelError", "ReadOptions", "Records", "files", "open", "stream"]


@dataclass(kw_only=True)
class Records:
    """This rank's share of a channel.

    Attributes:
        name: The channel's name.
        place: The position of this rank.
        reading: The options for shuffling and sharding.
        shard: This rank's files, and the selection of its records in them; None for a stream.
        stream: The channel whose FIFOs provide the stream; empty for files.
    """

    name: str
    place: Ranks
    reading: ReadOptions
    shard: Shard | None = None
    stream: str = ""
    _opened: int = field(default=0, init=False)

    @property
    def count(self) -> int | None:
        """The number of records in this rank's share; None for streams, whose length is known only at their end."""
        return None if self.shard is None else self.shard.count()

    def records(self, epoch: int) -> Iterator[bytes]:
        """Yield this rank's records of an epoch. For a stream, every call reads the next one.

        Raises:
            StreamError: A file or stream is truncated or corrupt, or the stream timed out.
        """
        found = self._of_stream() if self.shard is None else self._of_files(self.shard, epoch)
        return _shuffled(found, self.reading.shuffle_records, f"{self.reading.seed}/{epoch}/{self.place.rank}")

    def _of_files(self, share: Shard, epoch: int) -> Iterator[bytes]:
        paths = list(share.files)
        if self.reading.shuffle_files:
            # The seed does not depend on the rank: by record, all ranks must read the files in the same order.
            random.Random(f"{self.reading.seed}/{epoch}").shuffle(paths)  # noqa: S311  # no secret depends on it
        every = (record for path in paths for record in self._read(str(path), 0.0))
        return islice(every, share.offset, None, share.every)

    def _of_stream(self) -> Iterator[bytes]:
        number, self._opened = self._opened, self._opened + 1
        path, timeout = str(self.place.folders.data / f"{self.stream}_{number}"), self.reading.timeout_seconds
        if self.stream == self.name:
            place = self.place
            path = demultiplexer.rank_fifo(
                place.folders.data, self.stream, number, place.local_rank, place.local_size, timeout_seconds=timeout
            )
        return self._read(path, timeout)

    def _read(self, path: str, timeout_seconds: float) -> Iterator[bytes]:
        splitter = Splitter(self.name, path, tolerate=self.reading.tolerate)
        for block in blocks(path, self.name, timeout_seconds):
            yield from splitter.feed(block)
        failure = ending(path)
        if self.shard is None and failure.exists() and (text := failure.read_text()):
            raise StreamError(text)
        splitter.finish()


def open(name: str, *, reading: ReadOptions | None = None, place: Ranks | None = None) -> Records:  # noqa: A001  # records.open
    """Return this rank's share of a channel of TFRecords in any input mode.

    Args:
        name: The channel's name. `train` also represents the channels train_0, train_1, ... with one stream per rank.
        reading: The options for shuffling and sharding.
        place: The position of this rank; from the launcher's variables by default.

    Raises:
        ChannelError: The channel does not exist, or cannot be read by this number of ranks.
        ShardError: The channel has no files.
    """
    place, reading = place or current(), reading or ReadOptions()
    channels = declared(place.folders)
    if name not in channels and (streams := streams_of(name, channels)):
        return Records(name=name, place=place, reading=reading, stream=_own_stream(name, streams, place))
    settings = _settings(name, place.folders)
    part = is_a_part(settings, place)
    if settings.get("TrainingInputMode", "File") == "Pipe":
        if place.size > place.local_size and not part:
            raise ChannelError(
                f"Channel {name} is streamed to {place.size // place.local_size} hosts in full (S3DistributionType "
                "FullyReplicated), so every host would train on all records. Set it to ShardedByS3Key."
            )
        return Records(name=name, place=place, reading=reading, stream=name)
    among = (place.local_rank, place.local_size) if part else (place.rank, place.size)
    share = shard(files_of(place.folders.data / name, name), *among, by=reading.shard_by)
    return Records(name=name, place=place, reading=reading, shard=share)


def files(name: str, *, place: Ranks | None = None) -> list[Path]:
    """Return this rank's share of a channel's files of any format: every n-th in the order of their S3 keys.

    Raises:
        ChannelError: The channel does not exist, or is a stream.
        ShardError: The channel has no files.
    """
    place = place or current()
    settings = _settings(name, place.folders)
    if settings.get("TrainingInputMode", "File") == "Pipe":
        raise ChannelError(f"Channel {name} is a stream. Read it with stream(), or set its input mode to FastFile.")
    found = files_of(place.folders.data / name, name)
    if is_a_part(settings, place):
        return list(found[place.local_rank :: place.local_size])
    return list(found[place.rank :: place.size])


def stream(name: str, number: int, *, place: Ranks | None = None, timeout_seconds: float = 600.0) -> Iterator[bytes]:
    """Yield the bytes of the stream that this rank reads alone, for data in other formats than TFRecords.

    Args:
        name: The channel's name.
        number: The number of the stream since the start of this container, from 0: SageMaker repeats it.
        place: The position of this rank; from the launcher's variables by default.
        timeout_seconds: The maximum time until the stream begins, and the maximum time without data.

    Raises:
        ChannelError: The channel does not exist, or several ranks of this host would read one stream.
        StreamError: During iteration: the stream timed out.
    """
    place = place or current()
    channels = declared(place.folders)
    if name not in channels and (streams := streams_of(name, channels)):
        return blocks(str(place.folders.data / f"{_own_stream(name, streams, place)}_{number}"), name, timeout_seconds)
    _settings(name, place.folders)
    if place.local_size > 1:
        raise ChannelError(
            f"Channel {name} is one stream for the {place.local_size} ranks of this host. Submit the job with "
            "`streams: rank`, or read TFRecords with open()."
        )
    return blocks(str(place.folders.data / f"{name}_{number}"), name, timeout_seconds)


def _own_stream(name: str, streams: list[str], place: Ranks) -> str:
    """Return the stream of this rank."""
    if streams != [f"{name}_{rank}" for rank in range(place.size)]:
        raise ChannelError(
            f"Channel {name} has a stream for each of {len(streams)} rank(s) ({', '.join(streams)}), but there are "
            f"{place.size} ranks. Start the same number, or submit the job with `streams: host` for any number."
        )
    return f"{name}_{place.rank}"


def _settings(name: str, folders: Folders) -> dict[str, str]:
    channels = declared(folders)
    if name not in channels:
        raise ChannelError(
            f"Channel {name} does not exist (the job's channels: {', '.join(sorted(channels)) or 'none'}). Add it to "
            "the job's inputs."
        )
    return channels[name]


def _shuffled(records: Iterable[bytes], size: int, seed: str) -> Iterator[bytes]:
    """Shuffle records within a buffer of `size` records; the order depends only on the seed."""
    if size < 2:
        yield from records
        return
    choice, buffer = random.Random(seed), list[bytes]()  # noqa: S311  # as above
    for record in records:
        if len(buffer) < size:
            buffer.append(record)
            continue
        index = choice.randrange(size)
        buffer[index], record = record, buffer[index]  # noqa: PLW2901  # they are exchanged
        yield record
    choice.shuffle(buffer)
    yield from buffer
