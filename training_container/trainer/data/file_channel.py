"""File channel: reads a channel from files, in SageMaker's input modes File and FastFile."""

from collections.abc import Callable
from functools import cached_property
from pathlib import Path

import numpy as np
import tensorflow as tf

from training_container.trainer.data import image_folder
from training_container.trainer.data.augment import mixed_seed
from training_container.trainer.data.read_options import ChannelError, Place, ReadOptions
from training_container.trainer.data.shards import Shard, files_of, shard
from training_container.trainer.demux import record_reader

Files = list[Path]


class FileChannel:
    """One rank's share of the TFRecord files in a folder. See channels.Channel.

    Args:
        name: The channel's name.
        folder: The folder of its files, which must be the same, in the same order, on all ranks that share them.
        place: The position of this rank.
        reading: The options for shuffling and sharding.
        among_local: If true, the folder has only this host's files (ShardedByS3Key), shared by the ranks of this host.
    """

    mode = "File"
    streams = None

    def __init__(
        self, name: str, folder: Path, place: Place, reading: ReadOptions, *, among_local: bool = False
    ) -> None:
        self.name = name
        self.folder = folder
        self._rank = place.rank
        self._among = (place.local_rank, place.local_size) if among_local else (place.rank, place.size)
        self._reading = reading
        self.files = files_of(folder, name)

    @property
    def holds_images(self) -> bool:
        """True if the folder contains images in one folder per class, instead of records."""
        return image_folder.is_image(self.files[0])

    @cached_property
    def shard(self) -> Shard:
        """This rank's files, and the selection of its records in them."""
        return shard(self.files, *self._among, by=self._reading.shard_by)

    @cached_property
    def count(self) -> int:
        """The number of records in this rank's share. The headers in its files are read once to count them."""
        return len(self.image_files(0)) if self.holds_images else self.shard.count()

    def records(self, epoch: int) -> tf.data.Dataset:
        """Return this rank's records of an epoch, each a scalar tf.string.

        Raises:
            ChannelError: The folder contains images; use image_files() instead.
        """
        if self.holds_images:
            raise ChannelError(f"Channel {self.name} contains images, not records ({self.files[0].name}, ...).")
        return self._arranged(epoch, tf.data.TFRecordDataset)

    def origins(self, epoch: int) -> tf.data.Dataset:
        """Return an epoch's records in the same order, each with its origin: (record, file, number in the file)."""

        def numbered(path: tf.Tensor) -> tf.data.Dataset:
            return tf.data.TFRecordDataset(path).enumerate().map(lambda number, record: (record, path, number))

        return self._arranged(epoch, numbered)

    def image_files(self, epoch: int) -> Files:
        """Return this rank's image files of an epoch, every n-th of the channel's files, in reading order.

        Raises:
            ChannelError: The folder contains records.
        """
        if not self.holds_images:
            raise ChannelError(f"Channel {self.name} is not a folder of images: it contains {self.files[0].name}.")
        rank, ranks = self._among
        own = self.files[rank::ranks]
        if not self._reading.shuffle_files:
            return list(own)
        order = np.random.default_rng([self._reading.seed, epoch, self._rank]).permutation(len(own))
        return [own[index] for index in order]

    def _arranged(self, epoch: int, read: Callable[[tf.Tensor], tf.data.Dataset]) -> tf.data.Dataset:
        """Return records in the epoch's order of files: this rank's records, shuffled."""
        reading, names = self._reading, [str(path) for path in self.shard.files]
        if reading.shuffle_files:
            # The seed does not depend on the rank: by record, all ranks must read the files in the same order.
            order = np.random.default_rng([reading.seed, epoch]).permutation(len(names))
            names = [names[index] for index in order]
        records = self._interleaved(names, read)
        if self.shard.every > 1:
            records = records.shard(self.shard.every, self.shard.offset)
        return shuffled(records, reading, epoch, self._rank)

    def _interleaved(self, names: list[str], read: Callable[[tf.Tensor], tf.data.Dataset]) -> tf.data.Dataset:
        """Read files sequentially, or several at once, taking one record of each in turn."""
        if self._reading.tolerate:
            return record_reader.file_records(names, self.name, tolerate=self._reading.tolerate)
        at_once = max(1, min(self._reading.parallel_reads, len(names)))
        paths = tf.data.Dataset.from_tensor_slices(tf.constant(names, tf.string, shape=[len(names)]))
        return paths.interleave(read, cycle_length=at_once, num_parallel_calls=at_once if at_once > 1 else None)


def shuffled(records: tf.data.Dataset, reading: ReadOptions, epoch: int, rank: int) -> tf.data.Dataset:
    """Shuffle a rank's records within a buffer. The order depends only on seed, epoch and rank."""
    if reading.shuffle_records < 2:
        return records
    seed = mixed_seed(reading.seed, epoch, rank)
    return records.shuffle(reading.shuffle_records, seed=seed, reshuffle_each_iteration=False)
