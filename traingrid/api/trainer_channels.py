"""Trainer channels: converts a ModelTrainer's input data into the `inputs` of a line in one Region."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from traingrid.api.trainer_attributes import attributes, is_a
from traingrid.errors import UsageError
from traingrid.text import shown

Data: TypeAlias = Mapping[str, Mapping[str, str]]
"""The URI of each channel, by Region and channel."""

_WHERE = 'Write {region} into the URI, or give data={"us-east-1": {"train": "s3://…"}, …}.'
_MANIFEST = {"S3Prefix": False, "ManifestFile": True, "AugmentedManifestFile": False}
# ModelTrainer sets this mode for channels that are given as URIs; `training_input_mode` applies to the others
# (`create_input_data_channel` in train/model_trainer.py of the SDK).
_MODE_OF_URIS = "File"


def channels_of(inputs: Sequence[object], default_mode: str, path: str) -> dict[str, dict[str, Any]]:
    """Return the channels of a ModelTrainer, by name; URIs are the trainer's URIs.

    Args:
        inputs: The objects of `input_data_config`.
        default_mode: The trainer's `training_input_mode`.
        path: The place of `input_data_config`, for errors.

    Raises:
        UsageError: A channel cannot be converted.
    """
    channels: dict[str, dict[str, Any]] = {}
    for number, entry in enumerate(inputs):
        place = f"{path}[{number}]"
        convert = _channel if is_a(entry, "Channel") else _input_data
        values = attributes(entry, place)
        name = values.get("channel_name")
        if not name or name in channels:
            problem = "is used twice" if name else "is not set"
            raise UsageError(f"{place}.channel_name {problem}.", "Give each channel a different name.")
        channel = {"input_mode": default_mode, "distribution": "FullyReplicated", **convert(values, place)}
        if values.get("content_type"):
            channel["content_type"] = values["content_type"]
        channels[name] = channel
    return channels


def channels_in_region(
    channels: Mapping[str, Mapping[str, Any]], region: str, data: Data, *, several: bool
) -> dict[str, dict[str, Any]]:
    """Return the channels with their URIs in one Region.

    Args:
        data: URIs that replace the trainer's URIs, or add channels.
        several: True if the trainer is converted for several Regions.

    Raises:
        UsageError: A channel has no URI in this Region, or there is no channel.
    """
    uris = data.get(region, {})
    if not isinstance(uris, Mapping):
        raise UsageError(f"data[{region!r}] is not a dictionary of channels.", _WHERE)
    regional = {name: dict(channel) for name, channel in channels.items()}
    for name, own in uris.items():
        regional.setdefault(name, {"input_mode": _MODE_OF_URIS, "distribution": "FullyReplicated"})["uri"] = own
    for name, channel in regional.items():
        uri = channel.get("uri")
        if not isinstance(uri, str) or not uri.startswith("s3://"):
            text = f"The data of channel {name} is {shown(str(uri))}, not an S3 URI."
            raise UsageError(text, "Upload it with `traingrid upload FOLDER REGION`, and give the URIs as `data`.")
        if several and name not in uris and "{region}" not in uri:
            text = f"Channel {name} has one URI for several Regions, {shown(uri)}, but a job reads its own Region only."
            raise UsageError(text, _WHERE)
        channel["uri"] = uri.replace("{region}", region)
    if not regional:
        raise UsageError("The trainer has no input_data_config.", _WHERE)
    return regional


def _input_data(values: Mapping[str, Any], place: str) -> dict[str, Any]:
    source = values.get("data_source")
    if isinstance(source, str):
        return {"uri": source, "input_mode": _MODE_OF_URIS}
    return {} if source is None else _s3(source, f"{place}.data_source")


def _channel(values: Mapping[str, Any], place: str) -> dict[str, Any]:
    source = attributes(values["data_source"], f"{place}.data_source")
    fields = _s3(source["s3_data_source"], f"{place}.data_source.s3_data_source") if source else {}
    if "input_mode" in values:
        fields["input_mode"] = values["input_mode"]
    if "shuffle_config" in values:
        fields["shuffle_seed"] = attributes(values["shuffle_config"], f"{place}.shuffle_config")["seed"]
    if "record_wrapper_type" in values:
        fields["record_wrapper"] = values["record_wrapper_type"]
    return fields


def _s3(source: object, place: str) -> dict[str, Any]:
    values = attributes(source, place)
    if values["s3_data_type"] not in _MANIFEST:
        text = f"{place}.s3_data_type {values['s3_data_type']} cannot be converted."
        raise UsageError(text, "Use S3Prefix, ManifestFile or AugmentedManifestFile.")
    fields: dict[str, Any] = {"uri": values["s3_uri"], "manifest": _MANIFEST[values["s3_data_type"]]}
    if values["s3_data_type"] == "AugmentedManifestFile":
        if not values.get("attribute_names"):
            raise UsageError(f"{place}.attribute_names is not set.", "List the attributes to stream.")
        fields["attributes"] = list(values["attribute_names"])
    if "s3_data_distribution_type" in values:
        fields["distribution"] = values["s3_data_distribution_type"]
    return fields
