"""Uploads that S3 refuses, and moto 5.2.5 does not.

The codes and texts are those of https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html.
"""

import base64
import hashlib
from typing import TYPE_CHECKING, Any

from moto.s3.exceptions import S3ClientError
from moto.s3.responses import S3Response
from moto.s3.utils import metadata_from_headers

from localcloud.s3.checksums import checksum

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

MAX_KEY = 1024
"""Bytes of a key (https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-keys.html)."""
MAX_METADATA = 2048
"""Bytes of an object's own metadata, names and values
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/UsingMetadata.html)."""
_ALGORITHMS = ("CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256")
_put_object = S3Response.put_object


def install(cloud: "LocalCloud") -> None:
    """Replace moto's PutObject."""
    cloud.replace(S3Response, put_object=_checked_put)


def _checked_put(response: Any) -> Any:
    """PutObject."""
    check_upload(response.parse_key_name(), response.headers, response.body or b"")
    return _put_object(response)


def check_upload(key: str, headers: Any, body: bytes) -> None:
    """Refuse an object with a long key or much metadata, or with another content than its digest.

    Raises:
        S3ClientError: S3 would refuse the request.
    """
    if len(key.encode()) > MAX_KEY:
        raise S3ClientError("KeyTooLongError", "Your key is too long")
    user_metadata = {
        name: value for name, value in metadata_from_headers(headers).items() if name.startswith("x-amz-meta-")
    }
    if (
        sum(len(name.removeprefix("x-amz-meta-")) + len(str(value).encode()) for name, value in user_metadata.items())
        > MAX_METADATA
    ):
        raise S3ClientError("MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size")
    expected = headers.get("Content-MD5")
    if expected and base64.b64encode(hashlib.md5(body, usedforsecurity=False).digest()).decode() != expected:
        raise S3ClientError("BadDigest", "The Content-MD5 you specified did not match what we received.")
    for algorithm in _ALGORITHMS:
        expected = headers.get(f"x-amz-checksum-{algorithm.lower()}")
        if expected and checksum(body, algorithm).decode() != expected:
            raise S3ClientError("BadDigest", f"The {algorithm} you specified did not match the calculated checksum.")
