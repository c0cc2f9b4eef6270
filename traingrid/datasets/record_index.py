"""Record index: counts the records of TFRecord objects by their headers, for the file `_records.json` beside the data.

The built-in trainer and scripts read that file in place of all headers (docs/input.md). A record is its length
(uint64, little endian), a masked CRC-32C of the length (uint32), the data, and a CRC of the data (uint32). Source:
https://www.tensorflow.org/tutorials/load_data/tfrecord#tfrecords_format_details.
"""

from __future__ import annotations

import json
import math
import struct
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.errors import UsageError
from traingrid.strict_json import JsonError, json_object, member

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from traingrid.aws.s3_copy import Listed
    from traingrid.aws.s3_uri import S3Uri

    Read = Callable[[int, int], bytes]
    """Returns the bytes of an object from a start up to, not including, an end."""

FIRST_BYTES = 64 * 1024
"""Bytes of the first request for an object, which shows the size of its records."""
BLOCK_BYTES = 8 * 1024**2
"""Bytes of a request for an object with small records."""
SMALL_RECORD = 32 * 1024
"""Bytes of a record below which whole blocks are read: as many bytes take about as long as one more request."""
_HEADER = struct.Struct("<QI")
_FOOTER = 4
_MAX_STARTS = 1024  # per object, as in the index that the trainer writes; even
_GZIP = b"\x1f\x8b\x08"  # RFC 1952, 2.3.1


@dataclass(frozen=True, kw_only=True)
class FileEntry:
    """The records of an object.

    Attributes:
        size: The object's size in bytes, for which the trainer uses the entry.
        etag: Its ETag, by which this command detects that the object has been replaced.
        stride: The distance, in records, between two of `starts`.
        starts: The bytes at which records 0, stride, 2 * stride, ... start.
    """

    size: int
    etag: str
    records: int
    stride: int = 1
    starts: list[int] = field(default_factory=list)


Index = dict[str, FileEntry]
"""The entries of a folder's objects, by their key below the folder."""


def indexed_files(folder: S3Uri, listed: Iterable[Listed]) -> dict[str, Listed]:
    """Return the objects that the trainer reads as files of a channel, by their key below the folder.

    It ignores empty objects and those that are no data (`names.is_data`).

    Raises:
        UsageError: There are none.
    """
    prefix = f"{folder.key}/" if folder.key else ""
    by_name = {listed_object.key.removeprefix(prefix): listed_object for listed_object in listed if listed_object.size}
    files = {name: listed_object for name, listed_object in by_name.items() if names.is_data(name)}
    if not files:
        raise UsageError(f"{folder} has no data.", "Give the folder of a channel with TFRecord files.")
    return files


def stored_index(content: bytes | None) -> Index:
    """Return the entries of an index that this command has written; none if it is another one, or None."""
    try:
        entries = member(json_object(content or b"{}"), "files", dict)
        return {name: FileEntry(**values) for name, values in entries.items()}
    except (JsonError, TypeError):
        return {}


def current(index: Index, files: Mapping[str, Listed]) -> Index:
    """Return the entries for objects that have not been replaced since."""
    return {
        name: entry
        for name, entry in index.items()
        if name in files and (files[name].size, files[name].etag) == (entry.size, entry.etag)
    }


def index_document(index: Index) -> bytes:
    """Return the content of the index's file. training_container/trainer/data/record_index.py reads it."""
    files = {name: asdict(index[name]) for name in sorted(index)}
    return json.dumps({"version": 1, "files": files}, separators=(",", ":")).encode()


def entry_of(uri: S3Uri, listed: Listed, read: Read) -> FileEntry:
    """Count the records of an object.

    Raises:
        UsageError: It is not a TFRecord file, or is truncated.
    """
    headers = Headers(uri, listed.size, read)
    starts, stride, records, position = list[int](), 1, 0, 0
    while position < listed.size:
        if records % stride == 0:
            if len(starts) == _MAX_STARTS:
                starts, stride = starts[::2], 2 * stride
            starts.append(position)
        position = headers.end_of(position, records)
        records += 1
    return FileEntry(size=listed.size, etag=listed.etag, records=records, stride=stride, starts=starts)


