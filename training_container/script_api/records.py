"""Records: a channel as this rank's records, files or stream, without TensorFlow.

Example:
    from trainer import records

    train = records.open("train")               # TFRecord files, or a stream of their records
    for epoch in range(10):
        for record in train.records(epoch): ... # bytes

    mine = records.files("train")               # any files: this rank's share of their paths

For files, each rank reads a contiguous range of the channel's records, as with `trainer.channels`, in an order that
depends on seed, epoch and rank. Every rank counts the records of all files at the start, by their headers, unless the
channel has `_records.json`. Every byte is verified by the records' checksums.
"""

import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property
from itertools import islice
from pathlib import Path

from training_container.contract.training_job import Folders
from training_container.script_api.ranks import Ranks, current
from training_container.trainer.data.channels import (
    ChannelError,
    ReadOptions,
    declared,
    is_a_part,
    is_streamed,
    own_stream,
    record_content,
    stream_of,
    unknown_channel,
)
from training_container.trainer.data.record_index import WITH_THE_DATA, Index, record_index, stored
from training_container.trainer.data.shards import (
    Segment,
    Shard,
    byte_range,
    files_of,
    range_of,
    segments_of_rank,
    shard,
)
from training_container.trainer.demux.framing import Splitter, StreamError
from training_container.trainer.demux.record_reader import BLOCK, blocks, ending

__all__ = ["ChannelError", "ReadOptions", "Records", "files", "open", "read", "stream"]


@dataclass(kw_only=True)
class Records:
    """This rank's share of a channel.

    Attributes:
        name: The channel's name.
        place: The position of this rank.
        reading: The options for shuffling and sharding.
        files: All files that this host sees; empty for a stream.
        rank_and_size: The number of this rank among the ranks that share the files, and their number.
        stream: The channel whose FIFOs provide the stream; empty for files.
    """

    name: str
    place: Ranks
    reading: ReadOptions
    files: tuple[Path, ...] = ()
    rank_and_size: tuple[int, int] = (0, 1)
    stream: str = ""
    _opened_streams: int = field(default=0, init=False)

    @property
    def reads_ranges(self) -> bool:
        """True if each rank reads a range of the records."""
        return bool(self.files) and self.reading.shard_by == "auto" and self.rank_and_size[1] > 1

    @cached_property
    def index(self) -> Index:
        """The number of records in each file."""
        folder = self.place.folders.data / self.name
        names = {self._name(path): path for path in self.files}
        return record_index(self.name, names, counted=stored(folder / WITH_THE_DATA))

    @cached_property
    def shard(self) -> Shard:
        """This rank's files, and the selection of its records in them, if ranks do not read ranges."""
        return shard(self.files, *self.rank_and_size, by="record" if self.reading.shard_by == "record" else "file")

    @property
    def count(self) -> int | None:
        """The number of records in this rank's share; None for streams, whose length is known only at their end."""
        if self.stream:
            return None
        if self.reads_ranges:
            return len(range_of(sum(entry.records for entry in self.index.values()), *self.rank_and_size))
        return self.shard.count()

    def records(self, epoch: int, worker: int = 0, workers: int = 1) -> Iterator[bytes]:
        """Yield this rank's records of an epoch. For a stream, every call reads the next one.

        Args:
            epoch: The epoch, which determines the order of the records.
            worker: The number of this process among those that share the rank's files, from 0.
            workers: The number of these processes. With `shard_by` "auto", each one reads only its own range.

        Raises:
            StreamError: A file or stream is truncated or corrupt, or the stream timed out.
        """
        if self.stream:
            records = self._records_of_stream()
        elif self.reading.shard_by == "auto":
            rank, ranks = self.rank_and_size
            records = self._records_of_files(self._range(epoch, rank * workers + worker, ranks * workers))
        else:
            own_shard = self.shard
            segments = [Segment(path=path) for path in self._files_of_epoch(own_shard.files, self._choice(epoch))]
            records = islice(
                self._records_of_files(segments),
                own_shard.offset + worker * own_shard.every,
                None,
                own_shard.every * workers,
            )
        return _shuffled(records, self.reading.shuffle_records, f"{self.reading.seed}/{epoch}/{self.place.rank}")

    def _records_of_files(self, parts: Iterable[Segment]) -> Iterator[bytes]:
        tolerated_records = self.reading.tolerate
        for part in parts:
            start, stop = byte_range(part)
            splitter = Splitter(self.name, str(part.path), tolerate=tolerated_records)
            splitter.start, splitter.record = start, part.first
            for block in _bytes_of(part.path, start, stop):
                yield from splitter.feed(block)
            splitter.finish()
            tolerated_records = splitter.tolerate

    def _range(self, epoch: int, number: int, ranges: int) -> list[Segment]:
        """Return one of the ranges into which the records of an epoch are cut, before they are shuffled."""
        choice = self._choice(epoch)
        paths = self._files_of_epoch(self.files, choice)
        if ranges == 1:
            return [Segment(path=path) for path in paths]
        files = [(path, self.index[self._name(path)]) for path in paths]
        total = sum(entry.records for _, entry in files)
        return segments_of_rank(
            files, number, ranges, choice.randrange(total) if self.reading.shuffle_files and total else 0
        )

    def _files_of_epoch(self, files: Iterable[Path], choice: random.Random) -> list[Path]:
        """Return the files in the order of an epoch."""
        paths = list(files)
        if self.reading.shuffle_files:
            choice.shuffle(paths)
        return paths

    def _choice(self, epoch: int) -> random.Random:
        """Return the random numbers of an epoch, which are the same for all ranks."""
        return random.Random(f"{self.reading.seed}/{epoch}")  # noqa: S311  # no secret depends on it

    def _name(self, path: Path) -> str:
        return path.relative_to(self.place.folders.data / self.name).as_posix()

    def _records_of_stream(self) -> Iterator[bytes]:
        number, self._opened_streams = self._opened_streams, self._opened_streams + 1
        place, timeout = self.place, self.reading.timeout_seconds
        path = str(place.folders.data / f"{self.stream}_{number}")
        if self.stream == self.name:
            from training_container.trainer.demux import demultiplexer  # noqa: PLC0415  # only a stream needs it

            path = demultiplexer.rank_fifo(
                place.folders.data, self.stream, number, place.local_rank, place.local_size, timeout_seconds=timeout
            )
        splitter = Splitter(self.name, path, tolerate=self.reading.tolerate)
        for block in blocks(path, self.name, timeout):
            yield from splitter.feed(block)
        failure = ending(path)
        if failure.exists() and (text := failure.read_text()):
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
    if name not in channels or is_streamed(channels[name]):
        if record_content(channels.get(name, {})) != "tfrecord":
            raise ChannelError(f"Channel {name} is streamed as RecordIO, and not as TFRecords. Read it with stream().")
        return Records(name=name, place=place, reading=reading, stream=stream_of(name, channels, place))
    part = is_a_part(channels[name], place)
    rank_and_size = (place.local_rank, place.local_size) if part else (place.rank, place.size)
    files = files_of(place.folders.data / name, name)
    records = Records(name=name, place=place, reading=reading, files=files, rank_and_size=rank_and_size)
    if records.reads_ranges:
        _ = records.index  # before a DataLoader starts workers, which would count again
    return records


