"""S3: reading manifests and submissions, writing submissions and reports."""

from __future__ import annotations

import json
from typing import Any

from botocore.exceptions import ClientError

from traingrid.clients import client
from traingrid.errors import TraingridError
from traingrid.s3_uri import S3Uri


class Storage:
    """Objects in S3.

    Args:
        region: The Region whose endpoint is asked; the environment's where none is given.
    """

    def __init__(self, region: str | None = None) -> None:
        self._s3: Any = client("s3", region)

    def read(self, uri: S3Uri, version: str | None = None, limit: int | None = None) -> bytes:
        """Return an object's bytes, at most one more than `limit` so that the caller sees that it is too large.

        Raises:
            TraingridError: There is no such object or version.
        """
        request = {"Bucket": uri.bucket, "Key": uri.key}
        if version:
            request["VersionId"] = version
        try:
            body = self._s3.get_object(**request)["Body"]
        except ClientError as error:
            raise _not_readable(uri, error) from error
        content: bytes = body.read() if limit is None else body.read(limit + 1)
        body.close()
        return content

    def read_if_exists(self, uri: S3Uri) -> bytes | None:
        """Return an object's bytes, or None if there is no such object."""
        try:
            content: bytes = self._s3.get_object(Bucket=uri.bucket, Key=uri.key)["Body"].read()
        except self._s3.exceptions.NoSuchKey:
            return None
        return content

    def read_range(self, uri: S3Uri, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to, not including, `end`; fewer where the object ends before.

        Raises:
            TraingridError: There is no such object.
        """
        try:
            reply = self._s3.get_object(Bucket=uri.bucket, Key=uri.key, Range=f"bytes={start}-{end - 1}")
        except ClientError as error:
            if error.response["Error"]["Code"] in ("InvalidRange", "416"):
                return b""
            raise _not_readable(uri, error) from error
        content: bytes = reply["Body"].read()
        return content

    def write(self, uri: S3Uri, content: bytes, content_type: str) -> str:
        """Write an object and return its version (empty where the bucket keeps none)."""
        reply = self._s3.put_object(Bucket=uri.bucket, Key=uri.key, Body=content, ContentType=content_type)
        return str(reply.get("VersionId", ""))

    def write_json(self, uri: S3Uri, document: object) -> None:
        """Write a JSON document that a person may read."""
        self.write(uri, json.dumps(document, indent=2).encode() + b"\n", "application/json")


def _not_readable(uri: S3Uri, error: ClientError) -> TraingridError:
    code, message = error.response["Error"]["Code"], error.response["Error"].get("Message", "")
    return TraingridError(f"{uri} cannot be read: {code}: {message}.", "Check the path and who may read it.")
