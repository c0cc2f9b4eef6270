"""Declared channels: the channels of a job, and their settings from SageMaker. Does not import TensorFlow."""

import json
import os
from pathlib import Path

from training_container.contract.training_job import Folders
from training_container.trainer.data.read_options import ChannelError, Place


def declared(folders: Folders) -> dict[str, dict[str, str]]:
    """Return each channel's settings from SageMaker: TrainingInputMode, S3DistributionType, ...

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
    """Return True if the job has this channel, either as a single one or as one stream per rank."""
    channels = declared(folders or Folders.from_environment(os.environ))
    return name in channels or bool(streams_of(name, channels))


def streams_of(name: str, channels: dict[str, dict[str, str]]) -> list[str]:
    """Return the job's channels name_0, name_1, ..., sorted by their numbers."""
    numbers = [
        int(number)
        for head, _, number in (channel.rpartition("_") for channel in channels)
        if head == name and number.isascii() and number.isdigit()
    ]
    return [f"{name}_{number}" for number in sorted(numbers)]


def settings_of(folder: Path, folders: Folders) -> dict[str, str]:
    """Return the settings of the channel whose folder contains `folder`; empty if none does."""
    inside = (
        settings
        for name, settings in declared(folders).items()
        if folder.resolve().is_relative_to((folders.data / name).resolve())
    )
    return next(inside, {})


def is_a_part(settings: dict[str, str], place: Place) -> bool:
    """Return True if each host has different files of a channel."""
    return settings.get("S3DistributionType") == "ShardedByS3Key" and place.size > place.local_size
