"""Items of a Pipe channel: its objects, or the lines of its augmented manifest, and their form in the stream."""

import json
import struct
from collections.abc import Iterator, Mapping
from typing import Any

from localcloud.sagemaker.request import Channel, S3Uri
from localcloud.sagemaker.transfer import objects

Item = tuple[S3Uri | bytes, ...]
"""An object, or the attributes of a line of an augmented manifest, each an object or bytes."""

_RECORDIO = 0xCED7230A
"""The first four bytes of a record (https://mxnet.apache.org/api/architecture/note_data_loading#data-format)."""
_MAX_RECORD_BYTES = 1 << 29
_REFERENCE = "-ref"


def items(s3: Any, channel: Channel) -> Iterator[Item]:
    """Yield the items of a channel in order.

    Raises:
        ClientError: If S3 refuses a call.
        ValueError, LookupError: If the manifest cannot be read.
    """
    if channel.data_type != "AugmentedManifestFile":
        yield from ((S3Uri(bucket=bucket, key=key),) for (bucket, key), _ in objects(s3, channel))
        return
    uri = S3Uri.parse(channel.uri)
    lines = s3.get_object(Bucket=uri.bucket, Key=uri.key)["Body"].read().decode().splitlines()
    for number, line in enumerate(lines, start=1):
        if line.strip():
            values = json.loads(line)
            yield tuple(_part(number, values, name) for name in channel.attributes)


def _part(number: int, values: Mapping[str, Any], name: str) -> S3Uri | bytes:
    """Return an attribute of a line: the object that a "-ref" attribute names, or the text of its value.

    Source: https://docs.aws.amazon.com/sagemaker/latest/dg/augmented-manifest.html. It requires the listed attributes,
    and shows the text of a number only; text is streamed as it is, other values as JSON.
    """
    if name not in values:
        message = f"line {number} of the augmented manifest has no attribute {name}"
        raise LookupError(message)
    value = values[name]
    if name.endswith(_REFERENCE):
        return S3Uri.parse(str(value))
    text = value if isinstance(value, str) else json.dumps(value)
    return text.encode()


def recordio(size: int) -> tuple[bytes, bytes]:
    """Return the bytes before and after the data of a RecordIO record.

    It has four bytes that mark its start, the length in 29 bits, and zeros up to a multiple of four bytes. Like the
    SageMaker Python SDK (src/sagemaker/amazon/common.py), this does not split data that contain the mark.

    Raises:
        ValueError: The data are too long for a record.
    """
    if size >= _MAX_RECORD_BYTES:
        message = f"{size} bytes do not fit into a RecordIO record"
        raise ValueError(message)
    return struct.pack("<II", _RECORDIO, size), bytes(-size % 4)
