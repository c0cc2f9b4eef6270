"""Copies and multipart uploads with the conditions, limits and checks of AWS, most of which moto 5.2.5 lacks.

moto ignores the conditions of copies, the limits of their sources, and the size and checksums that complete an upload.
Its reply to an unknown upload is an internal error, and its HeadObject does not distinguish a checksum of parts from
one of the whole object. moto has no hooks here, so the methods of its responses are replaced.

A conditional write is atomic, as in AWS: moto checks the condition and then writes, in the thread of the request.
"""

import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs, unquote, urlparse

from moto.s3.exceptions import InvalidPart, MissingKey, NoSuchUpload, PreconditionFailed, S3ClientError
from moto.s3.responses import S3Response

from localcloud.s3.checksums import checksum

if TYPE_CHECKING:
    from localcloud.server.local_cloud import LocalCloud

MAX_COPY_BYTES = 5 * 1024**3
"""Maximum size of the source of CopyObject, and of UploadPartCopy without a range
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html, and the text of the refusal in
https://github.com/hashicorp/terraform-provider-aws/issues/38102)."""
MIN_RANGE_SOURCE_BYTES = 5 * 1024**2
"""A range can only be copied from a source that is larger
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_UploadPartCopy.html: x-amz-copy-source-range)."""
_ONE_AT_A_TIME = threading.RLock()
_put, _post, _head = S3Response._key_response_put, S3Response._key_response_post, S3Response.head_object
_copy_object, _copy_part, _part = S3Response.copy_object, S3Response.upload_part_copy, S3Response.upload_part


def install(cloud: "LocalCloud") -> None:
    """Replace the methods of moto's responses."""
    cloud.replace(
        S3Response,
        _key_response_put=_serialised(_put),
        _key_response_post=_serialised(_checked_post),
        copy_object=_checked_copy,
        upload_part_copy=_checked_copy_part,
        upload_part=_checked_part,
        head_object=_head_with_checksum_type,
    )


def _serialised(method: Callable[..., Any]) -> Callable[..., Any]:
    def locked(response: Any, *arguments: Any) -> Any:
        with _ONE_AT_A_TIME:
            return method(response, *arguments)

    return locked


def _checked_copy(response: Any) -> Any:
    """CopyObject (https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html)."""
    source = _source(response)
    if source.size > MAX_COPY_BYTES:
        raise _too_large()
    exists = response.backend.get_object(response.bucket_name, response.parse_key_name()) is not None
    if response.headers.get("If-None-Match") == "*" and exists:
        raise PreconditionFailed("If-None-Match")
    return _copy_object(response)


def _checked_copy_part(response: Any) -> Any:
    """UploadPartCopy (https://docs.aws.amazon.com/AmazonS3/latest/API/API_UploadPartCopy.html).

    AWS's answer to a range beyond the source: https://github.com/versity/versitygw/issues/610.
    """
    _upload(response)
    source = _source(response)
    byte_range = response.headers.get("x-amz-copy-source-range")
    if not byte_range and source.size > MAX_COPY_BYTES:
        raise _too_large()
    if byte_range and source.size <= MIN_RANGE_SOURCE_BYTES:
        message = "The specified copy source is not supported as a byte-range copy source"
        raise S3ClientError("InvalidRequest", message)
    if byte_range and int(byte_range.rpartition("-")[2]) >= source.size:
        message = f"Range specified is not valid for source object of size: {source.size}"
        raise S3ClientError("InvalidArgument", message)
    return _copy_part(response)


def _checked_part(response: Any) -> Any:
    _upload(response)
    return _part(response)


def _checked_post(response: Any, request: Any, body: bytes, *target: Any) -> Any:
    """CompleteMultipartUpload, and all other requests with POST.

    The same upload can be completed twice, so a completed one is left to moto
    (https://docs.aws.amazon.com/AmazonS3/latest/API/API_CompleteMultipartUpload.html).
    """
    bucket, query, key = target
    if query.get("uploadId"):
        stored_object = response.backend.get_object(bucket, key)
        is_complete = (
            stored_object is not None and stored_object.multipart and stored_object.multipart.id == query["uploadId"][0]
        )
        if not is_complete:
            _check_completion(response, _upload(response), body)
    return _post(response, request, body, *target)


def _check_completion(response: Any, upload: Any, body: bytes) -> None:
    """Compare size and checksums of an upload with the expected ones of CompleteMultipartUpload."""
    parts = [upload.parts.get(number) for number, _ in response._complete_multipart_body(body)]
    if None in parts:
        raise InvalidPart
    size = response.headers.get("x-amz-mp-object-size")
    if size and int(size) != sum(part.size for part in parts):
        raise S3ClientError("InvalidRequest", "The size of the object differs from x-amz-mp-object-size.")
    algorithm = upload.metadata.get("x-amz-checksum-algorithm", "")
    kind = upload.metadata.get("x-amz-checksum-type", "")
    if (response.headers.get("x-amz-checksum-type") or kind) != kind:
        raise S3ClientError("BadDigest", "The checksum type differs from that of CreateMultipartUpload.")
    expected = response.headers.get(f"x-amz-checksum-{algorithm.lower()}") if algorithm else None
    is_of_object = kind == "FULL_OBJECT" or algorithm == "CRC64NVME"
    if expected and is_of_object and expected != checksum(b"".join(part.value for part in parts), algorithm).decode():
        raise S3ClientError("BadDigest", f"The {algorithm} you specified did not match the calculated checksum.")


def _head_with_checksum_type(response: Any, bucket: str, query: Any, key_name: str, headers: Any) -> Any:
    """HeadObject with x-amz-checksum-type, and with the number of parts behind a checksum of their checksums."""
    status, response_headers, body = _head(response, bucket, query, key_name, headers)
    stored_object = response.backend.get_object(bucket, key_name, version_id=query.get("versionId", [None])[0])
    name = f"x-amz-checksum-{(getattr(stored_object, 'checksum_algorithm', '') or '').lower()}"
    if name in response_headers:
        response_headers["x-amz-checksum-type"] = stored_object.checksum_type or "FULL_OBJECT"
        if stored_object.checksum_type == "COMPOSITE":
            response_headers[name] = f"{stored_object.checksum_value}-{stored_object.checksum_parts}"
    return status, response_headers, body


def _upload(response: Any) -> Any:
    """Return the unfinished upload that a request names.

    Raises:
        NoSuchUpload: It was completed or aborted, or has never existed.
    """
    upload_id = response.querystring["uploadId"][0]
    upload = response.backend.get_bucket(response.bucket_name).multiparts.get(upload_id)
    if upload is None:
        raise NoSuchUpload(upload_id=upload_id)
    return upload


def _source(response: Any) -> Any:
    """Return the object that a request copies, if it meets the request's condition."""
    parsed = urlparse(response.headers["x-amz-copy-source"])
    bucket, key = unquote(parsed.path).lstrip("/").split("/", 1)
    version = parse_qs(parsed.query).get("versionId", [None])[0]
    stored_object = response.backend.get_object(bucket, key, version_id=version)
    if stored_object is None:
        raise MissingKey(key=key)
    expected = response.headers.get("x-amz-copy-source-if-match")
    if expected and expected.strip('"') not in ("*", stored_object.etag.strip('"')):
        raise PreconditionFailed("x-amz-copy-source-If-Match")
    return stored_object


def _too_large() -> S3ClientError:
    message = f"The specified copy source is larger than the maximum allowable size for a copy source: {MAX_COPY_BYTES}"
    return S3ClientError("InvalidRequest", message)
