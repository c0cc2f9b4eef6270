"""S3's copies and multipart uploads: conditions, limits, checksums and errors as AWS documents them."""

import threading
from collections.abc import Callable
from typing import Any

import pytest

from localcloud.s3.checksums import checksum
from tests.integration.localcloud.iam.test_iam import refused
from traingrid.aws.s3_copy import CopyStore
from traingrid.aws.s3_uri import S3Uri
from traingrid.transfers.folder_copy import FolderCopy
from traingrid.transfers.listing import Folders
from traingrid.transfers.object_copy import ObjectCopy

MIB = 1024**2
FROM, TO = {"Bucket": "source", "Key": "x"}, {"Bucket": "target", "Key": "y"}
COPY: dict[str, Any] = {**TO, "CopySource": FROM}


@pytest.fixture(scope="module")
def buckets(client: Callable[..., Any]) -> Any:
    s3 = client("s3")
    for name in ("source", "target"):
        s3.create_bucket(Bucket=name)
    return s3


@pytest.fixture
def s3(buckets: Any) -> Any:
    buckets.put_object(**FROM, Body=b"one")
    buckets.delete_object(**TO)
    return buckets


def in_parts(s3: Any, where: dict[str, str], *parts: bytes, **options: Any) -> str:
    """Begin an upload and write its parts; return its id."""
    upload = str(s3.create_multipart_upload(**where, **options)["UploadId"])
    for number, body in enumerate(parts, start=1):
        s3.upload_part(**where, UploadId=upload, PartNumber=number, Body=body)
    return upload


def complete(s3: Any, where: dict[str, str], upload: str, **options: Any) -> Any:
    parts = s3.list_parts(**where, UploadId=upload)["Parts"]
    listed = {"Parts": [{name: part[name] for name in ("PartNumber", "ETag")} for part in parts]}
    return s3.complete_multipart_upload(**where, UploadId=upload, MultipartUpload=listed, **options)


@pytest.mark.parametrize(
    ("body", "algorithm", "encoded"),
    [
        # https://github.com/robertgrimm/crc64nvme/blob/main/README.md
        (b"Hello, World!\n", "CRC64NVME", b"SoXXbx67KpE="),
        # the check values of https://reveng.sourceforge.io/crc-catalogue/all.htm
        (b"123456789", "CRC64NVME", b"rosUhgp5mIg="),
        (b"123456789", "CRC32C", b"4waSgw=="),
        (b"123456789", "CRC32", b"y/Q5Jg=="),
    ],
)
def test_checksums_are_those_of_their_algorithm(body: bytes, algorithm: str, encoded: bytes) -> None:
    assert checksum(body, algorithm) == encoded


def test_a_stored_object_has_the_checksum_of_its_algorithm(s3: Any) -> None:
    s3.copy_object(**COPY, ChecksumAlgorithm="CRC64NVME")
    head = s3.head_object(**TO, ChecksumMode="ENABLED")
    assert (head["ChecksumCRC64NVME"], head["ChecksumType"]) == (checksum(b"one", "CRC64NVME").decode(), "FULL_OBJECT")


def test_a_copy_does_not_replace_an_object_if_it_must_not(s3: Any) -> None:
    s3.copy_object(**COPY, IfNoneMatch="*")
    s3.put_object(**FROM, Body=b"two")
    assert refused(lambda: s3.copy_object(**COPY, IfNoneMatch="*"))[0] == "PreconditionFailed"
    assert s3.get_object(**TO)["Body"].read() == b"one"


