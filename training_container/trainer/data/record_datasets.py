"""Record datasets: one rank's records of a channel, from files (File and FastFile) or from a stream (Pipe)."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np
import tensorflow as tf

from training_container.contract.training_job import Folders
from training_container.trainer.data import image_folder
from training_container.trainer.data.augment import mixed_seed
from training_container.trainer.data.channels import ChannelError, Place, ReadOptions, is_a_part
from training_container.trainer.data.record_index import Index
from training_container.trainer.data.shards import (
    Count,
    Segment,
    Shard,
    byte_range,
    count_alone,
    count_together,
    files_of,
    range_of,
    segments_of_rank,
    shard,
)
from training_container.trainer.demux import demultiplexer, record_reader

Files = list[Path]
Read = Callable[[dict[str, tf.Tensor]], tf.data.Dataset]
"""Opens a segment: its path, a byte at which a record starts, the records to skip from there, first, and count."""
MOUNTED_READS = 8
"""Files that a rank reads at once in FastFile mode: S3's throughput comes from concurrent requests
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/optimizing-performance-guidelines.html)."""
_BUFFER = 1 << 18  # bytes; TFRecordDataset's default


class FileChannel:
    """One rank's share of the TFRecord files in a folder. See channels.Channel.

    Args:
        folder: The folder of its files, which must be the same, in the same order, on all ranks that share them.
        place: The position of this rank.
        reading: The options for shuffling and sharding.
        among_local: If true, the folder has only this host's files (ShardedByS3Key), shared by the ranks of this host.
        mounted: If true, the files are S3 objects that are read as they are requested (FastFile).
        count: How to count records; by default this process counts those of all files.
    """

    mode = "File"
    streams = None

    def __init__(  # noqa: PLR0913  # most are keyword-only
        self,
        name: str,
        folder: Path,
        place: Place,
        reading: ReadOptions,
        *,
        among_local: bool = False,
        mounted: bool = False,
        count: Count = count_alone,
    ) -> None:
        self.name = name
        self.folder = folder
        self._rank = place.rank
        self._rank_and_size = (place.local_rank, place.local_size) if among_local else (place.rank, place.size)
        self._read_options = reading
        self._is_mounted = mounted
        self._count = count
        self.files = files_of(folder, name)

    @property
    def holds_images(self) -> bool:
        """True if the folder contains images in one folder per class, instead of records."""
        return image_folder.is_image(self.files[0])

    @cached_property
    def reads_ranges(self) -> bool:
        """True if each rank reads a range of records, for which the ranks count the records together."""
        return self._read_options.shard_by == "auto" and self._rank_and_size[1] > 1 and not self.holds_images

    @cached_property
    def index(self) -> Index:
        """The number of records in each file. All ranks must read this together, for the first time."""
        return self._count({self._name(path): path for path in self.files}, *self._rank_and_size)

    @cached_property
    def shard(self) -> Shard:
        """This rank's files, and the selection of its records in them, if ranks do not read ranges."""
        return shard(
            self.files, *self._rank_and_size, by="record" if self._read_options.shard_by == "record" else "file"
        )

    @cached_property
    def count(self) -> int:
        """The number of records in this rank's share, in every epoch. The headers in the files are read once."""
        if self.holds_images:
            return len(self.image_files(0))
        if self.reads_ranges:
            return len(range_of(sum(self.index[self._name(path)].records for path in self.files), *self._rank_and_size))
        return self.shard.count()

    def segments(self, epoch: int) -> list[Segment]:
        """Return the records that this rank reads in an epoch, before shuffling, in reading order.

        The files have the same order on all ranks, and each rank reads one range of the records in that order. If files
        are shuffled, order and ranges differ in each epoch. The record at which rank 0 begins is random as well;
        otherwise the ranges of few files would always begin at the same records.
        """
        if not self.reads_ranges:
            return [Segment(path=path) for path in self._files_of_epoch(list(self.shard.files), epoch)]
        files = [(path, self.index[self._name(path)]) for path in self._files_of_epoch(list(self.files), epoch)]
        total = sum(index.records for _, index in files)
        has_random_start = self._read_options.shuffle_files and total > 0
        start = (
            int(np.random.default_rng([self._read_options.seed, epoch, 1]).integers(total)) if has_random_start else 0
        )
        return segments_of_rank(files, *self._rank_and_size, start)

    def records(self, epoch: int) -> tf.data.Dataset:
        """Return this rank's records of an epoch, each a scalar tf.string.

        Raises:
            ChannelError: The folder contains images; use image_files() instead.
        """
        if self.holds_images:
            raise ChannelError(f"Channel {self.name} contains images, not records ({self.files[0].name}, ...).")
        return self._shuffled(epoch, _records)

    def origins(self, epoch: int) -> tf.data.Dataset:
        """Return an epoch's records in the same order, each with its origin: (record, file, number in the file)."""

        def numbered(part: dict[str, tf.Tensor]) -> tf.data.Dataset:
            records = _records(part).enumerate(start=part["first"])
            return records.map(lambda number, record: (record, part["path"], number))

        return self._shuffled(epoch, numbered)

    def image_files(self, epoch: int) -> Files:
        """Return this rank's image files of an epoch, every n-th of the files in the epoch's order, in reading order.

        Raises:
            ChannelError: The folder contains records.
        """
        if not self.holds_images:
            raise ChannelError(f"Channel {self.name} is not a folder of images: it contains {self.files[0].name}.")
        rank, ranks = self._rank_and_size
        return self._files_of_epoch(list(self.files), epoch)[rank::ranks]

    def _name(self, path: Path) -> str:
        return path.relative_to(self.folder).as_posix()

    def _files_of_epoch(self, files: Files, epoch: int) -> Files:
        """Return files in the order of an epoch. It does not depend on the rank: shares are cut from it."""
        if not self._read_options.shuffle_files:
            return files
        order = np.random.default_rng([self._read_options.seed, epoch]).permutation(len(files))
        return [files[index] for index in order]

    def _shuffled(self, epoch: int, read: Read) -> tf.data.Dataset:
        """Return this rank's records of an epoch, shuffled."""
        records = self._interleaved(self.segments(epoch), read)
        if not self.reads_ranges and self.shard.every > 1:
            records = records.shard(self.shard.every, self.shard.offset)
        return shuffled(records, self._read_options, epoch, self._rank)

    def _interleaved(self, own: list[Segment], read: Read) -> tf.data.Dataset:
        """Read segments sequentially, or several at once, taking one record of each in turn."""
        if self._read_options.tolerate:
            parts = [record_reader.FilePart(str(part.path), part.first, *byte_range(part)) for part in own]
            return record_reader.file_records(parts, self.name, tolerate=self._read_options.tolerate)
        at_once = self._read_options.parallel_reads or (MOUNTED_READS if self._is_mounted else 1)
        at_once = max(1, min(at_once, len(own)))
        rows = tf.data.Dataset.from_tensor_slices(_columns(own))
        return rows.interleave(read, cycle_length=at_once, num_parallel_calls=at_once if at_once > 1 else None)


