"""The index of records that `traingrid data index` writes, against the one that the trainer makes from the files."""

import json
import struct
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from traingrid.aws.s3_copy import Listed
from traingrid.aws.s3_uri import S3Uri
from traingrid.datasets.record_index import (
    BLOCK_BYTES,
    FIRST_BYTES,
    current,
    entry_of,
    estimate,
    index_document,
    indexed_files,
    stored_index,
)
from traingrid.errors import UsageError
from training_container.trainer.data import record_index as trainer

URI = S3Uri("campaigns", "imagenet/train/part-0")


def masked(data: bytes) -> bytes:
    """Return TensorFlow's checksum of some bytes, a bit at a time."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    crc ^= 0xFFFFFFFF
    return struct.pack("<I", ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF)


def tfrecords(*sizes: int) -> bytes:
    lengths = (struct.pack("<Q", size) for size in sizes)
    return b"".join(
        length + masked(length) + bytes(size) + b"-crc" for length, size in zip(lengths, sizes, strict=True)
    )


def listed(content: bytes, etag: str = '"1"') -> Listed:
    return Listed(key=URI.key, size=len(content), etag=etag)


def reader(content: bytes, requests: list[int]) -> Callable[[int, int], bytes]:
    def read(start: int, end: int) -> bytes:
        requests.append(end - start)
        return content[start:end]

    return read


@given(sizes=st.lists(st.one_of(st.integers(0, 90), st.integers(60_000, 70_000)), min_size=1, max_size=40))
def test_the_trainer_reads_the_index_that_it_would_make_itself(
    tmp_path_factory: pytest.TempPathFactory, sizes: list[int]
) -> None:
    folder = tmp_path_factory.mktemp("channel")
    content = tfrecords(*sizes)
    (folder / "part-0").write_bytes(content)
    entry = entry_of(URI, listed(content), reader(content, []))
    (folder / trainer.WITH_THE_DATA).write_bytes(index_document({"part-0": entry}))
    assert trainer.stored(folder / trainer.WITH_THE_DATA) == {"part-0": trainer.indexed(folder / "part-0")}


def test_the_starts_of_a_file_with_many_records_are_thinned_out(tmp_path: Path) -> None:
    content = tfrecords(*[4] * 5000)
    (tmp_path / "part").write_bytes(content)
    entry, expected = entry_of(URI, listed(content), reader(content, [])), trainer.indexed(tmp_path / "part")
    assert (entry.stride, entry.starts) == (expected.stride, list(expected.starts))
    assert entry.stride > 1


def test_small_records_are_read_in_blocks_and_large_ones_by_their_headers() -> None:
    small, large, requests = tfrecords(*[1000] * 10_000), tfrecords(*[200_000] * 50), list[int]()
    entry_of(URI, listed(small), reader(small, requests))
    assert len(requests) == 3
    assert sum(requests) < len(small) + 100
    requests.clear()
    entry_of(URI, listed(large), reader(large, requests))
    assert requests == [FIRST_BYTES, *[12] * 49]


@pytest.mark.parametrize("size", [1_000, 200_000])
def test_an_estimate_is_close_to_the_count(size: int) -> None:
    content, requests, sample = tfrecords(*[size] * (20_000_000 // size)), list[int](), list[int]()
    entry_of(URI, listed(content), reader(content, requests))
    found = estimate(URI, listed(content), [len(content)] * 3, reader(content, sample))
    assert len(sample) == 1
    assert found.requests == pytest.approx(3 * len(requests), rel=0.1)
    assert found.bytes == pytest.approx(3 * sum(requests), rel=0.1)
    assert BLOCK_BYTES > FIRST_BYTES


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff\xd8\xff\xe0 a JPEG image", "is not a TFRecord file: it does not begin with a record"),
        (b"a,b\n", "is not a TFRecord file: it does not begin with a record"),
        (b"\x1f\x8b\x08" + bytes(40), "is compressed with gzip"),
        (tfrecords(10, 10)[:-1], "is truncated: it has 51 bytes, and ends within record 1"),
        (tfrecords(10, 10)[:30], "is truncated: it has 30 bytes, and ends within record 1"),
        (tfrecords(10) + bytes(40), "is not a TFRecord file: record 1 at byte 26 is invalid"),
    ],
)
def test_another_file_is_refused_in_one_sentence(content: bytes, words: str) -> None:
    with pytest.raises(UsageError) as caught:
        entry_of(URI, listed(content), reader(content, []))
    assert str(caught.value.what).startswith(f"{URI} ")
    assert words in caught.value.what
    assert "No index was written." in caught.value.next_step


def test_an_entry_is_current_until_the_object_is_replaced() -> None:
    content = tfrecords(10)
    entry = entry_of(URI, listed(content), reader(content, []))
    stored = stored_index(index_document({"a": entry, "gone": entry}))
    assert current(stored, {"a": listed(content)}) == {"a": entry}
    assert current(stored, {"a": listed(content, etag='"2"')}) == {}


@pytest.mark.parametrize(
    "content", [None, b"", b"no JSON", b"[]", b'{"files": {"a": {"size": 16, "records": 1}}}', b'{"files": []}']
)
def test_an_index_without_etags_or_of_another_kind_is_made_again(content: bytes | None) -> None:
    assert stored_index(content) == {}


def test_the_files_are_those_that_the_trainer_reads() -> None:
    hidden = (
        "a/_records.json",
        "a/.hidden",
        "a/_temporary/0/x",
        "a/b/.snapshot/x",
        "a/_delta_log/0.json",
        "a/dataset.json",
    )
    keys = {"a/x": 1, "a/b/y": 1, "a/b/": 0, "a/empty": 0, **dict.fromkeys(hidden, 1)}
    found = indexed_files(S3Uri("m", "a"), [Listed(key=key, size=size, etag="") for key, size in keys.items()])
    assert list(found) == ["x", "b/y"]
    with pytest.raises(UsageError, match="has no data"):
        indexed_files(S3Uri("m", "a"), [])


def test_the_document_is_small_and_has_a_version() -> None:
    entry = entry_of(URI, listed(tfrecords(10)), reader(tfrecords(10), []))
    expected = {"size": 26, "etag": '"1"', "records": 1, "stride": 1, "starts": [0]}
    assert json.loads(index_document({"a": entry})) == {"version": 1, "files": {"a": expected}}