def test_of_many_conditional_copies_at_once_one_succeeds(s3: Any, frequent_thread_switches: None) -> None:
    codes: list[str] = []

    def copy() -> None:
        try:
            s3.copy_object(**COPY, IfNoneMatch="*")
            codes.append("")
        except s3.exceptions.ClientError as error:
            codes.append(error.response["Error"]["Code"])

    threads = [threading.Thread(target=copy) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(codes) == ["", *["PreconditionFailed"] * 7]


def test_a_source_that_has_changed_is_not_copied(s3: Any) -> None:
    etag = s3.head_object(**FROM)["ETag"]
    upload = s3.create_multipart_upload(**TO)["UploadId"]
    part = {**COPY, "UploadId": upload, "PartNumber": 1, "CopySourceIfMatch": etag}
    assert s3.upload_part_copy(**part)["CopyPartResult"]["ETag"] == etag
    s3.put_object(**FROM, Body=b"two")
    assert refused(lambda: s3.copy_object(**COPY, CopySourceIfMatch=etag))[0] == "PreconditionFailed"
    assert refused(lambda: s3.upload_part_copy(**part))[0] == "PreconditionFailed"


def test_a_missing_source_is_no_such_key(s3: Any) -> None:
    upload = s3.create_multipart_upload(**TO)["UploadId"]
    none = {"CopySource": {"Bucket": "source", "Key": "none"}}
    assert refused(lambda: s3.copy_object(**TO, **none))[0] == "NoSuchKey"
    assert refused(lambda: s3.upload_part_copy(**TO, **none, UploadId=upload, PartNumber=1))[0] == "NoSuchKey"


def test_a_source_above_the_limit_is_copied_only_in_ranges(s3: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("localcloud.s3.copies.MAX_COPY_BYTES", 6 * MIB)
    s3.put_object(**FROM, Body=b"x" * 6 * MIB)
    s3.copy_object(**COPY)
    s3.put_object(**FROM, Body=b"x" * (6 * MIB + 1))
    upload = s3.create_multipart_upload(**TO)["UploadId"]
    whole = {**COPY, "UploadId": upload, "PartNumber": 1}
    for call in (lambda: s3.copy_object(**COPY), lambda: s3.upload_part_copy(**whole)):
        code, message = refused(call)
        assert (code, "larger than the maximum allowable size for a copy source" in message) == ("InvalidRequest", True)
    assert s3.upload_part_copy(**whole, CopySourceRange=f"bytes=0-{6 * MIB - 1}")["CopyPartResult"]


def test_a_range_of_a_small_source_or_beyond_the_source_is_refused(s3: Any) -> None:
    upload = s3.create_multipart_upload(**TO)["UploadId"]
    part = {**COPY, "UploadId": upload, "PartNumber": 1}
    assert refused(lambda: s3.upload_part_copy(**part, CopySourceRange="bytes=0-1"))[0] == "InvalidRequest"
    s3.put_object(**FROM, Body=b"x" * 6 * MIB)
    assert refused(lambda: s3.upload_part_copy(**part, CopySourceRange=f"bytes=0-{6 * MIB}"))[0] == "InvalidArgument"


def test_an_unknown_upload_is_no_such_upload(s3: Any) -> None:
    ended = s3.create_multipart_upload(**TO)["UploadId"]
    s3.abort_multipart_upload(**TO, UploadId=ended)
    part = {"UploadId": ended, "PartNumber": 1}
    parts = {"Parts": [{"PartNumber": 1, "ETag": '"x"'}]}
    for call in (
        lambda: s3.upload_part(**TO, **part, Body=b"x"),
        lambda: s3.upload_part_copy(**COPY, **part),
        lambda: s3.list_parts(**TO, UploadId=ended),
        lambda: s3.abort_multipart_upload(**TO, UploadId=ended),
        lambda: s3.complete_multipart_upload(**TO, UploadId=ended, MultipartUpload=parts),
    ):
        assert refused(call)[0] == "NoSuchUpload"


def test_an_upload_is_completed_only_with_the_expected_size_and_checksum(s3: Any) -> None:
    upload = in_parts(s3, TO, b"one", ChecksumAlgorithm="CRC64NVME", ChecksumType="FULL_OBJECT")
    wrong = checksum(b"two", "CRC64NVME").decode()
    assert refused(lambda: complete(s3, TO, upload, MpuObjectSize=4))[0] == "InvalidRequest"
    assert refused(lambda: complete(s3, TO, upload, ChecksumCRC64NVME=wrong))[0] == "BadDigest"
    assert refused(lambda: complete(s3, TO, upload, ChecksumType="COMPOSITE"))[0] == "BadDigest"
    right = checksum(b"one", "CRC64NVME").decode()
    listed = s3.list_parts(**TO, UploadId=upload)["Parts"]
    again = {"Parts": [{"PartNumber": 1, "ETag": listed[0]["ETag"]}]}
    complete(s3, TO, upload, ChecksumCRC64NVME=right, MpuObjectSize=3, IfNoneMatch="*")
    s3.complete_multipart_upload(**TO, UploadId=upload, MultipartUpload=again, IfNoneMatch="*")
    assert s3.get_object(**TO)["Body"].read() == b"one"


def test_a_checksum_of_parts_is_not_one_of_the_whole_object(s3: Any) -> None:
    complete(s3, TO, in_parts(s3, TO, b"x" * 5 * MIB, b"y", ChecksumAlgorithm="CRC32"))
    head = s3.head_object(**TO, ChecksumMode="ENABLED")
    assert (head["ChecksumType"], head["ChecksumCRC32"][-2:]) == ("COMPOSITE", "-2")


def test_objects_that_were_uploaded_in_parts_are_copied_and_verified(s3: Any, client: Callable[..., Any]) -> None:
    """One has a checksum of its parts, and one has a single part below the limits of parts and ranges."""
    source, target = S3Uri("source", "parts"), S3Uri("target", "parts")
    for name, bodies in {"two": (b"x" * 5 * MIB, b"y"), "one": (b"z",)}.items():
        where = {"Bucket": source.bucket, "Key": f"{source.key}/{name}"}
        complete(s3, where, in_parts(s3, where, *bodies, ChecksumAlgorithm="CRC32"))
    store = CopyStore("us-east-1", lambda service, *_: client(service))
    folders = Folders(source=source, source_store=store, target=target, target_store=store)
    copy = FolderCopy(folders=folders, objects=ObjectCopy(source_store=store, target_store=store))
    survey = folders.survey()
    copy.start()
    while not copy.wait(1.0):
        pass
    copy.finish(survey)
    assert copy.progress().verified == {"etag": 2}
