"""Ranges in S3: lists a folder's objects, and reads parts of them, in the Region of any bucket."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.aws.clients import ClientFactory, client
from traingrid.aws.s3_copy import Listed
from traingrid.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.aws.s3_uri import S3Uri

KEYS_PER_LIST = 1000
"""Keys that a request to list returns (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html)."""


class Ranges:
    """The objects of a caller's buckets. botocore redirects a request to the bucket's Region.

    Args:
        make_client: Makes the client, which `CALLS_AT_ONCE` threads may share.
    """

    def __init__(self, make_client: ClientFactory = client) -> None:
        self._s3: Any = make_client("s3")

    def below(self, folder: S3Uri) -> Iterator[Listed]:
        """Yield the objects below a folder in the order of their keys.

        Raises:
            UsageError: The bucket does not exist, or the caller may not list it.
        """
        prefix = f"{folder.key}/" if folder.key else ""
        try:
            for page in self._s3.get_paginator("list_objects_v2").paginate(Bucket=folder.bucket, Prefix=prefix):
                yield from map(Listed.of, page.get("Contents", []))
        except ClientError as error:
            raise _range_error(f"{folder} cannot be listed", error) from error

    def read(self, uri: S3Uri, etag: str, start: int, end: int) -> bytes:
        """Return the bytes of an object from `start` up to, not including, `end`.

        Raises:
            UsageError: The object was replaced since it was listed, or the caller may not read it.
        """
        try:
            reply = self._s3.get_object(Bucket=uri.bucket, Key=uri.key, IfMatch=etag, Range=f"bytes={start}-{end - 1}")
            content: bytes = reply["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in ("PreconditionFailed", "412", "NoSuchKey"):
                message = f"{uri} was replaced or deleted while it was read."
                raise UsageError(message, "Run the command again when the upload is complete.") from error
            raise _range_error(f"{uri} cannot be read", error) from error
        return content


def _range_error(request: str, error: ClientError) -> UsageError | ClientError:
    """Return the error for a request that the caller can correct; another error as it is."""
    code = error.response["Error"]["Code"]
    text = error.response["Error"].get("Message", "")
    if code not in ("AccessDenied", "NoSuchBucket", "403", "404"):
        return error
    return UsageError(f"{request}: {code}: {text}.", "Check the URI and your permissions.")
