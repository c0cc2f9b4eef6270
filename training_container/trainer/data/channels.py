"""Channels: a job's input channels as the records that this rank reads, for the trainer and for any Horovod script.

Example:
    from trainer import channels, cluster

    cluster.start()
    train = channels.open("train")
    for epoch in range(10):
        for record in train.records(epoch).map(parse).batch(32): ...

The script is the same whether SageMaker copies the channel's objects (File), mounts them (FastFile) or streams them
(Pipe). A rank reads the same records for the same seed and epoch.

Only `open` imports TensorFlow and Horovod, because scripts without them use the rest of this module.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from training_container import outside_json
from training_container.contract.training_job import Folders

if TYPE_CHECKING:
    from pathlib import Path

    import tensorflow as tf

    from training_container.trainer.data.record_datasets import FileChannel, PipeChannel

__all__ = ["Channel", "ChannelError", "ReadOptions", "exists", "open"]
RECORDIO = "application/x-recordio"
"""The content type of MXNet's RecordIO (https://docs.aws.amazon.com/sagemaker/latest/dg/image-classification.html)."""


class ChannelError(ValueError):
    """A channel cannot be read. The text names it and the reason, and suggests a solution."""


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


class Place(Protocol):
    """The position of this process among all ranks; cluster.Cluster implements it."""

    @property
    def rank(self) -> int:
        """This process's number, from 0."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    @property
    def local_rank(self) -> int:
        """This process's number among the ranks of its host, from 0."""

    @property
    def local_size(self) -> int:
        """The number of ranks on its host."""