class Headers:
    """The headers of an object's records, read in as few requests and bytes as the size of the records allows.

    Args:
        uri: The object, for messages.
        size: Its size in bytes.
    """

    def __init__(self, uri: S3Uri, size: int, read: Read) -> None:
        self._uri, self._size, self._read = uri, size, read
        self._start, self._block = 0, b""

    def end_of(self, position: int, record: int) -> int:
        """Return the byte after the record that starts at a position.

        Args:
            position: The byte at which it starts.

        Raises:
            UsageError: There is no valid header, or the object ends before.
        """
        header = self._header(position, record)
        if len(header) == _HEADER.size:
            length, crc = _HEADER.unpack(header)
            if _masked_crc(header[:8]) != crc:
                raise self._invalid(position, record)
            end: int = position + _HEADER.size + length + _FOOTER
            if end <= self._size:
                return end
        if record == 0 and len(header) < _HEADER.size:
            raise self._invalid(position, record)
        message = f"{self._uri} is truncated: it has {self._size:,} bytes, and ends within record {record}."
        raise UsageError(message, "Upload it again. No index was written.")

    def _header(self, position: int, record: int) -> bytes:
        """Return the header of a record at a byte; the next read is as long as the records so far suggest."""
        if not self._start <= position <= self._start + len(self._block) - _HEADER.size:
            if record == 0:
                length = FIRST_BYTES
            elif position < record * SMALL_RECORD:
                length = BLOCK_BYTES
            else:
                length = _HEADER.size
            self._block = self._read(position, min(position + length, self._size))
            self._start = position
        offset = position - self._start
        return self._block[offset : offset + _HEADER.size]

    def _invalid(self, position: int, record: int) -> UsageError:
        if position == 0 and self._block.startswith(_GZIP):
            return UsageError(
                f"{self._uri} is compressed with gzip.", "Rewrite it without compression. No index was written."
            )
        invalid = f"record {record} at byte {position:,} is invalid"
        problem = invalid if record else "it does not begin with a record"
        return UsageError(
            f"{self._uri} is not a TFRecord file: {problem}.",
            "Give the folder of a channel with TFRecord files only. No index was written.",
        )


@dataclass(frozen=True, kw_only=True)
class Estimate:
    """The requests for the headers of some objects, and the bytes of their replies."""

    requests: int
    bytes: int


def estimate(uri: S3Uri, sample: Listed, sizes: Iterable[int], read: Read) -> Estimate:
    """Return an estimate for objects of these sizes whose records are as large as those at the beginning of a sample.

    Raises:
        UsageError: The sample is not a TFRecord file.
    """
    headers, position, records = Headers(uri, sample.size, read), 0, 0
    while position < min(sample.size, FIRST_BYTES):
        position = headers.end_of(position, records)
        records += 1
    mean = position / records
    requests = read_bytes = 0
    for size in sizes:
        remaining_bytes = max(0, size - FIRST_BYTES)
        further_reads = (
            math.ceil(remaining_bytes / BLOCK_BYTES) if mean < SMALL_RECORD else round(remaining_bytes / mean)
        )
        requests += 1 + further_reads
        read_bytes += min(size, FIRST_BYTES) + (
            remaining_bytes if mean < SMALL_RECORD else further_reads * _HEADER.size
        )
    return Estimate(requests=requests, bytes=read_bytes)


def _table() -> list[int]:
    """Return the table of the CRC-32C, a byte at a time (RFC 3720, 12.1: the polynomial 0x11EDC6F41)."""
    table = []
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = value >> 1 ^ (0x82F63B78 if value & 1 else 0)
        table.append(value)
    return table


_TABLE = _table()


def _masked_crc(data: bytes) -> int:
    """Return the CRC-32C of some bytes as TFRecords store it: rotated, plus a constant."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc = crc >> 8 ^ _TABLE[(crc ^ byte) & 0xFF]
    crc ^= 0xFFFFFFFF
    return ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
