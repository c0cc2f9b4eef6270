"""Channels: resolves a job's channels from its line and the grid, and lists the channels of its request.

In Pipe mode the ranks of a host share one stream of a channel (`streams: host`), or each rank of the job has a separate
stream (`streams: rank`). SageMaker has no ranks, so `streams: rank` requests one channel for each rank: `train_0`,
`train_1` and so on. The child writes their ManifestFiles before it creates the training job
(traingrid/job/rank_manifests.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.aws.s3_uri import S3Uri
from traingrid.job.initial_model import MODEL_CHANNEL, MODEL_CONTENT_TYPE, initial_model_uri
from traingrid.job.job import Channel

if TYPE_CHECKING:
    from traingrid.grid.job_defaults import JobDefaults
    from traingrid.job.job import Inputs, Job

MANIFEST_FOLDER = "input"
"""The folder of a training job's ManifestFiles, next to SageMaker's own `output`."""
MANIFEST_SUFFIX = ".manifest"
CODE_CHANNEL = "code"
"""The channel that provides `source` to a job without a network."""


def channels(data: S3Uri | Inputs, defaults: JobDefaults) -> Inputs:
    """Return the channels of a job: those that its line defines, or all that its data folder may have.

    The child takes those of a folder that exist, at their places (traingrid/job/data_layout.py).

    Args:
        data: The data folder, or the line's channels with only the fields set that the line sets.
        defaults: The settings of the line and, where it sets none, of the grid, for fields that a channel does not set.
    """
    if not isinstance(data, dict):
        fields = _fields(defaults.input_mode, defaults)
        return {name: Channel(uri=f"{data / name}/", **fields) for name in defaults.channels}
    return {name: _with_defaults(channel, defaults) for name, channel in data.items()}


def _with_defaults(channel: Channel, defaults: JobDefaults) -> Channel:
    if channel.file_system:  # the defaults are for data in S3; a file system is always mounted
        return channel
    own_fields = channel.model_fields_set
    fields = _fields(channel.input_mode if "input_mode" in own_fields else defaults.input_mode, defaults)
    completed_fields = {
        name: value for name, value in fields.items() if name not in own_fields and value != getattr(channel, name)
    }
    return channel.model_copy(update=completed_fields) if completed_fields else channel


def _fields(mode: str, defaults: JobDefaults) -> dict[str, Any]:
    """Return the fields of a channel with an input mode that the line and the grid set for all channels."""
    if mode != "Pipe":
        return {"input_mode": mode}
    # FullyReplicated would stream every record to every host, and each host would train on it.
    shared = defaults.streams == "host" and defaults.instance_count > 1
    distribution = "ShardedByS3Key" if shared else "FullyReplicated"
    return {"input_mode": mode, "distribution": distribution, "shuffle_seed": defaults.shuffle_seed}


def is_streamed(inputs: Inputs) -> bool:
    """Return True if any channel is streamed (Pipe mode)."""
    return any(channel.input_mode == "Pipe" for channel in inputs.values())


def channels_split_by_rank(inputs: Inputs, streams: str) -> list[str]:
    """Return the names of the channels that are split into one channel per rank."""
    return [name for name, channel in inputs.items() if streams == "rank" and channel.input_mode == "Pipe"]


def names_in_request(inputs: Inputs, streams: str, ranks: int) -> list[str]:
    """Return the names of the channels in the CreateTrainingJob request."""
    split = channels_split_by_rank(inputs, streams)
    names: list[str] = []
    for channel in inputs:
        names += rank_channels(channel, ranks) if channel in split else [channel]
    return names


def rank_channels(channel: str, ranks: int) -> list[str]:
    """Return the names of a channel's per-rank channels, in the order of the ranks."""
    return [f"{channel}_{rank}" for rank in range(ranks)]


def channels_in_request(job: Job, training_job: str) -> Inputs:
    """Return the channels of the CreateTrainingJob request: a pure function that does not read the ManifestFiles.

    A job with `init_from` has an additional channel with the archive of that model.

    Args:
        training_job: The training job's name, which is part of the URIs of its ManifestFiles.
    """
    split = channels_split_by_rank(job.inputs, job.streams)
    channels_by_name = {}
    for name, channel in job.inputs.items():
        if name not in split:
            channels_by_name[name] = channel
            continue
        for rank_channel in rank_channels(name, job.ranks):
            uri = str(manifest_uri(job, training_job, rank_channel))
            channels_by_name[rank_channel] = channel.model_copy(update={"uri": uri, "manifest": True})
    if uri := initial_model_uri(job):
        channels_by_name[MODEL_CHANNEL] = Channel(uri=uri, content_type=MODEL_CONTENT_TYPE)
    return channels_by_name


def manifest_uri(job: Job, training_job: str, name: str) -> S3Uri:
    """Return the URI of a training job's ManifestFile, in the output bucket of the job's Region."""
    return S3Uri.parse(job.output) / training_job / MANIFEST_FOLDER / f"{name}{MANIFEST_SUFFIX}"
