"""The channels of a job: as its line and the grid say, and as SageMaker is asked for them.

In Pipe mode a host's ranks share one stream of a channel (`streams: host`), or each rank of the job has one of its own
(`streams: rank`). SageMaker knows no ranks, so the second way asks for a channel for each of them, `train_0`, `train_1`
and so on, whose ManifestFiles the child writes before it creates the training job (traingrid/rank_manifests.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.job import Channel
from traingrid.s3_uri import S3Uri

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.grid_job import JobDefaults
    from traingrid.job import Inputs, Job, Streams

MANIFEST_FOLDER = "input"
"""Where, beside SageMaker's own `output`, the ManifestFiles of a training job lie."""
MANIFEST_SUFFIX = ".manifest"
CODE_CHANNEL = "code"
"""The channel by which a job without a network gets its `source`."""


def setting(settings: Mapping[str, Any], name: str, defaults: JobDefaults) -> Any:
    """Return a field's value, the grid's where the line leaves it out."""
    return settings[name] if name in settings else getattr(defaults, name)


def streams_of(settings: Mapping[str, Any], defaults: JobDefaults) -> Streams:
    """Return whose the streams of a line are. An algorithm of somebody else's knows of no stream for each rank."""
    found: Streams = "host" if "algorithm" in settings else setting(settings, "streams", defaults)
    return found


def channels(data: S3Uri | Inputs, settings: Mapping[str, Any], defaults: JobDefaults) -> Inputs:
    """Return the channels of a job: its own, or the grid's below the folder where its data lies.

    Args:
        data: The folder, or the channels that the line names, with what it says of each and nothing else set.
        settings: The line's fields, for what a channel leaves open.
        defaults: The grid's, for what both leave open.
    """
    if not isinstance(data, dict):
        data = {name: Channel(uri=f"{data / name}/") for name in defaults.channels}
    return {name: _filled(channel, settings, defaults) for name, channel in data.items()}


def _filled(channel: Channel, settings: Mapping[str, Any], defaults: JobDefaults) -> Channel:
    said = channel.model_fields_set
    mode = channel.input_mode if "input_mode" in said else setting(settings, "input_mode", defaults)
    filled = {"input_mode": mode}
    if mode == "Pipe":
        # FullyReplicated would stream every record to every host: each would be trained on once for each of them.
        shared = streams_of(settings, defaults) == "host" and setting(settings, "instance_count", defaults) > 1
        filled["distribution"] = "ShardedByS3Key" if shared else "FullyReplicated"
        filled["shuffle_seed"] = setting(settings, "shuffle_seed", defaults)
    changed = {name: value for name, value in filled.items() if name not in said and value != getattr(channel, name)}
    return channel.model_copy(update=changed) if changed else channel


def streamed(inputs: Inputs) -> bool:
    """Return whether any channel comes as a stream."""
    return any(channel.input_mode == "Pipe" for channel in inputs.values())


def by_rank(inputs: Inputs, streams: str) -> list[str]:
    """Return the names of the channels that become one for each rank."""
    return [name for name, channel in inputs.items() if streams == "rank" and channel.input_mode == "Pipe"]


def names_in_request(inputs: Inputs, streams: str, ranks: int) -> list[str]:
    """Return the names of the channels that SageMaker is asked for."""
    dealt = by_rank(inputs, streams)
    return [name for channel in inputs for name in (rank_channels(channel, ranks) if channel in dealt else [channel])]


def rank_channels(channel: str, ranks: int) -> list[str]:
    """Return the names of a channel's streams by rank."""
    return [f"{channel}_{rank}" for rank in range(ranks)]


def channels_in_request(job: Job, training_job: str) -> Inputs:
    """Return the channels that SageMaker is asked for: a pure function, whether their ManifestFiles exist or not.

    Args:
        job: What to train.
        training_job: The training job's name, of which its ManifestFiles are.
    """
    dealt, found = by_rank(job.inputs, job.streams), {}
    for name, channel in job.inputs.items():
        if name not in dealt:
            found[name] = channel
            continue
        for one in rank_channels(name, job.ranks):
            uri = str(manifest_uri(job, training_job, one))
            found[one] = channel.model_copy(update={"uri": uri, "manifest": True})
    return found


def manifest_uri(job: Job, training_job: str, name: str) -> S3Uri:
    """Return where, in the output bucket of the job's Region, a ManifestFile of a training job lies."""
    return S3Uri.parse(job.output) / training_job / MANIFEST_FOLDER / f"{name}{MANIFEST_SUFFIX}"
