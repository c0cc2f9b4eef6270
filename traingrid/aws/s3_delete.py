"""Deletions in S3: deletes an object only if it is still the one that the caller has seen."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

from botocore.exceptions import ClientError

from traingrid.aws.clients import ClientFactory, client

if TYPE_CHECKING:
    from traingrid.aws.s3_uri import S3Uri

Deletion = Literal["deleted", "versioned", "changed"]
"""deleted: the object no longer exists. versioned: it has become a noncurrent version, which still costs storage.
changed: it has another ETag, and was kept."""
_CHANGED = {"PreconditionFailed", "ConditionalRequestConflict", "412", "409"}
_MISSING = {"NoSuchKey", "404"}


class Deleter:
    """Deletes objects of the buckets in one Region.

    Args:
        region: The Region of the buckets.
    """

    def __init__(self, region: str, make_client: ClientFactory = client) -> None:
        self._s3: Any = make_client("s3", region)

    def delete(self, uri: S3Uri, etag: str) -> Deletion:
        """Delete an object unless its ETag has changed."""
        return delete_unchanged(self._s3, uri, etag)


def delete_unchanged(s3: Any, uri: S3Uri, etag: str) -> Deletion:
    """Delete an object unless its ETag has changed.

    S3 replies 412 or 409 for a changed object and 404 for a missing one, and requires s3:GetObject, too
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-deletes.html).

    Args:
        etag: Its ETag, with its quotation marks.
    """
    try:
        reply = s3.delete_object(Bucket=uri.bucket, Key=uri.key, IfMatch=etag)
    except ClientError as error:
        code = error.response["Error"]["Code"]
        if code not in _CHANGED | _MISSING:
            raise
        return "changed" if code in _CHANGED else "deleted"
    return "versioned" if reply.get("VersionId") else "deleted"
