"""Amazon S3: copies, in one request and in parts, with conditions and checksums."""

from typing import Any

from conformance.aws import Aws, refused
from conformance.claim import claim
from conformance.resources.identity import acting_with, allow
from conformance.resources.storage import shared_bucket
from conformance.sources import model, page

_INTEGRITY = "https://docs.aws.amazon.com/AmazonS3/latest/userguide/checking-object-integrity-upload.html"
_USED_BY = "traingrid/aws/s3_copy.py traingrid/transfers/object_copy.py"
_WHOLE = {"ChecksumAlgorithm": "CRC64NVME", "ChecksumType": "FULL_OBJECT"}


def _request(aws: Aws, name: str) -> dict[str, Any]:
    """Write an object, and return a request that copies it."""
    bucket, key = shared_bucket(aws), aws.name(name)
    aws.client("s3").put_object(Bucket=bucket, Key=f"{key}/from", Body=b"one")
    return {"Bucket": bucket, "Key": f"{key}/to", "CopySource": {"Bucket": bucket, "Key": f"{key}/from"}}


def _target(request: dict[str, Any]) -> dict[str, Any]:
    return {name: request[name] for name in ("Bucket", "Key")}


def _completion(s3: Any, request: dict[str, Any]) -> dict[str, Any]:
    """Copy the source as the only part of a new upload, and return the request that completes the upload."""
    upload = s3.create_multipart_upload(**_target(request), **_WHOLE)["UploadId"]
    part = s3.upload_part_copy(**request, UploadId=upload, PartNumber=1)["CopyPartResult"]
    parts = {
        "Parts": [{"PartNumber": 1, **{name: part[name] for name in ("ETag", "ChecksumCRC64NVME") if name in part}}]
    }
    return {**_target(request), "UploadId": upload, "MultipartUpload": parts}


@claim(
    model("s3", "CopyObjectRequest", "Copies the object only if the object key name at the destination does not"),
    model("s3", "CompleteMultipartUploadRequest", "Uploads the object only if the object key name does not already"),
    used_by=_USED_BY,
)
def copy_if_none_is_refused_if_there_is_one(aws: Aws) -> None:
    """CopyObject and CompleteMultipartUpload with If-None-Match: * are refused if the object exists."""
    s3, request = aws.client("s3"), _request(aws, "copy-if-none")
    ended = _completion(s3, request)
    s3.copy_object(**request, IfNoneMatch="*")
    with refused("PreconditionFailed"):
        s3.copy_object(**request, IfNoneMatch="*")
    with refused("PreconditionFailed"):
        s3.complete_multipart_upload(**ended, IfNoneMatch="*")
    s3.abort_multipart_upload(**_target(request), UploadId=ended["UploadId"])


@claim(
    model("s3", "CopyObjectRequest", "Copies the object if its entity tag (ETag) matches the specified tag"),
    model("s3", "UploadPartCopyRequest", "Copies the object if its entity tag (ETag) matches the specified tag"),
    used_by=_USED_BY,
)
def changed_source_is_not_copied(aws: Aws) -> None:
    """CopyObject and UploadPartCopy with the ETag of earlier content are refused with PreconditionFailed."""
    s3, request = aws.client("s3"), _request(aws, "copy-if-match")
    etag = s3.head_object(**request["CopySource"])["ETag"]
    s3.put_object(**request["CopySource"], Body=b"two")
    upload = s3.create_multipart_upload(**_target(request))["UploadId"]
    with refused("PreconditionFailed"):
        s3.copy_object(**request, CopySourceIfMatch=etag)
    with refused("PreconditionFailed"):
        s3.upload_part_copy(**request, UploadId=upload, PartNumber=1, CopySourceIfMatch=etag)
    s3.abort_multipart_upload(**_target(request), UploadId=upload)


@claim(page(_INTEGRITY, "compute a checksum of the whole object"), used_by=_USED_BY)
def copies_have_checksums_of_the_whole_object(aws: Aws) -> None:
    """A copy in one request and one in parts have the same CRC64NVME checksum of the whole object, if asked for."""
    s3, request = aws.client("s3"), _request(aws, "copy-checksum")
    s3.copy_object(**request, ChecksumAlgorithm="CRC64NVME")
    head = s3.head_object(**_target(request), ChecksumMode="ENABLED")
    parts = {**request, "Key": f"{request['Key']}-in-parts"}
    s3.complete_multipart_upload(**_completion(s3, parts))
    other = s3.head_object(**_target(parts), ChecksumMode="ENABLED")
    assert (head["ChecksumType"], head["ChecksumCRC64NVME"]) == (other["ChecksumType"], other["ChecksumCRC64NVME"])
    assert head["ChecksumType"] == "FULL_OBJECT"


