"""Channel reader: validates one channel of a line's `inputs`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traingrid.job.job import Channel
from traingrid.manifest import readers, values
from traingrid.manifest.limits import choices, limit_problem
from traingrid.manifest.mounted_channel import mounted_channel
from traingrid.manifest.problem import RefusedError, literal

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.manifest.allowed import Rules

_URI = "Write s3://bucket/prefix."
_READERS: dict[str, Callable[[object], Any]] = {
    "input_mode": lambda value: _choice(value, "TrainingInputMode"),
    "distribution": lambda value: _choice(value, "S3DataDistribution"),
    "shuffle_seed": lambda value: None if value is None else readers.shuffle_seed(value),
    "manifest": values.flag,
    "content_type": lambda value: values.text(value, "ContentType", "Write for example application/x-recordio."),
    "attributes": readers.attribute_names,
    "record_wrapper": lambda value: _choice(value, "RecordWrapper"),
}
"""The optional keys of a channel, with the function that reads each."""


def channel(name: str, value: object, region: str, rules: Rules) -> Channel:
    """Return the channel that a line defines by a URI or by an object; keys that the line omits stay unset.

    An object with `file_system` is a folder of a file system, another one data in S3.

    Raises:
        RefusedError: The channel is invalid.
    """
    problem = limit_problem("ChannelName", name)
    if problem:
        raise RefusedError(f"the name of the channel {problem}", "Give the channel another name.")
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


def _choice(value: object, shape: str) -> Any:
    if value not in choices(shape):
        raise RefusedError(f"SageMaker does not support {literal(value)}", f"Write {' or '.join(choices(shape))}.")
    return value
