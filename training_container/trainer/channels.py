"""A job's input channels, each as the records that this rank reads; for the trainer and for any Horovod script:

    from trainer import channels, cluster

    cluster.start()
    train = channels.open("train")
    for epoch in range(10):
        for record in train.records(epoch).map(parse).batch(32): ...

Whether SageMaker copies the channel's objects (File), mounts them (FastFile) or streams them (Pipe) makes no difference
to the script. What a rank reads is the same for the same seed and epoch.
"""

import json
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.contract import Folders
from training_container.trainer.file_channel import FileChannel
from training_container.trainer.pipe_channel import PipeChannel
from training_container.trainer.reading import ChannelError, Place, Reading

__all__ = ["Channel", "ChannelError", "open"]


class Channel(Protocol):
    """One rank's share of a channel.

    Attributes:
        name: of the channel; where every rank has a channel of its own, without the rank's number.
        mode: "File" or "Pipe".
        streams: "host" or "rank", whichever has a stream of its own; None in File mode.
    """

    name: str
    mode: str
    streams: str | None

    @property
    def count(self) -> int | None:
        """How many records this rank's share has; None for streams, whose end shows it."""

    def records(self, epoch: int) -> tf.data.Dataset:
        """Return this rank's records of an epoch, each a scalar tf.string, to be iterated once."""


def open(  # noqa: A001  # channels.open is what a script's reader expects
    name: str,
    *,
    cluster: Place | None = None,
    folders: Folders | None = None,
    folder: Path | None = None,
    reading: Reading | None = None,
) -> FileChannel | PipeChannel:
    """Return this rank's share of a channel, whatever its input mode.

    Args:
        name: of the channel; `train` also stands for the channels train_0, train_1, ... of which each rank streams one.
        cluster: which of the ranks this is; Horovod's own answer where not given (after hvd.init()).
        folders: where SageMaker put things; from the environment where not given.
        folder: read this folder's files instead of the channel's. Where it lies in a channel's own folder, the settings
            of that channel hold: with ShardedByS3Key each host has other files there.
        reading: how it is shuffled and shared out.

    Raises:
        ChannelError: there is no such channel, or it cannot be read by this many ranks.
        ShardError: it has no files.
    """
    folders = folders or Folders.from_environment(os.environ)
    place = cluster or Ranks.of_horovod()
    reading = reading or Reading()
    channels = declared(folders)
    if folder is not None:
        return FileChannel(name, folder, place, reading, among_local=_is_a_part(_settings(folder, folders), place))
    if name in channels:
        return _opened(name, channels[name], folders, place, reading)
    streams = streams_of(name, channels)
    if not streams:
        raise ChannelError(
            f"There is no channel {name} (the job's channels: {', '.join(sorted(channels)) or 'none'}). Add it to the "
            "job's inputs."
        )
    if streams != [f"{name}_{rank}" for rank in range(place.size)]:
        raise ChannelError(
            f"Channel {name} has a stream for each of {len(streams)} rank(s) ({', '.join(streams)}), but there are "
            f"{place.size} ranks. Submit the job with as many, or with `streams: host`, which suits any number."
        )
    return PipeChannel(name, f"{name}_{place.rank}", folders.data, place, reading, streams="rank")


def declared(folders: Folders) -> dict[str, dict[str, str]]:
    """Return each channel's settings as SageMaker writes them: TrainingInputMode, S3DistributionType, ...

    Raises:
        ChannelError: inputdataconfig.json is not JSON.
    """
    path = folders.config / "inputdataconfig.json"
    try:
        channels: dict[str, dict[str, str]] = json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise ChannelError(f"{path} is not JSON: {error}.") from error
    return channels


def exists(name: str, folders: Folders | None = None) -> bool:
    """Return whether the job has this channel, as one or as a stream per rank."""
    channels = declared(folders or Folders.from_environment(os.environ))
    return name in channels or bool(streams_of(name, channels))


def streams_of(name: str, channels: dict[str, dict[str, str]]) -> list[str]:
    """Return the channels name_0, name_1, ... among a job's, by their numbers."""
    numbers = [
        int(number)
        for head, _, number in (channel.rpartition("_") for channel in channels)
        if head == name and number.isascii() and number.isdigit()
    ]
    return [f"{name}_{number}" for number in sorted(numbers)]


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """This process among all ranks."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @classmethod
    def of_horovod(cls) -> "Ranks":
        """Return what Horovod says."""
        return cls(rank=hvd.rank(), size=hvd.size(), local_rank=hvd.local_rank(), local_size=hvd.local_size())


def _settings(folder: Path, folders: Folders) -> dict[str, str]:
    """Return the settings of the channel whose folder this is or lies in; none where it is no channel's."""
    inside = (
        settings
        for name, settings in declared(folders).items()
        if folder.resolve().is_relative_to((folders.data / name).resolve())
    )
    return next(inside, {})


def _is_a_part(settings: dict[str, str], place: Place) -> bool:
    """Return whether a host has files of a channel that the others have not."""
    return settings.get("S3DistributionType") == "ShardedByS3Key" and place.size > place.local_size


def _opened(
    name: str, settings: dict[str, str], folders: Folders, place: Place, reading: Reading
) -> FileChannel | PipeChannel:
    if settings.get("TrainingInputMode", "File") != "Pipe":
        return FileChannel(name, folders.data / name, place, reading, among_local=_is_a_part(settings, place))
    if settings.get("RecordWrapperType", "None") == "RecordIO":
        raise ChannelError(
            f"Channel {name} is streamed with RecordWrapperType RecordIO, which is for objects that are no records "
            "themselves. Set it to None: the channel must hold TFRecord files."
        )
    if place.size > place.local_size and not _is_a_part(settings, place):
        raise ChannelError(
            f"Channel {name} is streamed to {place.size // place.local_size} hosts in full (S3DistributionType "
            "FullyReplicated), so every record would be trained on once per host. Set it to ShardedByS3Key."
        )
    return PipeChannel(name, name, folders.data, place, reading, streams="host")
