"""Copies in S3: the requests that copy objects to a Region, in one piece or in parts, without downloading them.

Each method sends one request, so that a caller can repeat it after an outage. Tags and annotations of the source are
not copied, because S3 would require additional permissions for them; training reads neither.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from botocore.exceptions import ClientError

from traingrid.aws.clients import ClientFactory, copy_client
from traingrid.aws.outage import Patient

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.aws.s3_uri import S3Uri

MIB = 1024**2
MAX_COPY_BYTES = 5 * 1024**3
"""Maximum size of the source of CopyObject, in bytes
(https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html: 5 GB; S3's refusal of a larger one states
5368709120: https://github.com/hashicorp/terraform-provider-aws/issues/38102)."""
MIN_PART_BYTES = 5 * MIB
MAX_PART_BYTES = 5 * 1024**3
MAX_PARTS = 10_000
"""Limits of the parts of an upload; the last part may be smaller
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html)."""
FULL = "FULL_OBJECT"
_ALGORITHMS = ("CRC64NVME", "CRC32C", "CRC32", "SHA256", "SHA1")
"""The checksum algorithms of S3, the preferred one first."""
_MISSING = ("404", "NoSuchKey", "NotFound")
_METADATA = ("CacheControl", "ContentDisposition", "ContentEncoding", "ContentLanguage", "ContentType")


@dataclass(frozen=True, kw_only=True, slots=True)
class Listed:
    """An object in a listing.

    Attributes:
        size: The size in bytes.
        etag: The ETag, with its quotation marks.
        modified_at: The time at which it was written, in seconds since 1970.
    """

    key: str
    size: int
    etag: str
    storage_class: str = "STANDARD"
    modified_at: float = 0.0

    @classmethod
    def of(cls, entry: Mapping[str, Any]) -> Self:
        """Return the object that an entry of ListObjectsV2 describes."""
        return cls(
            key=entry["Key"],
            size=entry["Size"],
            etag=entry["ETag"],
            storage_class=entry.get("StorageClass", "STANDARD"),
            modified_at=entry["LastModified"].timestamp(),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ObjectHead:
    """The facts about an object that HeadObject returns.

    Attributes:
        size: The size in bytes.
        etag: The ETag, with its quotation marks.
        checksums: The checksums of the whole object by algorithm. The checksum of an object that was uploaded in parts
            may be one of its parts' checksums instead; such a checksum is omitted.
        etag_is_md5: True if the ETag is computed from the MD5 of the content, which encryption with KMS prevents
            (https://docs.aws.amazon.com/AmazonS3/latest/API/API_Object.html).
        headers: The headers to keep in a copy, such as ContentType.
        metadata: The user-defined metadata.
        modified_at: The time at which it was written, in seconds since 1970.
    """

    size: int
    etag: str
    checksums: Mapping[str, str] = field(default_factory=dict)
    etag_is_md5: bool = True
    headers: Mapping[str, Any] = field(default_factory=dict)
    metadata: Mapping[str, str] = field(default_factory=dict)
    modified_at: float = 0.0

    @property
    def parts(self) -> int:
        """The number of parts that the ETag names; 0 for an object that was written in one piece."""
        _, separator, number = self.etag.strip('"').partition("-")
        return int(number) if separator and number.isdigit() else 0


@dataclass(frozen=True, kw_only=True, slots=True)
class Part:
    """A part of an unfinished upload; `checksums` are its checksums by algorithm."""

    number: int
    size: int
    etag: str
    checksums: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True, slots=True)
class Piece:
    """The bytes of an object from `start` up to, not including, `end`, which become a part; `whole` if that is all."""

    number: int
    start: int
    end: int
    whole: bool = False

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.end - self.start


@dataclass(frozen=True, kw_only=True, slots=True)
class Upload:
    """An unfinished upload; `algorithm` and `kind` are its checksum algorithm and checksum type."""

    id: str
    algorithm: str
    kind: str


class CopyStore:
    """The objects of the buckets in one Region, for copies.

    Args:
        region: The Region of the buckets. S3 accepts a copy only in the Region of its destination.
    """

    def __init__(self, region: str, make_client: ClientFactory = copy_client) -> None:
        self._s3: Any = make_client("s3", region)

    def page(self, folder: S3Uri, token: str = "") -> tuple[list[Listed], str]:
        """Return the next objects below a folder in the order of their keys, and the token of the next page."""
        more = {"ContinuationToken": token} if token else {}
        reply = self._s3.list_objects_v2(Bucket=folder.bucket, Prefix=f"{folder.key}/", **more)
        return [Listed.of(entry) for entry in reply.get("Contents", [])], str(reply.get("NextContinuationToken", ""))

    def head(self, uri: S3Uri) -> ObjectHead | None:
        """Return the facts about an object, or None if it does not exist."""
        try:
            reply = self._s3.head_object(Bucket=uri.bucket, Key=uri.key, ChecksumMode="ENABLED")
        except ClientError as error:
            if error.response["Error"]["Code"] in _MISSING:
                return None
            raise
        full = reply.get("ChecksumType", FULL) == FULL
        sums = {name: str(reply[f"Checksum{name}"]) for name in _ALGORITHMS if reply.get(f"Checksum{name}")}
        return ObjectHead(
            size=reply["ContentLength"],
            etag=reply["ETag"],
            checksums={name: value for name, value in sums.items() if full and "-" not in value},
            etag_is_md5="kms" not in reply.get("ServerSideEncryption", "AES256"),
            headers={name: reply[name] for name in _METADATA if reply.get(name)},
            metadata=reply.get("Metadata", {}),
            modified_at=reply["LastModified"].timestamp(),
        )

    def first_part_bytes(self, uri: S3Uri) -> int:
        """Return the size of an object's first part, or of the object if it was written in one piece."""
        return int(self._s3.head_object(Bucket=uri.bucket, Key=uri.key, PartNumber=1)["ContentLength"])

    def copy(
        self, source: S3Uri, source_head: ObjectHead, target: S3Uri, algorithm: str, mark: Mapping[str, str]
    ) -> None:
        """Copy an object in one request, unless the target exists or the source has changed.

        Args:
            source_head: The facts about it.
            algorithm: The algorithm with which S3 computes the checksum of the copy. Without one, S3 takes the
                source's checksum over (https://docs.aws.amazon.com/AmazonS3/latest/API/API_CopyObject.html), which
                would prove nothing.
            mark: Metadata to add.

        Raises:
            ClientError: PreconditionFailed if the target exists or the source has changed.
        """
        replaced = {"MetadataDirective": "REPLACE", "Metadata": {**source_head.metadata, **mark}, **source_head.headers}
        self._s3.copy_object(
            Bucket=target.bucket,
            Key=target.key,
            CopySource={"Bucket": source.bucket, "Key": source.key},
            CopySourceIfMatch=source_head.etag,
            IfNoneMatch="*",
            ChecksumAlgorithm=algorithm,
            TaggingDirective="REPLACE",
            AnnotationDirective="EXCLUDE",
            **(replaced if mark else {}),
        )

    def uploads(self, target: S3Uri) -> list[Upload]:
        """Return an object's unfinished uploads, oldest first."""
        uploads: list[tuple[Any, Upload]] = []
        pages = self._s3.get_paginator("list_multipart_uploads")
        for page in pages.paginate(Bucket=target.bucket, Prefix=target.key):
            for listed_upload in page.get("Uploads", []):
                if listed_upload["Key"] == target.key:
                    algorithm = listed_upload.get("ChecksumAlgorithm") or ""
                    kind = listed_upload.get("ChecksumType") or ""
                    upload = Upload(id=listed_upload["UploadId"], algorithm=algorithm, kind=kind)
                    uploads.append((listed_upload["Initiated"], upload))
        return [upload for _, upload in sorted(uploads, key=lambda pair: (pair[0], pair[1].id))]

    def begin(self, source_head: ObjectHead, target: S3Uri, algorithm: str, mark: Mapping[str, str]) -> str:
        """Begin an upload in parts with the headers and metadata of `source_head`, and return its id."""
        reply = self._s3.create_multipart_upload(
            Bucket=target.bucket,
            Key=target.key,
            ChecksumAlgorithm=algorithm,
            ChecksumType=FULL,
            Metadata={**source_head.metadata, **mark},
            **source_head.headers,
        )
        return str(reply["UploadId"])

    def parts(self, target: S3Uri, upload: str) -> dict[int, Part]:
        """Return the parts of an unfinished upload by number."""
        parts: dict[int, Part] = {}
        pages = self._s3.get_paginator("list_parts")
        for page in pages.paginate(Bucket=target.bucket, Key=target.key, UploadId=upload):
            for part in page.get("Parts", []):
                parts[part["PartNumber"]] = _part(part["PartNumber"], part["Size"], part)
        return parts

    def copy_part(self, source: S3Uri, etag: str, target: S3Uri, upload: str, piece: Piece) -> Part:
        """Copy a piece of a source, unless its ETag has changed, as a part of an upload.

        S3 refuses a range of a source of up to 5 MB (https://docs.aws.amazon.com/AmazonS3/latest/API/API_UploadPartCopy.html),
        so a piece that is the whole object is copied without one.
        """
        part = {} if piece.whole else {"CopySourceRange": f"bytes={piece.start}-{piece.end - 1}"}
        reply = self._s3.upload_part_copy(
            Bucket=target.bucket,
            Key=target.key,
            UploadId=upload,
            PartNumber=piece.number,
            CopySource={"Bucket": source.bucket, "Key": source.key},
            CopySourceIfMatch=etag,
            **part,
        )
        return _part(piece.number, piece.size, reply["CopyPartResult"])

    def complete(self, source_head: ObjectHead, target: S3Uri, upload: Upload, parts: Mapping[int, Part]) -> None:
        """Complete an upload, unless the target exists, or its size or checksum differs from those of `source_head`."""
        same = source_head.checksums.get(upload.algorithm)
        expected: dict[str, Any] = {f"Checksum{upload.algorithm}": same} if same else {}
        part_list = [
            {
                "PartNumber": number,
                "ETag": parts[number].etag,
                **{f"Checksum{name}": value for name, value in parts[number].checksums.items()},
            }
            for number in sorted(parts)
        ]
        self._s3.complete_multipart_upload(
            Bucket=target.bucket,
            Key=target.key,
            UploadId=upload.id,
            MultipartUpload={"Parts": part_list},
            ChecksumType=FULL,
            MpuObjectSize=source_head.size,
            IfNoneMatch="*",
            **expected,
        )

    def abort(self, target: S3Uri, upload: str) -> None:
        """Abort an unfinished upload, if it exists."""
        try:
            self._s3.abort_multipart_upload(Bucket=target.bucket, Key=target.key, UploadId=upload)
        except self._s3.exceptions.NoSuchUpload:
            return


class PatientCopyStore(Patient[CopyStore], CopyStore):
    """The objects of a Region, whose requests wait out an outage."""


def _part(number: int, size: int, reply: Mapping[str, Any]) -> Part:
    sums = {name: str(reply[f"Checksum{name}"]) for name in _ALGORITHMS if reply.get(f"Checksum{name}")}
    return Part(number=number, size=size, etag=reply["ETag"], checksums=sums)
