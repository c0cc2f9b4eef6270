"""Channel validation: checks each channel of a manifest line, and all channels of the training job together."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.algorithms.images import RECORDIO
from traingrid.job.channels import CODE_CHANNEL, by_rank, channels, names_in_request, setting, streamed, streams_of
from traingrid.job.job import Channel
from traingrid.job.launchers import processes_per_host
from traingrid.manifest import values
from traingrid.manifest.file_system_checks import mounted_channel
from traingrid.manifest.limits import broken_limit, choices, most
from traingrid.manifest.line import is_ours
from traingrid.manifest.values import RefusedError, literal

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    from traingrid.aws.s3_uri import S3Uri
    from traingrid.grid.job_defaults import JobDefaults
    from traingrid.grid.model import Grid
    from traingrid.job.job import Inputs
    from traingrid.manifest.allowed import Rules

_URI = "Write s3://bucket/prefix."
_READERS: dict[str, Callable[[object], Any]] = {
    "input_mode": lambda value: _choice(value, "TrainingInputMode"),
    "distribution": lambda value: _choice(value, "S3DataDistribution"),
    "shuffle_seed": lambda value: None if value is None else values.shuffle_seed(value),
    "manifest": values.flag,
    "content_type": lambda value: values.text(value, "ContentType", "Write for example application/x-recordio."),
    "attributes": values.attribute_names,
    "record_wrapper": lambda value: _choice(value, "RecordWrapper"),
}
"""The optional keys of a channel, with the function that reads each."""

_REFERENCE = "-ref"
"""The end of the name of an attribute that is the URI of an object
(https://docs.aws.amazon.com/sagemaker/latest/dg/augmented-manifest-stream.html)."""
Wrong = tuple[str, object, RefusedError]
"""A field, its invalid value, and the reason."""


def channel(name: str, value: object, region: str, rules: Rules) -> Channel:
    """Return the channel that a line defines by a URI or by an object; keys that the line omits stay unset.

    An object with `file_system` is a folder of a file system, another one data in S3.

    Raises:
        RefusedError: The channel is invalid.
    """
    broken = broken_limit("ChannelName", name)
    if broken:
        raise RefusedError(f"the name of the channel {broken}", "Give the channel another name.")
    fields: dict[str, Any] = value if isinstance(value, dict) else {"uri": value}
    unknown = [key for key in fields if key not in Channel.model_fields]
    if not unknown and "file_system" in fields:
        return mounted_channel(fields, region, rules)
    if unknown or "uri" not in fields:
        reason = f"unknown key {literal(unknown[0])}" if unknown else "the key uri is missing, or file_system and path"
        raise RefusedError(reason, f"The keys of a channel are {', '.join(Channel.model_fields)}.")
    for key in ("type", "path"):
        if key in fields:
            raise RefusedError(f"{key} is only valid with file_system", f"Remove {key}, or write file_system for uri.")
    uri = str(rules.data(fields["uri"], region, _URI)) + "/" * str(fields["uri"]).endswith("/")
    return Channel(uri=uri, **{key: read(fields[key]) for key, read in _READERS.items() if key in fields})


def wrong_channels(place: S3Uri | Inputs, settings: Mapping[str, Any], grid: Grid) -> Iterator[Wrong]:
    """Yield the errors of a job's channels taken together in one Region; each channel is valid by itself."""
    defaults, brought = grid.job, "source" in settings and grid.training.network_isolation
    inputs, at = channels(place, settings, defaults), "inputs" if isinstance(place, dict) else "s3_uri"
    trained_by_ours = is_ours(settings, grid) and "source" not in settings
    yield from _without_streams(inputs, settings)
    for name, found in inputs.items():
        if found.attributes or found.record_wrapper != "None":
            yield from _only_streamed(name, found)
        if trained_by_ours and (found.attributes or found.record_wrapper != "None" or found.content_type == RECORDIO):
            yield from _not_for_the_trainer(name, found)
    dealt = by_rank(inputs, streams_of(settings, defaults))
    yield from _too_many(inputs, dealt, settings, defaults, others=int(brought) + ("init_from" in settings))
    if brought and CODE_CHANNEL in inputs:
        reason = f"with network isolation, the line's source uses the channel name {CODE_CHANNEL}"
        yield "inputs", "", RefusedError(reason, "Give the channel another name.")
    for name in dealt:
        yield from _not_for_ranks(name, inputs[name])
    for found in (channel for channel in inputs.values() if channel.uri):
        broken = broken_limit("S3Uri", found.uri)
        if broken:
            yield at, found.uri, RefusedError(f"the URI of a channel {broken}", "Use a shorter path.")


def _without_streams(inputs: Inputs, settings: Mapping[str, Any]) -> Iterator[Wrong]:
    for name in ("streams", "shuffle_seed"):
        if name in settings and not streamed(inputs):
            reason = "only valid in Pipe mode, and no channel of the line uses it"
            yield name, settings[name], RefusedError(reason, f"Write input_mode Pipe, or remove {name}.")
    mode = settings.get("input_mode", "File")
    if mode != "File" and all(channel.file_system for channel in inputs.values()):
        reason = f"the mode {mode} is for data in S3, and all channels of the line are on file systems"
        yield "input_mode", mode, RefusedError(reason, "Remove input_mode.")
    if settings.get("streams") == "rank" and "algorithm" in settings:
        reason = "the program of an algorithm does not support one stream per rank"
        yield "streams", "rank", RefusedError(reason, "Write host, or remove streams.")


def _only_streamed(name: str, found: Channel) -> Iterator[Wrong]:
    """Check the settings that SageMaker supports in Pipe mode only.

    Source: https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html (S3DataType) and
    https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_Channel.html (RecordWrapperType).
    """
    if found.attributes and found.manifest:
        reason = f"the channel {name} has manifest and attributes, but its file has one of the two formats"
        yield "inputs", found.uri, RefusedError(reason, "Remove manifest if the file is an augmented manifest.")
    if found.attributes and found.uri.endswith("/"):
        reason = f"the channel {name} has attributes, but its URI is a folder"
        yield "inputs", found.uri, RefusedError(reason, "Give the URI of the augmented manifest file.")
    used = {"attributes": bool(found.attributes), "record_wrapper RecordIO": found.record_wrapper != "None"}
    for setting_name in (one for one, given in used.items() if given and found.input_mode != "Pipe"):
        reason = f"SageMaker supports {setting_name} only in Pipe mode, and the channel {name} is in {found.input_mode}"
        yield "inputs", found.uri, RefusedError(reason, "Write input_mode Pipe.")


def _not_for_the_trainer(name: str, found: Channel) -> Iterator[Wrong]:
    """Check that the training image's own trainer can read a channel (docs/training.md, "RecordIO")."""
    references = [attribute.endswith(_REFERENCE) for attribute in found.attributes]
    reason = ""
    if found.attributes and (references != [True, False] or found.record_wrapper == "None"):
        reason = (
            f"the training image's own trainer reads an augmented manifest with record_wrapper RecordIO and two "
            f"attributes, an image (a name with {_REFERENCE}) and its label, unlike the channel {name}"
        )
    elif found.record_wrapper != "None" and not found.attributes:
        reason = (
            f"record_wrapper RecordIO wraps each object of the channel {name}, which then has no label for the "
            "training image's own trainer"
        )
    elif found.content_type == RECORDIO and found.input_mode != "Pipe":
        reason = (
            f"the training image's own trainer reads RecordIO only in Pipe mode, and the channel {name} is in "
            f"{found.input_mode}"
        )
    if reason:
        yield "inputs", found.uri, RefusedError(reason, "Correct the channel, or give a script as source.")


def _too_many(
    inputs: Inputs, dealt: list[str], settings: Mapping[str, Any], defaults: JobDefaults, *, others: int
) -> Iterator[Wrong]:
    """Check the number of channels; `dealt` are those of which each rank has one."""
    ranks, greatest = _ranks(settings, defaults) if dealt else 1, most("InputDataConfig")
    number = len(inputs) + len(dealt) * (ranks - 1) + others
    if number > greatest and dealt:
        reason = (
            f"one stream for each of {ranks} ranks of {' and '.join(dealt)} requires {number} channels, "
            f"and SageMaker allows at most {greatest}"
        )
        next_step = "Write streams host, which uses one channel for all ranks, or train on fewer ranks."
        yield "streams", settings.get("streams", ""), RefusedError(reason, next_step)
    elif number > greatest:
        reason = f"the job has {number} channels, and SageMaker allows at most {greatest}"
        yield "inputs", "", RefusedError(reason, "Remove some channels.")
    if number > greatest or not dealt:
        return
    asked = names_in_request(inputs, "rank", ranks)
    twice = sorted({name for name in asked if asked.count(name) > 1})
    long = [name for name in asked if broken_limit("ChannelName", name)]
    for name, why in ((twice, "occurs twice"), (long, "has too long a name")):
        if name:
            reason = f"with one stream per rank, the channel {name[0]} {why}"
            yield "inputs", "", RefusedError(reason, "Give the channel another name, or write streams host.")


def _not_for_ranks(name: str, found: Channel) -> Iterator[Wrong]:
    if found.lists_objects:
        kind = "an augmented manifest" if found.attributes else "a ManifestFile"
        reason = f"the channel {name} is {kind}, but traingrid writes the ManifestFiles for one stream per rank"
        yield "inputs", found.uri, RefusedError(reason, "Give the folder of its objects, or write streams host.")
    if found.distribution != "FullyReplicated":
        reason = f"the channel {name} is sharded by host, but streams rank already shards it by rank"
        yield "inputs", found.distribution, RefusedError(reason, "Remove distribution, or write streams host.")


def _ranks(settings: Mapping[str, Any], defaults: JobDefaults) -> int:
    return int(setting(settings, "instance_count", defaults)) * processes_per_host(settings, defaults)


def _choice(value: object, shape: str) -> Any:
    if value not in choices(shape):
        raise RefusedError(f"SageMaker does not support {literal(value)}", f"Write {' or '.join(choices(shape))}.")
    return value
