"""S3: reading manifests and submissions, writing submissions and reports."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid.clients import client
from traingrid.errors import UsageError
from traingrid.s3_uri import ObjectVersion, S3Uri

if TYPE_CHECKING:
    from collections.abc import Iterator

# What S3 answers where asking again does not help; a missing key is AccessDenied to a reader that may not list
# (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html).
_PIECE = 256 * 1024
_WRONG = {"AccessDenied", "NoSuchBucket", "NoSuchKey", "NoSuchVersion"}


class Storage:
    """Objects in S3.

    Args:
        region: The Region whose endpoint is asked; the environment's where none is given.
    """

    def __init__(self, region: str | None = None) -> None:
        self._s3: Any = client("s3", region)

    def read(self, uri: S3Uri, version: str | None = None, limit: int | None = None) -> bytes:
        """Return an object's bytes, at most one more than `limit` so that the caller sees that it is too large.

        An `ObjectVersion` names the version itself.

        Raises:
            UsageError: There is no such object or version, or the caller may not read it.
        """
        body = self._get(uri, **({"VersionId": version} if version else {}))["Body"]
        content: bytes = body.read() if limit is None else body.read(limit + 1)
        body.close()
        return content

    def pieces(self, uri: S3Uri, version: str) -> tuple[int, Iterator[bytes]]:
        """Return an object's size in bytes and its content piece by piece, of which nothing is read before it is asked.

        Raises:
            UsageError: There is no such object or version, or the caller may not read it.
        """
        reply = self._get(uri, VersionId=version)
        return int(reply["ContentLength"]), reply["Body"].iter_chunks(_PIECE)

    def read_if_exists(self, uri: S3Uri) -> bytes | None:
        """Return an object's bytes, or None if there is no such object."""
        try:
            content: bytes = self._s3.get_object(Bucket=uri.bucket, Key=uri.key)["Body"].read()
        except self._s3.exceptions.NoSuchKey:
            return None
        return content

    def read_versions(self, uri: S3Uri, most: int) -> Iterator[bytes]:
        """Yield the contents of an object's last versions, newest first; none if there is no such object."""
        reply = self._s3.list_object_versions(Bucket=uri.bucket, Prefix=uri.key, MaxKeys=most)
        for version in reply.get("Versions", []):
            if version["Key"] == uri.key:
                yield self.read(uri, version["VersionId"])

    def read_range(self, uri: S3Uri, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to, not including, `end`; fewer where the object ends before.

        Raises:
            UsageError: There is no such object, or the caller may not read it.
        """
        try:
            content: bytes = self._get(uri, Range=f"bytes={start}-{end - 1}")["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in ("InvalidRange", "416"):
                return b""
            raise
        return content

    def write(self, uri: S3Uri, content: bytes, content_type: str) -> str:
        """Write an object and return its version (empty where the bucket keeps none)."""
        reply = self._s3.put_object(Bucket=uri.bucket, Key=uri.key, Body=content, ContentType=content_type)
        return str(reply.get("VersionId", ""))

    def write_json(self, uri: S3Uri, document: object) -> None:
        """Write a JSON document that a person may read."""
        self.write(uri, json.dumps(document, indent=2).encode() + b"\n", "application/json")

    def _get(self, uri: S3Uri, **request: str) -> Any:
        if isinstance(uri, ObjectVersion) and uri.version:
            request.setdefault("VersionId", uri.version)
        try:
            return self._s3.get_object(Bucket=uri.bucket, Key=uri.key, **request)
        except ClientError as error:
            code, text = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
            if code not in _WRONG:
                raise
            message = f"{uri} cannot be read: {code}: {text}."
            raise UsageError(message, "Check the path and who may read it.") from error