class PipeChannel:
    """One rank's share of a streamed channel. See channels.Channel.

    Attributes:
        path: The FIFO that was opened last; "" before the first.

    Args:
        stream: The channel whose FIFO provides the stream: the same name, or with the rank's number.
        folder: The folder in which the FIFOs appear.
        place: The position of this rank.
        streams: "rank" if this rank has its own stream, "host" if the ranks of this host share it.
        content: "tfrecord", or a key of demux/recordio.py: CONTENTS, which is translated into TFRecords.
    """

    mode = "Pipe"
    count = None
    holds_images = False

    def __init__(  # noqa: PLR0913  # most are of every channel
        self,
        name: str,
        stream: str,
        folder: Path,
        place: Place,
        reading: ReadOptions,
        *,
        streams: str,
        content: str = "tfrecord",
    ) -> None:
        self.name = name
        self.streams = streams
        self._content = content
        self._stream = stream
        self._folder = folder
        self._place = place
        self._read_options = reading
        self._opened_streams = 0
        self.path = ""

    def records(self, epoch: int) -> tf.data.Dataset:
        """Return this rank's records of an epoch, each a scalar tf.string. The dataset can be iterated only once.

        Every call reads the next FIFO, <channel>_0, <channel>_1, ..., regardless of the epoch: SageMaker restarts
        counting when a training is resumed on another host. The epoch only affects shuffling.
        """
        number, self._opened_streams = self._opened_streams, self._opened_streams + 1
        self.path = self._path(number)
        records = record_reader.fifo_records(
            self.path,
            self._stream,
            tolerate=self._read_options.tolerate,
            timeout_seconds=self._read_options.timeout_seconds,
        )
        return shuffled(records, self._read_options, epoch, self._place.rank)

    def _path(self, number: int) -> str:
        """Return the FIFO to read: the stream, or this rank's part of it if the host's ranks share the stream."""
        place, timeout = self._place, self._read_options.timeout_seconds
        rank, ranks = (0, 1) if self.streams == "rank" else (place.local_rank, place.local_size)
        return demultiplexer.rank_fifo(
            self._folder, self._stream, number, rank, ranks, timeout_seconds=timeout, content=self._content
        )


