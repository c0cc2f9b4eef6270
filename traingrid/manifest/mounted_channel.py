"""Mounted channel reader: validates a channel that mounts a folder of EFS or FSx for Lustre."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, get_args

from traingrid.grid.file_systems import FileSystemType
from traingrid.job.job import Channel
from traingrid.manifest import values
from traingrid.manifest.limits import choices, limit_problem
from traingrid.manifest.problem import RefusedError, literal

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.manifest.allowed import Rules

_ID = re.compile(r"fs-[0-9a-f]{8,18}")
_IN_S3_ONLY = ("distribution", "shuffle_seed", "manifest", "attributes", "record_wrapper")
_MIME = "Write for example application/x-recordio."
_EXAMPLE = "Write for example /imagenet/train."
_LUSTRE_PATH = (
    "Write /MOUNT-NAME/folder; `aws fsx describe-file-systems` prints the mount name as LustreConfiguration.MountName."
)


def mounted_channel(fields: Mapping[str, Any], region: str, rules: Rules) -> Channel:
    """Return the channel that a line defines by a file system and a folder.

    Args:
        fields: The keys of the channel, all of which are known.

    Raises:
        RefusedError: The channel is invalid.
    """
    _check_keys(fields)
    file_system = _id(fields["file_system"])
    kind = rules.file_system(file_system, region)
    kind = _type(fields.get("type"), kind, file_system)
    attributes: dict[str, Any] = {"file_system": file_system, "type": kind, "path": _path(fields["path"], kind)}
    if "content_type" in fields:
        attributes["content_type"] = values.text(fields["content_type"], "ContentType", _MIME)
    return Channel(**attributes)


def _check_keys(fields: Mapping[str, Any]) -> None:
    if "uri" in fields:
        raise RefusedError("uri and file_system cannot be combined", "Remove one of them.")
    if "path" not in fields:
        raise RefusedError("file_system requires path, the folder to mount", _EXAMPLE)
    for key in _IN_S3_ONLY:
        if key in fields:
            raise RefusedError(f"{key} is only valid for data in S3, not for a file system", f"Remove {key}.")
    # "an Amazon S3 data source" is the only source of the fast file and pipe modes:
    # https://docs.aws.amazon.com/sagemaker/latest/dg/model-access-training-data.html
    mode = fields.get("input_mode", "File")
    if mode != "File":
        reason = f"a file system is mounted, so it has no input mode {literal(mode)}, which is for data in S3"
        raise RefusedError(reason, "Remove input_mode.")


def _id(value: object) -> str:
    if isinstance(value, str) and _ID.fullmatch(value):
        return value
    reason = f"{literal(value)} is not the id of a file system: fs- and 8 to 18 hexadecimal digits"
    raise RefusedError(reason, "Write the id that the console of EFS or FSx shows.")


def _type(value: object, listed: str, file_system: str) -> str:
    """Return the type of a file system; `listed` is its type in grid.yaml, or empty if the Region is not in it."""
    types = choices("FileSystemType")
    if value is None:
        return listed or get_args(FileSystemType)[0]
    if value not in types:
        reason = f"{literal(value)} is not a type of file system that SageMaker mounts"
        raise RefusedError(reason, f"Write {' or '.join(types)}, or omit type.")
    if listed and value != listed:
        reason = f"grid.yaml lists {file_system} with the type {listed}, not {value}"
        raise RefusedError(reason, f"Write {listed}, or omit type.")
    return str(value)


def _path(value: object, kind: str) -> str:
    """Return the folder to mount, without a slash at its end.

    A path of an FSx for Lustre file system begins with the file system's mount name
    (https://github.com/aws/sagemaker-python-sdk/pull/4257).
    """
    if not isinstance(value, str) or not value.startswith("/"):
        raise RefusedError(f"the path {literal(value)} is not absolute", _EXAMPLE)
    parts = value.rstrip("/").split("/")[1:]
    if any(part in ("", ".", "..") for part in parts):
        raise RefusedError(f"the path {literal(value)} must not contain //, . or ..", _EXAMPLE)
    if problem := limit_problem("DirectoryPath", value):
        raise RefusedError(f"the path {problem}", _EXAMPLE)
    if kind == "FSxLustre" and not parts:
        raise RefusedError("the path of an FSx for Lustre file system begins with its mount name", _LUSTRE_PATH)
    return "/" + "/".join(parts)