def files(name: str, *, place: Ranks | None = None) -> list[Path]:
    """Return this rank's share of a channel's files of any format: every n-th in the order of their S3 keys.

    Raises:
        ChannelError: The channel does not exist, or is a stream.
        ShardError: The channel has no files.
    """
    place = place or current()
    settings = _settings(name, place.folders)
    if is_streamed(settings):
        raise ChannelError(f"Channel {name} is a stream. Read it with stream(), or set its input mode to FastFile.")
    all_files = files_of(place.folders.data / name, name)
    if is_a_part(settings, place):
        return list(all_files[place.local_rank :: place.local_size])
    return list(all_files[place.rank :: place.size])


def read(path: Path) -> Iterator[bytes]:
    """Yield the records of a TFRecord file.

    Raises:
        StreamError: The file is truncated or corrupt.
    """
    splitter = Splitter(path.parent.name, str(path))
    for block in _bytes_of(path, 0, None):
        yield from splitter.feed(block)
    splitter.finish()


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
    if name not in channels:
        return blocks(str(place.folders.data / f"{own_stream(name, channels, place)}_{number}"), name, timeout_seconds)
    if place.local_size > 1:
        raise ChannelError(
            f"Channel {name} is one stream for the {place.local_size} ranks of this host. Submit the job with "
            "`streams: rank`, or read TFRecords with open()."
        )
    return blocks(str(place.folders.data / f"{name}_{number}"), name, timeout_seconds)


def _bytes_of(path: Path, start: int, stop: int | None) -> Iterator[bytes]:
    with path.open("rb", buffering=0) as file:
        file.seek(start)
        remaining_bytes = (path.stat().st_size if stop is None else stop) - start
        while remaining_bytes > 0 and (block := file.read(min(BLOCK, remaining_bytes))):
            remaining_bytes -= len(block)
            yield block


def _settings(name: str, folders: Folders) -> dict[str, str]:
    channels = declared(folders)
    if name not in channels:
        raise unknown_channel(name, channels)
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
