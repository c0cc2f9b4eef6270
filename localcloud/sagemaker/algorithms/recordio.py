"""RecordIO: reads the records of Apache MXNet's format, with their labels.

Format: https://mxnet.apache.org/versions/1.9.1/api/faq/recordio and dmlc-core's recordio.h
(https://github.com/dmlc/dmlc-core/blob/main/include/dmlc/recordio.h): a magic number, three bits of flags with the
length in 29 bits, the data, and padding to four bytes. A record of an image begins with a header: the number of labels
(0 for one in the header), a label, and two ids.
"""

import struct
from collections.abc import Iterator
from dataclasses import dataclass

_MAGIC = 0xCED7230A
_LENGTH_BITS = 29
_WORD = 4
_HEADER = struct.Struct("<IfQQ")
_FRAME = struct.Struct("<II")


class RecordIOError(ValueError):
    """The bytes are not in this format."""


@dataclass(frozen=True, kw_only=True)
class ProtobufRecord:
    """One record."""

    labels: tuple[float, ...]
    image: bytes


def records(content: bytes) -> Iterator[ProtobufRecord]:
    """Yield the records of a file.

    Raises:
        RecordIOError: The content has another format, or ends within a record.
    """
    parts = b""
    for flag, data in _frames(content):
        parts = data if flag in (0, 1) else parts + struct.pack("<I", _MAGIC) + data
        if flag in (0, 3):  # a complete record, or the last part of one
            yield _record(parts)


def pack(labels: tuple[float, ...], image: bytes, number: int = 0) -> bytes:
    """Return one record; an image must not contain the magic number, which real writers split at."""
    is_single = len(labels) == 1
    header = _HEADER.pack(0 if is_single else len(labels), labels[0] if is_single else 0.0, number, 0)
    data = header + (b"" if is_single else struct.pack(f"<{len(labels)}f", *labels)) + image
    return _FRAME.pack(_MAGIC, len(data)) + data + b"\0" * (-len(data) % _WORD)


def _frames(content: bytes) -> Iterator[tuple[int, bytes]]:
    place = 0
    while place < len(content):
        if len(content) - place < _FRAME.size:
            message = "the file ends within a record"
            raise RecordIOError(message)
        magic, word = _FRAME.unpack_from(content, place)
        if magic != _MAGIC:
            message = f"byte {place} does not begin a record"
            raise RecordIOError(message)
        flag = word >> _LENGTH_BITS
        length = word & ((1 << _LENGTH_BITS) - 1)
        data = content[place + _FRAME.size : place + _FRAME.size + length]
        if len(data) < length:
            message = "the file ends within a record"
            raise RecordIOError(message)
        yield flag, data
        place += _FRAME.size + length + (-length % _WORD)


def _record(data: bytes) -> ProtobufRecord:
    if len(data) < _HEADER.size:
        message = "a record is shorter than its header"
        raise RecordIOError(message)
    number, label, _, _ = _HEADER.unpack_from(data)
    content = data[_HEADER.size :]
    if not number:
        return ProtobufRecord(labels=(label,), image=content)
    if len(content) < _WORD * number:
        message = "a record is shorter than its labels"
        raise RecordIOError(message)
    labels = struct.unpack_from(f"<{number}f", content)
    return ProtobufRecord(labels=labels, image=content[_WORD * number :])