@claim(
    model("s3", "UploadPartCopyRequest", "You can copy a range only if the source object is greater than 5 MB"),
    used_by=_USED_BY,
)
def range_of_a_small_object_is_not_copied(aws: Aws) -> None:
    """UploadPartCopy refuses a range of an object of up to 5 MB with InvalidRequest, and copies the whole object."""
    s3, request = aws.client("s3"), _request(aws, "copy-range")
    ended = _completion(s3, request)
    with refused("InvalidRequest"):
        s3.upload_part_copy(**request, UploadId=ended["UploadId"], PartNumber=2, CopySourceRange="bytes=0-1")
    s3.complete_multipart_upload(**ended)
    assert s3.get_object(**_target(request))["Body"].read() == b"one"


@claim(model("s3", "UploadPartCopy", "The specified multipart upload does not exist"), used_by=_USED_BY)
def ended_upload_accepts_no_part(aws: Aws) -> None:
    """UploadPartCopy and ListParts refuse an upload that was aborted with NoSuchUpload."""
    s3, request = aws.client("s3"), _request(aws, "copy-no-upload")
    upload = s3.create_multipart_upload(**_target(request))["UploadId"]
    s3.abort_multipart_upload(**_target(request), UploadId=upload)
    with refused("NoSuchUpload"):
        s3.upload_part_copy(**request, UploadId=upload, PartNumber=1)
    with refused("NoSuchUpload"):
        s3.list_parts(**_target(request), UploadId=upload)


@claim(
    model("s3", "CompleteMultipartUploadRequest", "The expected total object size of the multipart upload request"),
    page(_INTEGRITY, "S3 fails the request with a BadDigest error"),
    used_by=_USED_BY,
)
def upload_with_another_size_or_checksum_is_not_completed(aws: Aws) -> None:
    """CompleteMultipartUpload refuses another size with InvalidRequest, and another checksum with BadDigest."""
    s3, request = aws.client("s3"), _request(aws, "copy-digest")
    ended = _completion(s3, request)
    with refused("InvalidRequest"):
        s3.complete_multipart_upload(**ended, MpuObjectSize=4)
    with refused("BadDigest"):
        s3.complete_multipart_upload(**ended, ChecksumType="FULL_OBJECT", ChecksumCRC64NVME="AAAAAAAAAAA=")
    s3.complete_multipart_upload(**ended, MpuObjectSize=3)


@claim(
    page(
        "https://docs.aws.amazon.com/AmazonS3/latest/userguide/amazon-s3-policy-keys.html",
        "the request include the s3:x-amz-copy-source header",
    ),
    page(
        "https://docs.aws.amazon.com/service-authorization/latest/reference/list_amazons3.html",
        "copy source bucket, prefix, or object in the copy object requests",
    ),
    used_by="stacks/child_permissions.py",
)
def the_source_of_copies_may_be_limited(aws: Aws) -> None:
    """s3:x-amz-copy-source restricts CopyObject and UploadPartCopy, and is absent from the start of an upload."""
    request = _request(aws, "copy-source")
    objects = f"arn:aws:s3:::{request['Bucket']}/*"
    absent = allow("s3:PutObject", objects, Null={"s3:x-amz-copy-source": "true"})
    writer = acting_with(aws, absent, allow("s3:GetObject", objects))("s3")
    writer.put_object(**_target(request), Body=b"x")
    with refused("AccessDenied", text="s3:PutObject"):
        writer.copy_object(**request)
    for source, allowed in ((f"{request['Bucket']}/*", True), ("another-bucket/*", False)):
        only = {"StringLikeIfExists": {"s3:x-amz-copy-source": source}}
        writes, reads = allow("s3:PutObject", objects, **only), allow("s3:GetObject", objects)
        s3 = acting_with(aws, writes, reads)("s3")
        upload = s3.create_multipart_upload(**_target(request))["UploadId"]
        part = {**request, "UploadId": upload, "PartNumber": 1}
        if allowed:
            s3.copy_object(**request)
            s3.upload_part_copy(**part)
            continue
        with refused("AccessDenied", text="s3:PutObject"):
            s3.copy_object(**request)
        with refused("AccessDenied", text="s3:PutObject"):
            s3.upload_part_copy(**part)
