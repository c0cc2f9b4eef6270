"""Channels: a job's input channels as the records that this rank reads, for the trainer and for any Horovod script.

Example:
    from trainer import channels, cluster

    cluster.start()
    train = channels.open("train")
    for epoch in range(10):
        for record in train.records(epoch).map(parse).batch(32): ...

The script is the same whether SageMaker copies the channel's objects (File), mounts them (FastFile) or streams them
(Pipe). A rank reads the same records for the same seed and epoch.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.contract.training_job import Folders
from training_container.trainer.data.declared_channels import declared, exists, is_a_part, settings_of, streams_of
from training_container.trainer.data.file_channel import FileChannel, is_mounted
from training_container.trainer.data.pipe_channel import PipeChannel
from training_container.trainer.data.read_options import ChannelError, Place, ReadOptions
from training_container.trainer.data.shared_index import count_together

__all__ = ["Channel", "ChannelError", "exists", "open"]


class Channel(Protocol):
    """One rank's share of a channel.

    Attributes:
        name: The channel's name, without the rank's number if every rank has its own channel.
        mode: "File" or "Pipe".
        streams: "host" or "rank": the unit that has its own stream; None in File mode.
    """

    name: str
    mode: str
    streams: str | None

    @property
    def count(self) -> int | None:
        """The number of records in this rank's share; None for streams, whose length is known only at their end."""

    def records(self, epoch: int) -> tf.data.Dataset:
        """Return this rank's records of an epoch, each a scalar tf.string. The dataset can be iterated only once."""


def open(  # noqa: A001  # scripts call it as channels.open
    name: str,
    *,
    cluster: Place | None = None,
    folders: Folders | None = None,
    folder: Path | None = None,
    reading: ReadOptions | None = None,
) -> FileChannel | PipeChannel:
    """Return this rank's share of a channel in any input mode.

    All ranks must call this together: for files, they count the records together.

    Args:
        name: The channel's name. `train` also represents the channels train_0, train_1, ... with one stream per rank.
        cluster: The position of this rank; Horovod's by default (call hvd.init() first).
        folders: SageMaker's folders; from the environment by default.
        folder: A folder to read instead of the channel's. If it is inside a channel's folder, that channel's settings
            apply: with ShardedByS3Key, it has different files on each host.
        reading: The options for shuffling and sharding.

    Raises:
        ChannelError: The channel does not exist, or cannot be read by this number of ranks.
        ShardError: The channel has no files.
    """
    folders = folders or Folders.from_environment(os.environ)
    place = cluster or Ranks.of_horovod()
    reading = reading or ReadOptions()
    channels = declared(folders)
    if folder is not None:
        return _files(name, folder, folders, place, reading, settings=settings_of(folder, folders))
    if name in channels:
        return _opened(name, channels[name], folders, place, reading)
    streams = streams_of(name, channels)
    if not streams:
        raise ChannelError(
            f"Channel {name} does not exist (the job's channels: {', '.join(sorted(channels)) or 'none'}). Add it to "
            "the job's inputs."
        )
    if streams != [f"{name}_{rank}" for rank in range(place.size)]:
        raise ChannelError(
            f"Channel {name} has a stream for each of {len(streams)} rank(s) ({', '.join(streams)}), but there are "
            f"{place.size} ranks. Start the same number, or submit the job with `streams: host` for any number."
        )
    return PipeChannel(name, f"{name}_{place.rank}", folders.data, place, reading, streams="rank")


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """The position of this process among all ranks."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @classmethod
    def of_horovod(cls) -> "Ranks":
        """Return the position that Horovod reports."""
        return cls(rank=hvd.rank(), size=hvd.size(), local_rank=hvd.local_rank(), local_size=hvd.local_size())


def _opened(
    name: str, settings: dict[str, str], folders: Folders, place: Place, reading: ReadOptions
) -> FileChannel | PipeChannel:
    if settings.get("TrainingInputMode", "File") != "Pipe":
        return _files(name, folders.data / name, folders, place, reading, settings=settings)
    if settings.get("RecordWrapperType", "None") == "RecordIO":
        raise ChannelError(
            f"Channel {name} is streamed with RecordWrapperType RecordIO, which is for objects that are not records. "
            "Set it to None: the channel must contain TFRecord files."
        )
    if place.size > place.local_size and not is_a_part(settings, place):
        raise ChannelError(
            f"Channel {name} is streamed to {place.size // place.local_size} hosts in full (S3DistributionType "
            "FullyReplicated), so every host would train on all records. Set it to ShardedByS3Key."
        )
    return PipeChannel(name, name, folders.data, place, reading, streams="host")


def _files(  # noqa: PLR0913  # one for each fact of a channel
    name: str, folder: Path, folders: Folders, place: Place, reading: ReadOptions, *, settings: dict[str, str]
) -> FileChannel:
    """Return a channel of files. Count its records now, while all ranks are here: later, a rank might be alone."""
    part = is_a_part(settings, place)
    mounted = settings.get("TrainingInputMode") == "FastFile" or is_mounted(folder)
    count = count_together(name, folder, folders.checkpoints, place, among_local=part)
    channel = FileChannel(name, folder, place, reading, among_local=part, mounted=mounted, count=count)
    if channel.in_ranges:
        _ = channel.index
    return channel
