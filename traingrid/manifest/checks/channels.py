"""Channel check: all channels of the training job together; each channel is valid by itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.algorithms.images import RECORDIO
from traingrid.job.channels import CODE_CHANNEL, channels, channels_split_by_rank, is_streamed, names_in_request
from traingrid.job.launchers import processes_per_host
from traingrid.manifest.limits import limit_problem, most
from traingrid.manifest.line import uses_own_trainer
from traingrid.manifest.problem import Problem, drop_repeats

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.aws.s3_uri import S3Uri
    from traingrid.grid.job_defaults import JobDefaults
    from traingrid.job.job import Channel, Inputs
    from traingrid.manifest.allowed import Rules
    from traingrid.manifest.fields import LineSettings
    from traingrid.manifest.line import Line

_REFERENCE = "-ref"
"""The end of the name of an attribute that is the URI of an object
(https://docs.aws.amazon.com/sagemaker/latest/dg/augmented-manifest-stream.html)."""


def check(line: Line, rules: Rules) -> Iterator[Problem]:
    """Yield the errors of a job's channels taken together, each once for all of the line's Regions."""
    return drop_repeats(
        problem for data in line.places.values() for problem in _check_region(data, line.settings, rules)
    )


def _check_region(data: S3Uri | Inputs, settings: LineSettings, rules: Rules) -> Iterator[Problem]:
    """Yield the errors of the channels in one Region."""
    grid, defaults = rules.grid, settings.applied_to(rules.grid.job)
    inputs = channels(data, defaults)
    field = "inputs" if isinstance(data, dict) else "s3_uri"
    yield from _check_stream_support(inputs, settings)
    for name, channel in inputs.items():
        is_streamed = channel.attributes or channel.record_wrapper != "None"
        if is_streamed:
            yield from _check_streamed_settings(name, channel)
        if uses_own_trainer(settings, grid) and (is_streamed or channel.content_type == RECORDIO):
            yield from _check_trainer_formats(name, channel)
    split = channels_split_by_rank(inputs, defaults.streams)
    code = bool(settings.source) and grid.training.network_isolation
    yield from _too_many(inputs, split, settings, defaults, further_channels=code + (settings.init_from is not None))
    if code and CODE_CHANNEL in inputs:
        reason = f"with network isolation, the line's source uses the channel name {CODE_CHANNEL}"
        yield Problem("inputs", "", reason, "Give the channel another name.")
    for name in split:
        yield from _check_ranks(name, inputs[name])
    for uri in (channel.uri for channel in inputs.values() if channel.uri):
        if problem := limit_problem("S3Uri", uri):
            yield Problem(field, uri, f"the URI of a channel {problem}", "Use a shorter path.")


def _check_stream_support(inputs: Inputs, settings: LineSettings) -> Iterator[Problem]:
    for name in ("streams", "shuffle_seed"):
        value = getattr(settings, name)
        if value is not None and not is_streamed(inputs):
            reason = "only valid in Pipe mode, and no channel of the line uses it"
            yield Problem(name, value, reason, f"Write input_mode Pipe, or remove {name}.")
    mode = settings.input_mode or "File"
    if mode != "File" and all(channel.file_system for channel in inputs.values()):
        reason = f"the mode {mode} is for data in S3, and all channels of the line are on file systems"
        yield Problem("input_mode", mode, reason, "Remove input_mode.")
    if settings.streams == "rank" and settings.algorithm:
        reason = "the program of an algorithm does not support one stream per rank"
        yield Problem("streams", "rank", reason, "Write host, or remove streams.")


def _check_streamed_settings(name: str, channel: Channel) -> Iterator[Problem]:
    """Check the settings that SageMaker supports in Pipe mode only.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html (S3DataType) and
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Channel.html (RecordWrapperType).
    """
    if channel.attributes and channel.manifest:
        reason = f"the channel {name} has manifest and attributes, but its file has one of the two formats"
        yield Problem("inputs", channel.uri, reason, "Remove manifest if the file is an augmented manifest.")
    if channel.attributes and channel.uri.endswith("/"):
        reason = f"the channel {name} has attributes, but its URI is a folder"
        yield Problem("inputs", channel.uri, reason, "Give the URI of the augmented manifest file.")
    stream_settings = {
        "attributes": bool(channel.attributes),
        "record_wrapper RecordIO": channel.record_wrapper != "None",
    }
    for setting_name in (key for key, is_used in stream_settings.items() if is_used and channel.input_mode != "Pipe"):
        reason = (
            f"SageMaker supports {setting_name} only in Pipe mode, and the channel {name} is in {channel.input_mode}"
        )
        yield Problem("inputs", channel.uri, reason, "Write input_mode Pipe.")


def _check_trainer_formats(name: str, channel: Channel) -> Iterator[Problem]:
    """Check that the training image's own trainer can read a channel (docs/input.md, "RecordIO")."""
    references = [attribute.endswith(_REFERENCE) for attribute in channel.attributes]
    reason = ""
    if channel.attributes and (references != [True, False] or channel.record_wrapper == "None"):
        reason = (
            f"the training image's own trainer reads an augmented manifest with record_wrapper RecordIO and two "
            f"attributes, an image (a name with {_REFERENCE}) and its label, unlike the channel {name}"
        )
    elif channel.record_wrapper != "None" and not channel.attributes:
        reason = (
            f"record_wrapper RecordIO wraps each object of the channel {name}, which then has no label for the "
            "training image's own trainer"
        )
    elif channel.content_type == RECORDIO and channel.input_mode != "Pipe":
        reason = (
            f"the training image's own trainer reads RecordIO only in Pipe mode, and the channel {name} is in "
            f"{channel.input_mode}"
        )
    if reason:
        yield Problem("inputs", channel.uri, reason, "Correct the channel, or give a script as source.")


def _too_many(
    inputs: Inputs, split: list[str], settings: LineSettings, defaults: JobDefaults, *, further_channels: int
) -> Iterator[Problem]:
    """Check the number of channels; of those in `split`, each rank has one."""
    ranks = defaults.instance_count * processes_per_host(defaults) if split else 1
    number = len(inputs) + len(split) * (ranks - 1) + further_channels
    greatest = most("InputDataConfig")
    if number > greatest and split:
        reason = (
            f"one stream for each of {ranks} ranks of {' and '.join(split)} requires {number} channels, "
            f"and SageMaker allows at most {greatest}"
        )
        next_step = "Write streams host, which uses one channel for all ranks, or train on fewer ranks."
        yield Problem("streams", settings.streams or "", reason, next_step)
    elif number > greatest:
        reason = f"the job has {number} channels, and SageMaker allows at most {greatest}"
        yield Problem("inputs", "", reason, "Remove some channels.")
    if number > greatest or not split:
        return
    requested = names_in_request(inputs, "rank", ranks)
    repeated = sorted({name for name in requested if requested.count(name) > 1})
    too_long = [name for name in requested if limit_problem("ChannelName", name)]
    for channel_names, violation in ((repeated, "occurs twice"), (too_long, "has too long a name")):
        if channel_names:
            reason = f"with one stream per rank, the channel {channel_names[0]} {violation}"
            yield Problem("inputs", "", reason, "Give the channel another name, or write streams host.")


def _check_ranks(name: str, channel: Channel) -> Iterator[Problem]:
    if channel.lists_objects:
        kind = "an augmented manifest" if channel.attributes else "a ManifestFile"
        reason = f"the channel {name} is {kind}, but traingrid writes the ManifestFiles for one stream per rank"
        yield Problem("inputs", channel.uri, reason, "Give the folder of its objects, or write streams host.")
    if channel.distribution != "FullyReplicated":
        reason = f"the channel {name} is sharded by host, but streams rank already shards it by rank"
        yield Problem("inputs", channel.distribution, reason, "Remove distribution, or write streams host.")
