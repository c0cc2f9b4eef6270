"""S3: reading manifests and submissions, writing submissions and reports."""

from __future__ import annotations

import json
import time
import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.clients import ActingRole, Maker, client, once
from traingrid.errors import UsageError
from traingrid.outage import is_outage
from traingrid.s3_uri import ObjectVersion, S3Uri
from traingrid.waits import OUTAGE_CAP, backoff_seconds

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = 256 * 1024
_UPLOADS = 5
_MARK = "traingrid-upload"  # metadata of an object: which upload made this version
_VERSIONS_LOOKED_AT = 20  # others may upload under the same key meanwhile
# What S3 answers where asking again does not help; a missing key is AccessDenied to a reader that may not list
# (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html).
_WRONG = {"AccessDenied", "NoSuchBucket", "NoSuchKey", "NoSuchVersion"}


class Storage:
    """Objects in S3.

    Args:
        region: The Region whose endpoint is asked; the environment's where none is given.
        make: Makes the client.
        role: Whom it acts as, in another account.
    """

    def __init__(self, region: str | None = None, make: Maker = client, role: ActingRole | None = None) -> None:
        self._s3: Any = make("s3", region, role)
        self._region, self._role = region, role

    @cached_property
    def _sent_once(self) -> Any:
        return once("s3", self._region, self._role)

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

    def write_new(self, uri: S3Uri, content: bytes, content_type: str) -> str:
        """Write an object as exactly one new version, whatever becomes of the reply, and return that version.

        botocore sends a PutObject again whose reply was lost, which makes two versions: of a manifest, two submissions.
        So it is sent once, and what became of it is looked up before it is sent again.

        Raises:
            BotoCoreError: S3 has not answered, time and again.
            ClientError: It refuses.
        """
        mark = uuid.uuid4().hex
        request = {"Bucket": uri.bucket, "Key": uri.key, "Body": content, "ContentType": content_type}
        tries = 0
        while True:
            try:
                reply = self._sent_once.put_object(**request, Metadata={_MARK: mark})
                return str(reply.get("VersionId", ""))
            except (BotoCoreError, ClientError) as error:
                if not is_outage(error):
                    raise
                lost, tries = error, tries + 1
            time.sleep(backoff_seconds(tries, OUTAGE_CAP))
            version = self._marked(uri, mark)
            if version is not None:
                return version
            if tries == _UPLOADS:
                raise lost

    def write_if_none(self, uri: S3Uri, content: bytes, content_type: str) -> bool:
        """Write an object unless there is one of this key, whoever wrote it; return False if there is.

        False also where this very call has written it and the reply was lost, because botocore sends it again.
        https://docs.aws.amazon.com/AmazonS3/latest/userguide/conditional-writes.html
        """
        request = {"Bucket": uri.bucket, "Key": uri.key, "Body": content, "ContentType": content_type}
        tries = 0
        while True:
            try:
                self._s3.put_object(**request, IfNoneMatch="*")
            except ClientError as error:
                code = error.response["Error"]["Code"]
                if code == "PreconditionFailed":
                    return False
                tries += 1
                if code != "ConditionalRequestConflict" or tries == _UPLOADS:  # another write of it is under way
                    raise
                time.sleep(backoff_seconds(tries, OUTAGE_CAP))
            else:
                return True

    def sizes(self, prefix: S3Uri) -> Iterator[tuple[str, int]]:
        """Yield key and size in bytes of every object whose key begins with that of `prefix`."""
        pages = self._s3.get_paginator("list_objects_v2").paginate(Bucket=prefix.bucket, Prefix=prefix.key)
        for page in pages:
            for entry in page.get("Contents", []):
                yield entry["Key"], entry["Size"]

    def _marked(self, uri: S3Uri, mark: str) -> str | None:
        """Return the version of an object that bears a mark, if one of its last versions does."""
        reply = self._s3.list_object_versions(Bucket=uri.bucket, Prefix=uri.key, MaxKeys=_VERSIONS_LOOKED_AT)
        for version in reply.get("Versions", []):
            if version["Key"] == uri.key:
                found = self._s3.head_object(Bucket=uri.bucket, Key=uri.key, VersionId=version["VersionId"])
                if found["Metadata"].get(_MARK) == mark:
                    return str(version["VersionId"])
        return None

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