def files(  # noqa: PLR0913  # one for each fact of a channel
    name: str, folder: Path, folders: Folders, place: Place, reading: ReadOptions, *, settings: dict[str, str]
) -> FileChannel:
    """Return a channel of files. Count its records now, while all ranks are here: later, a rank might be alone."""
    part = is_a_part(settings, place)
    reads_mount = settings.get("TrainingInputMode") == "FastFile" or is_mounted(folder)
    count = count_together(name, folder, folders.checkpoints, place, among_local=part)
    channel = FileChannel(name, folder, place, reading, among_local=part, mounted=reads_mount, count=count)
    if channel.reads_ranges:
        _ = channel.index
    return channel


def _columns(own: list[Segment]) -> dict[str, tf.Tensor]:
    def numbers(values: list[int]) -> tf.Tensor:
        return tf.constant(values, tf.int64, shape=[len(values)])

    return {
        "path": tf.constant([str(part.path) for part in own], tf.string, shape=[len(own)]),
        "byte": numbers([part.byte for part in own]),
        "skip": numbers([part.first - part.known for part in own]),
        "first": numbers([part.first for part in own]),
        "count": numbers([part.all_or_count for part in own]),
    }


def _records(part: dict[str, tf.Tensor]) -> tf.data.Dataset:
    """Read a segment. TFRecordDataset has no parameter for the byte to start at, but its kernel has."""
    variant = tf.raw_ops.TFRecordDatasetV2(
        filenames=[part["path"]], compression_type="", buffer_size=_BUFFER, byte_offsets=[part["byte"]]
    )
    records = tf.data.experimental.from_variant(variant, structure=tf.TensorSpec([], tf.string))
    return records.skip(part["skip"]).take(part["count"])


def is_mounted(folder: Path, table: Path = Path("/proc/self/mountinfo")) -> bool:
    """Return True if the folder is in a file system of FUSE, as the folders of FastFile mode are.

    Source of the table's format: Linux, Documentation/filesystems/proc.rst, section 3.5.
    """
    try:
        lines = [line.split(" ") for line in table.read_text(encoding="utf-8").splitlines()]
    except OSError:  # not Linux
        return False
    place = folder.resolve()
    mounts = [(len(Path(line[4]).parts), line[line.index("-") + 1]) for line in lines if place.is_relative_to(line[4])]
    return max(mounts, default=(0, ""))[1].startswith("fuse")


def shuffled(records: tf.data.Dataset, reading: ReadOptions, epoch: int, rank: int) -> tf.data.Dataset:
    """Shuffle a rank's records within a buffer. The order depends only on seed, epoch and rank."""
    if reading.shuffle_records < 2:
        return records
    seed = mixed_seed(reading.seed, epoch, rank)
    return records.shuffle(reading.shuffle_records, seed=seed, reshuffle_each_iteration=False)