@dataclass(frozen=True, kw_only=True)
class RankPosition:
    """The position of this process among all ranks."""

    rank: int
    size: int
    local_rank: int
    local_size: int

    @classmethod
    def of_horovod(cls) -> RankPosition:
        """Return the position that Horovod reports."""
        import horovod.tensorflow as hvd  # noqa: PLC0415  # see above

        return cls(rank=hvd.rank(), size=hvd.size(), local_rank=hvd.local_rank(), local_size=hvd.local_size())


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The options for shuffling and sharding a channel. Equal options produce equal results.

    Attributes:
        seed: The seed of all shuffling.
        shard_by: The share of a rank: "auto" is a range of records, "file" whole files, "record" every n-th record
            (shards.py). For a stream, SageMaker or the demultiplexer does it.
        shuffle_files: If true, read files in a different order in every epoch. SageMaker's ShuffleConfig does this for
            a stream.
        shuffle_records: The number of records in the shuffle buffer; 0 disables shuffling.
        parallel_reads: The number of files that are read at once; 0: 8 in FastFile mode, otherwise 1.
        tolerate: The number of corrupt records that this rank may skip in an epoch.
        timeout_seconds: The maximum time until a stream begins, and the maximum time without data.
    """

    seed: int = 0
    shard_by: str = "auto"
    shuffle_files: bool = True
    shuffle_records: int = 2048
    parallel_reads: int = 0
    tolerate: int = 0
    timeout_seconds: float = 600.0


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
    from training_container.trainer.data import record_datasets  # noqa: PLC0415  # imports TensorFlow, see above

    folders = folders or Folders.from_environment(os.environ)
    place = cluster or RankPosition.of_horovod()
    reading = reading or ReadOptions()
    channels = declared(folders)
    if folder is not None:
        return record_datasets.files(name, folder, folders, place, reading, settings=settings_of(folder, folders))
    if name in channels and not is_streamed(channels[name]):
        return record_datasets.files(name, folders.data / name, folders, place, reading, settings=channels[name])
    stream = stream_of(name, channels, place)
    streams = "host" if stream == name else "rank"
    content = record_content(channels[stream])
    return record_datasets.PipeChannel(name, stream, folders.data, place, reading, streams=streams, content=content)


def declared(folders: Folders) -> dict[str, dict[str, str]]:
    """Return each channel's settings from SageMaker: TrainingInputMode, S3DistributionType, ...

    Raises:
        ChannelError: inputdataconfig.json has another form.
    """
    path = folders.config / "inputdataconfig.json"
    try:
        channels = outside_json.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except ValueError as error:
        raise ChannelError(f"{path} is not JSON: {error}.") from error
    if not isinstance(channels, dict) or not all(isinstance(settings, dict) for settings in channels.values()):
        raise ChannelError(f"{path} must contain a JSON object with an object for each channel.")
    return channels


def exists(name: str, folders: Folders | None = None) -> bool:
    """Return True if the job has this channel, either as a single one or as one stream per rank."""
    channels = declared(folders or Folders.from_environment(os.environ))
    return name in channels or bool(_streams(name, channels))


def stream_of(name: str, channels: dict[str, dict[str, str]], place: Place) -> str:
    """Return the channel whose FIFOs this rank reads: `name` itself for a host's stream, or this rank's own.

    Raises:
        ChannelError: The channel does not exist, or cannot be read by this number of ranks.
    """
    if name not in channels:
        return own_stream(name, channels, place)
    settings = channels[name]
    if place.size > place.local_size and not is_a_part(settings, place):
        raise ChannelError(
            f"Channel {name} is streamed to {place.size // place.local_size} hosts in full (S3DistributionType "
            "FullyReplicated), so every host would train on all records. Set it to ShardedByS3Key."
        )
    return name


def settings_of(folder: Path, folders: Folders) -> dict[str, str]:
    """Return the settings of the channel whose folder contains `folder`; empty if none does."""
    inside = (
        settings
        for name, settings in declared(folders).items()
        if folder.resolve().is_relative_to((folders.data / name).resolve())
    )
    return next(inside, {})


def is_streamed(settings: dict[str, str]) -> bool:
    """Return True if a channel is in Pipe mode."""
    return settings.get("TrainingInputMode", "File") == "Pipe"


def record_content(settings: dict[str, str]) -> str:
    """Return the content of a stream: "tfrecord", or a key of demux/recordio.py: CONTENTS.

    SageMaker wraps each attribute of an augmented manifest in a record if RecordWrapperType is RecordIO; data that are
    already in that format have the content type. inputdataconfig.json contains both settings
    (https://docs.aws.amazon.com/sagemaker/latest/dg/your-algorithms-training-algo-running-container.html).
    """
    if settings.get("RecordWrapperType") == "RecordIO":
        return "pairs"
    return "images" if settings.get("ContentType") == RECORDIO else "tfrecord"


def is_a_part(settings: dict[str, str], place: Place) -> bool:
    """Return True if each host has different files of a channel."""
    return settings.get("S3DistributionType") == "ShardedByS3Key" and place.size > place.local_size


def own_stream(name: str, channels: dict[str, dict[str, str]], place: Place) -> str:
    """Return the channel name_0, name_1, ... that only this rank reads.

    Raises:
        ChannelError: There is none, or not one for each rank.
    """
    streams = _streams(name, channels)
    if not streams:
        raise unknown_channel(name, channels)
    if streams != [f"{name}_{rank}" for rank in range(place.size)]:
        raise ChannelError(
            f"Channel {name} has a stream for each of {len(streams)} rank(s) ({', '.join(streams)}), but there are "
            f"{place.size} ranks. Start the same number, or submit the job with `streams: host` for any number."
        )
    return f"{name}_{place.rank}"


def unknown_channel(name: str, channels: dict[str, dict[str, str]]) -> ChannelError:
    """Return the error for a channel that the job does not have."""
    return ChannelError(
        f"Channel {name} does not exist (the job's channels: {', '.join(sorted(channels)) or 'none'}). Add it to "
        "the job's inputs."
    )


def _streams(name: str, channels: dict[str, dict[str, str]]) -> list[str]:
    """Return the job's channels name_0, name_1, ..., sorted by their numbers."""
    numbers = [
        int(number)
        for prefix, _, number in (channel.rpartition("_") for channel in channels)
        if prefix == name and number.isascii() and number.isdigit()
    ]
    return [f"{name}_{number}" for number in sorted(numbers)]
