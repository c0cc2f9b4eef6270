"""Uploads and buckets that S3 refuses, and the nearest that it accepts."""

import base64
import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from localcloud.s3.checksums import checksum
from localcloud.s3.uploads import MAX_KEY, MAX_METADATA

BUCKET = "uploads"


@pytest.fixture
def s3(client: Callable[..., Any]) -> Any:
    api = client("s3")
    api.create_bucket(Bucket=BUCKET)
    return api


def digest(algorithm: str, content: bytes) -> str:
    return base64.b64encode(hashlib.new(algorithm, content).digest()).decode()


@pytest.mark.parametrize(
    ("upload", "code"),
    [
        ({"Key": "k" * (MAX_KEY + 1)}, "KeyTooLongError"),
        ({"Key": "ä" * (MAX_KEY // 2 + 1)}, "KeyTooLongError"),
        ({"ChecksumSHA256": digest("sha256", b"other")}, "BadDigest"),
        ({"ChecksumCRC32": "AAAAAA=="}, "BadDigest"),
        ({"ContentMD5": digest("md5", b"other")}, "BadDigest"),
        ({"Metadata": {"a": "x" * MAX_METADATA}}, "MetadataTooLarge"),
    ],
)
def test_an_upload_beyond_the_limits_or_with_another_digest_is_refused(
    s3: Any, upload: dict[str, Any], code: str
) -> None:
    with pytest.raises(ClientError, match=code):
        s3.put_object(**{"Bucket": BUCKET, "Key": "x", "Body": b"content", **upload})


@pytest.mark.parametrize(
    "upload",
    [
        {"Key": "k" * MAX_KEY},
        {"ChecksumSHA256": digest("sha256", b"content")},
        {"ChecksumCRC32C": checksum(b"content", "CRC32C").decode()},
        {"ContentMD5": digest("md5", b"content")},
        {"Metadata": {"a": "x" * (MAX_METADATA - 1)}},
        {"Body": b""},
    ],
)
def test_an_upload_within_the_limits_is_accepted(s3: Any, upload: dict[str, Any]) -> None:
    s3.put_object(**{"Bucket": BUCKET, "Key": "x", "Body": b"content", **upload})
