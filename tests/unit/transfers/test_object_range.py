"""Ranges of objects: how often a request is repeated, and what ends a download. tests/unit/pod covers lost replies."""

import math
from collections.abc import Iterator
from pathlib import Path
from threading import Event

import pytest
from botocore.exceptions import FlexibleChecksumError

from traingrid.aws.s3_uri import S3Uri
from traingrid.transfers.object_range import ObjectRange
from traingrid.transfers.retries import Retries

CONTENT = b"0123456789"


class DamagingS3:
    """S3 whose first replies have all bytes and a wrong checksum; its replies have chunks of two bytes."""

    def __init__(self, damaged: int) -> None:
        self.damaged, self.requests = damaged, list[dict[str, str]]()

    def get_object(self, **request: str) -> dict[str, "DamagingS3"]:
        self.requests.append(request)
        return {"Body": self}

    def iter_chunks(self, _size: int) -> Iterator[bytes]:
        for start in range(0, len(CONTENT), 2):
            yield CONTENT[start : start + 2]
        if len(self.requests) <= self.damaged:
            raise FlexibleChecksumError(error_msg="Expected checksum AAAA did not match calculated checksum BBBB")

    def close(self) -> None:
        pass


@pytest.fixture
def whole(tmp_path: Path) -> ObjectRange:
    (tmp_path / "file").touch()
    source = S3Uri("data", "object")
    return ObjectRange(source=source, etag='"e"', size=len(CONTENT), file=tmp_path / "file", start=0, end=len(CONTENT))


def retries() -> Retries:
    return Retries(math.inf, tries=3, max_wait=0.0)


def test_an_object_with_a_wrong_checksum_is_read_again_from_its_start(whole: ObjectRange) -> None:
    s3 = DamagingS3(damaged=3)
    whole.download(s3, retries(), Event())
    assert whole.file.read_bytes() == CONTENT
    assert s3.requests == [{"Bucket": "data", "Key": "object", "IfMatch": '"e"'}] * 4


def test_a_checksum_that_is_always_wrong_is_an_error(whole: ObjectRange) -> None:
    s3 = DamagingS3(damaged=100)
    with pytest.raises(FlexibleChecksumError):
        whole.download(s3, retries(), Event())
    assert len(s3.requests) == 4


def test_a_stopped_download_ends_after_the_next_chunk(whole: ObjectRange) -> None:
    stop, positions = Event(), list[int]()

    def progress(position: int) -> None:
        positions.append(position)
        stop.set()

    whole.download(DamagingS3(damaged=0), retries(), stop, progress)
    assert (positions, whole.file.read_bytes()) == ([2], CONTENT[:2])
