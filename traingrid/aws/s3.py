"""Storage: reads manifests and submissions from S3, and writes submissions and reports."""

from __future__ import annotations

import json
import time
import uuid
from functools import cached_property
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote_plus

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.clients import ActingRole, ClientFactory, client, client_without_retries
from traingrid.aws.outage import Patient, is_outage
from traingrid.aws.s3_uri import ObjectVersion, S3Uri
from traingrid.backoff import OUTAGE_CAP, backoff_seconds
from traingrid.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

_PIECE = 256 * 1024
_UPLOADS = 5
_MARK = "traingrid-upload"  # metadata of an object: the id of the upload that created this version
_VERSIONS_LOOKED_AT = 20  # other users may upload to the same key meanwhile
# S3's permanent errors. A missing key causes AccessDenied for a reader without permission to list
# (https://docs.aws.amazon.com/AmazonS3/latest/API/API_GetObject.html).
_WRONG = {"AccessDenied", "NoSuchBucket", "NoSuchKey", "NoSuchVersion"}


class Storage:
    """Objects in S3.

    Args:
        region: The Region of the endpoint; by default the environment's.
        role: The role to assume in another account.
    """

    def __init__(
        self, region: str | None = None, make_client: ClientFactory = client, role: ActingRole | None = None
    ) -> None:
        self._s3: Any = make_client("s3", region, role)
        self._region, self._role = region, role

    @cached_property
    def _sent_once(self) -> Any:
        return client_without_retries("s3", self._region, self._role)

    def read(self, uri: S3Uri, version: str | None = None, limit: int | None = None) -> bytes:
        """Return an object's bytes, at most `limit` + 1, so that the caller can detect an object that is too large.

        An `ObjectVersion` contains the version.

        Raises:
            UsageError: The object or version does not exist, or the caller may not read it.
        """
        body = self._get(uri, **_version_argument(version))["Body"]
        content: bytes = body.read() if limit is None else body.read(limit + 1)
        body.close()
        return content

    def pieces(self, uri: S3Uri, version: str) -> tuple[int, Iterator[bytes]]:
        """Return an object's size in bytes and an iterator over its content, which reads chunks on demand.

        Raises:
            UsageError: The object or version does not exist, or the caller may not read it.
        """
        reply = self._get(uri, VersionId=version)
        return int(reply["ContentLength"]), reply["Body"].iter_chunks(_PIECE)

    def read_if_exists(self, uri: S3Uri, version: str | None = None) -> bytes | None:
        """Return an object's bytes, or None if the object, or the version of it, does not exist."""
        request = {"Bucket": uri.bucket, "Key": uri.key, **_version_argument(version)}
        try:
            content: bytes = self._s3.get_object(**request)["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] not in ("NoSuchKey", "NoSuchVersion"):
                raise
            return None
        return content

    def read_pinned(self, uri: S3Uri, version: str | None) -> bytes | None:
        """Return an object's bytes in a version, or None if it does not exist.

        The version itself is requested only if another one has replaced it: that requires s3:GetObjectVersion, and the
        current one only s3:GetObject.

        Args:
            version: The version; the current one if it is empty or None.

        Raises:
            ClientError: S3 refused a request.
        """
        requests = [{"Bucket": uri.bucket, "Key": uri.key}]
        if version:
            requests.append({"Bucket": uri.bucket, "Key": uri.key, "VersionId": version})
        for request in requests:
            try:
                reply = self._s3.get_object(**request)
            except ClientError as error:
                if error.response["Error"]["Code"] not in ("NoSuchKey", "NoSuchVersion"):
                    raise
                continue
            if version in (None, "", reply.get("VersionId")):
                content: bytes = reply["Body"].read()
                return content
            reply["Body"].close()
        return None

    def current_version(self, uri: S3Uri) -> str | None:
        """Return the id of an object's current version, or None if the object does not exist."""
        try:
            return str(self._s3.head_object(Bucket=uri.bucket, Key=uri.key).get("VersionId", ""))
        except ClientError as error:
            if error.response["Error"]["Code"] != "404":
                raise
            return None

    def exists(self, uri: S3Uri, version: str | None = None) -> bool:
        """Return True if an object, or the version of it, exists and may be read."""
        try:
            self._s3.head_object(Bucket=uri.bucket, Key=uri.key, **_version_argument(version))
        except ClientError as error:
            # 403 without s3:ListBucket; 400 for the version of another object
            if error.response["ResponseMetadata"]["HTTPStatusCode"] not in (400, 403, 404):
                raise
            return False
        return True

    def first_version(self, uri: S3Uri) -> str | None:
        """Return the id of an object's oldest version, also of a deleted object; None if there is none."""
        reply = self._s3.list_object_versions(Bucket=uri.bucket, Prefix=uri.key)
        versions = [version["VersionId"] for version in reply.get("Versions", []) if version["Key"] == uri.key]
        return str(versions[-1]) if versions else None

    def read_versions(self, uri: S3Uri, most: int) -> Iterator[bytes]:
        """Yield the contents of an object's last versions, newest first; none if the object does not exist."""
        reply = self._s3.list_object_versions(Bucket=uri.bucket, Prefix=uri.key, MaxKeys=most)
        for version in reply.get("Versions", []):
            if version["Key"] == uri.key:
                yield self.read(uri, version["VersionId"])

    def read_range(self, uri: S3Uri, start: int, end: int) -> bytes:
        """Return the bytes from `start` up to, not including, `end`; fewer if the object ends before.

        Raises:
            UsageError: The object does not exist, or the caller may not read it.
        """
        try:
            content: bytes = self._get(uri, Range=f"bytes={start}-{end - 1}")["Body"].read()
        except ClientError as error:
            if error.response["Error"]["Code"] in ("InvalidRange", "416"):
                return b""
            raise
        return content

    def write(self, uri: S3Uri, content: bytes, content_type: str) -> str:
        """Write an object and return its version (empty in a bucket without versioning)."""
        reply = self._s3.put_object(Bucket=uri.bucket, Key=uri.key, Body=content, ContentType=content_type)
        return str(reply.get("VersionId", ""))

    def write_new(self, uri: S3Uri, content: bytes, content_type: str) -> str:
        """Write an object as exactly one new version, even if a reply is lost, and return that version.

        botocore repeats a PutObject whose reply was lost. That creates two versions, and two versions of a manifest
        cause two submissions. So this method sends the request once, and checks the result before it sends it again.

        Raises:
            BotoCoreError: S3 repeatedly did not answer.
            ClientError: S3 refused the request.
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
                last_error, tries = error, tries + 1
            time.sleep(backoff_seconds(tries, OUTAGE_CAP))
            version = self._version_with_mark(uri, mark)
            if version is not None:
                return version
            if tries == _UPLOADS:
                raise last_error

    def write_if_none(self, uri: S3Uri, content: bytes, content_type: str) -> bool:
        """Write an object unless its key exists; return False if it does.

        Also return False if this call has written the object, but the reply was lost and botocore repeated the request.
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
                if code != "ConditionalRequestConflict" or tries == _UPLOADS:  # a concurrent write of the same key
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

    def entries(self, prefix: S3Uri, token: str = "") -> tuple[list[str], str]:
        """Return a page of the keys that begin with that of `prefix`, and the token of the next page, which may be "".

        All keys with a slash after the prefix are one entry, which ends with the first such slash
        (https://docs.aws.amazon.com/AmazonS3/latest/API/API_ListObjectsV2.html, Delimiter).
        """
        request = {"Bucket": prefix.bucket, "Prefix": prefix.key, "Delimiter": "/"}
        if token:
            request["ContinuationToken"] = token
        reply = self._s3.list_objects_v2(**request)
        entries = [entry["Key"] for entry in reply.get("Contents", [])]
        entries += [entry["Prefix"] for entry in reply.get("CommonPrefixes", [])]
        return entries, reply.get("NextContinuationToken", "")

    def keys_after(self, prefix: S3Uri, key: str) -> Iterator[str]:
        """Yield the keys that begin with that of `prefix` and sort after `key`, in order; all if it is empty."""
        request = {"Bucket": prefix.bucket, "Prefix": prefix.key}
        if key:
            request["StartAfter"] = key
        for page in self._s3.get_paginator("list_objects_v2").paginate(**request):
            yield from (entry["Key"] for entry in page.get("Contents", []))

    def _version_with_mark(self, uri: S3Uri, mark: str) -> str | None:
        """Return the version of an object with the given mark, if one of its last versions has it."""
        reply = self._s3.list_object_versions(Bucket=uri.bucket, Prefix=uri.key, MaxKeys=_VERSIONS_LOOKED_AT)
        for version in reply.get("Versions", []):
            if version["Key"] == uri.key:
                head_reply = self._s3.head_object(Bucket=uri.bucket, Key=uri.key, VersionId=version["VersionId"])
                if head_reply["Metadata"].get(_MARK) == mark:
                    return str(version["VersionId"])
        return None

    def write_json(self, uri: S3Uri, document: object) -> None:
        """Write an indented JSON document."""
        self.write(uri, json.dumps(document, indent=2).encode() + b"\n", "application/json")

    def _get(self, uri: S3Uri, **request: str) -> Any:
        if isinstance(uri, ObjectVersion) and uri.version:
            request.setdefault("VersionId", uri.version)
        try:
            return self._s3.get_object(Bucket=uri.bucket, Key=uri.key, **request)
        except ClientError as error:
            code = error.response["Error"]["Code"]
            text = error.response["Error"].get("Message", "")
            if code not in _WRONG:
                raise
            message = f"{uri} cannot be read: {code}: {text}."
            raise UsageError(message, "Check the path and the permissions.") from error


def _version_argument(version: str | None) -> dict[str, str]:
    return {"VersionId": version} if version else {}


class PatientStorage(Patient[Storage], Storage):
    """Objects in S3, whose reads and writes wait out an outage."""


def object_of_event(storage: Storage, uri: S3Uri, version: str | None = None) -> S3Uri:
    """Return the object that an event of S3 names, whether its key is plain or URL-encoded.

    AWS's user guide does not say which form EventBridge has
    (https://docs.aws.amazon.com/AmazonS3/latest/userguide/ev-events.html), and AWS's Powertools decode the key
    (S3EventBridgeNotificationObject of https://github.com/aws-powertools/powertools-lambda-python). A key that exists
    as it is given wins.
    """
    decoded = S3Uri(uri.bucket, unquote_plus(uri.key))
    if decoded == uri or storage.exists(uri, version) or not storage.exists(decoded, version):
        return uri
    return decoded
