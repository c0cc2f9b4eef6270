"""Objects: lists the objects of a channel in S3, and the path of each in the channel's folder."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from itertools import islice
from pathlib import PurePosixPath
from typing import Any

from botocore.exceptions import ClientError

from traingrid.aws.s3_uri import S3Uri, path_in_channel
from traingrid.pod.failure import download_error
from traingrid.strict_json import JsonError, json_list
from traingrid.threads import map_in_order
from traingrid.transfers.retries import patiently

_HEADS_AT_ONCE = 16
_MISSING = ("404", "NoSuchKey")


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredObject:
    """An object to download.

    Attributes:
        uri: Its bucket and key.
        size: Its size in bytes.
        etag: Its ETag, with the quotation marks.
    """

    uri: S3Uri
    size: int
    etag: str
    path: str


def split_uri(uri: str) -> S3Uri:
    """Return the bucket and the key or prefix of a URI, unchanged.

    Raises:
        PodError: The URI has another form.
    """
    scheme, separator, location = uri.partition("://")
    bucket, _, key = location.partition("/")
    if scheme != "s3" or not separator or not bucket:
        raise download_error(f"{uri!r} is not an S3 URI")
    return S3Uri(bucket, key)


def objects_of(s3: Any, source: Mapping[str, Any]) -> Iterator[StoredObject]:
    """Yield the objects of a channel with the type S3Prefix or ManifestFile, in an order that is the same on all hosts.

    Args:
        source: The channel's S3DataSource
            (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_S3DataSource.html).

    Raises:
        PodError: There are no objects, or the manifest is malformed.
        ClientError: S3 refused a call.
    """
    prefix, count = split_uri(source["S3Uri"]), 0
    manifest = source.get("S3DataType", "S3Prefix") == "ManifestFile"
    for stored_object in _list_manifest(s3, prefix) if manifest else list_below(s3, prefix):
        count += 1
        yield stored_object
    if not count:
        raise no_objects(source["S3Uri"])


def shard(objects: Iterable[StoredObject], number: int, hosts: int) -> Iterator[StoredObject]:
    """Yield the objects of one host with S3DataDistributionType ShardedByS3Key.

    Each of n hosts gets 1/n of the number of objects, and some get none if there are fewer objects than hosts
    (API_S3DataSource). AWS does not document which; here the hosts get the objects in turn.
    """
    yield from islice(objects, number, None, hosts)


def list_below(s3: Any, prefix: S3Uri) -> Iterator[StoredObject]:
    """Yield the objects whose keys start with a prefix, without the markers of folders, in the order of their keys."""
    request = {"Bucket": prefix.bucket, "Prefix": prefix.key}
    while True:
        page = patiently(partial(s3.list_objects_v2, **request))
        for entry in page.get("Contents", []):
            path = path_in_channel(prefix.key, entry["Key"])
            if path and not path.endswith("/"):
                uri = S3Uri(prefix.bucket, entry["Key"])
                yield StoredObject(uri=uri, size=entry["Size"], etag=entry["ETag"], path=_check_path(path, uri))
        if not page.get("IsTruncated"):
            return
        request["ContinuationToken"] = page["NextContinuationToken"]


def no_objects(uri: str) -> Exception:
    """Return the error for a channel without objects (https://github.com/aws/amazon-sagemaker-examples/issues/2267)."""
    return download_error(f'No S3 objects found under S3 URL "{uri}" given in input data source.')


def _list_manifest(s3: Any, manifest: S3Uri) -> Iterator[StoredObject]:
    """Yield the objects that a ManifestFile names."""

    def read() -> bytes:
        content: bytes = s3.get_object(Bucket=manifest.bucket, Key=manifest.key)["Body"].read()
        return content

    content = patiently(read)
    try:
        prefix_entry, *suffixes = json_list(content)
        if not all(isinstance(suffix, str) for suffix in suffixes):
            raise JsonError("a list of texts after the prefix")
        prefix = prefix_entry["prefix"]
        uris = [(split_uri(f"{prefix}{suffix}"), suffix) for suffix in suffixes]
    except (ValueError, TypeError, KeyError) as error:
        raise download_error(f"The manifest {manifest} in S3 is malformed: {error!r}.") from error

    def stored_object(uri_and_suffix: tuple[S3Uri, str]) -> StoredObject:
        uri, suffix = uri_and_suffix
        try:
            head_reply = patiently(lambda: s3.head_object(Bucket=uri.bucket, Key=uri.key))
        except ClientError as error:
            if error.response["Error"]["Code"] not in _MISSING:
                raise
            raise no_objects(str(uri)) from error
        return StoredObject(
            uri=uri, size=head_reply["ContentLength"], etag=head_reply["ETag"], path=_check_path(suffix, uri)
        )

    yield from map_in_order(stored_object, iter(uris), _HEADS_AT_ONCE)


def _check_path(path: str, uri: S3Uri) -> str:
    """Return a path without a leading slash, if it stays in the channel's folder."""
    if ".." in PurePosixPath(path).parts:
        raise download_error(f"The S3 object {uri} would be stored outside of its folder.")
    return path.lstrip("/")
