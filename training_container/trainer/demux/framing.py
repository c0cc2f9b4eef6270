"""Framing: splits a stream of bytes into TFRecords, and detects every error. Does not import TensorFlow.

A record consists of its length (uint64, little endian), a masked CRC-32C of the length (uint32), the data, and a masked
CRC-32C of the data (uint32). Source: TensorFlow, lib/io/record_writer.h and lib/hash/crc32c.h. native/framing.h
implements the same in C++.
"""

import struct
import threading

import google_crc32c

HEADER = 12
FOOTER = 4
MAX_RECORD_BYTES = 1 << 30
"""Maximum bytes of data in a record. Without it, a corrupt length would be allocated before the error is detected."""

_lock = threading.Lock()
_corrupt_records = 0


class StreamError(ValueError):
    """A stream of records is invalid. The text names the channel, the byte and the record, and suggests a solution."""


def masked_crc(data: bytes | memoryview) -> int:
    """Return the CRC-32C of `data` in the format of TFRecords: rotated, plus a constant."""
    # google_crc32c accepts only bytes, so other buffers are copied.
    crc: int = google_crc32c.value(data if isinstance(data, bytes) else bytes(data))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def corrupt_records_seen() -> int:
    """Return the number of records whose data CRC did not match that this process has skipped, in all channels."""
    return _corrupt_records


class Splitter:
    """Splits blocks of bytes into records.

    Args:
        channel: The channel's name, for error messages.
        source: The path that the bytes come from, for error messages.
        tolerate: The number of records that are skipped (and counted) if their data CRC does not match.
    """

    def __init__(self, channel: str, source: str, *, tolerate: int = 0) -> None:
        self._channel, self._source = channel, source
        self.tolerate = tolerate
        self._parts: list[bytes] = []
        self.held = 0  # bytes of an incomplete record
        self._needed_bytes = HEADER  # number of bytes needed for the next action
        self.start = 0  # byte at which the next record starts
        self.record = 0  # number of the next record
        self._failure: StreamError | None = None

    def feed(self, block: bytes) -> list[bytes]:
        """Return the records that end in this block. An error after them is raised at the next call.

        Raises:
            StreamError: A CRC does not match, or a length exceeds MAX_RECORD_BYTES.
        """
        if self._failure:
            raise self._failure
        self._parts.append(block)
        self.held += len(block)
        if self.held < self._needed_bytes:
            return []
        data = b"".join(self._parts) if len(self._parts) > 1 else block
        records: list[bytes] = []
        try:
            consumed_bytes = self._split(data, records)
        except StreamError as error:
            self._failure = error
            return records
        self._parts, self.held = [data[consumed_bytes:]], len(data) - consumed_bytes
        return records

    def _split(self, data: bytes, records: list[bytes]) -> int:
        """Append the complete records in `data` to `records`. Return the number of bytes that they take."""
        position, size = 0, len(data)
        self._needed_bytes = HEADER
        while position + HEADER <= size:
            length = self._length(data[position : position + HEADER])
            end = position + HEADER + length + FOOTER
            if end > size:
                self._needed_bytes = end - position
                break
            content = data[position + HEADER : end - FOOTER]
            if self._is_sound(content, data[end - FOOTER : end]):
                records.append(content)
            self.start += end - position
            self.record += 1
            position = end
        return position

    def finish(self) -> None:
        """Check that the stream may end here.

        Raises:
            StreamError: The stream was empty, ends inside a record, or had an error before.
        """
        if self._failure:
            raise self._failure
        if self.held == 0 and self.start > 0:
            return
        if self.held == 0:
            raise self._error(
                f"{self._source} ended without any data. Check that the channel's S3 prefix or manifest contains "
                "TFRecord objects."
            )
        part = "the header of " if self.held < HEADER else ""
        raise self._error(
            f"{self._source} was truncated at byte {self.start + self.held}, inside {part}record {self.record}, which "
            f"starts at byte {self.start}. Its writer ended too early, or an object is incomplete."
        )

    def _length(self, header: bytes) -> int:
        length, crc = struct.unpack("<QI", header)
        if masked_crc(header[:8]) != crc:
            raise self._error(
                f"the header of record {self.record} at byte {self.start} of {self._source} is corrupt: the CRC of its "
                "length does not match. The objects are damaged, compressed, or not TFRecords."
            )
        if length > MAX_RECORD_BYTES:
            raise self._error(
                f"record {self.record} at byte {self.start} of {self._source} has a length of {length} bytes, but the "
                f"maximum is {MAX_RECORD_BYTES}. The object is damaged."
            )
        return int(length)

    def _is_sound(self, content: bytes, footer: bytes) -> bool:
        global _corrupt_records  # noqa: PLW0603  # a single count for the whole process
        if masked_crc(content) == int.from_bytes(footer, "little"):
            return True
        if self.tolerate > 0:
            self.tolerate -= 1
            with _lock:
                _corrupt_records += 1
            return False
        raise self._error(
            f"record {self.record} at byte {self.start} of {self._source} is corrupt: the CRC of its {len(content)} "
            "bytes does not match. Rewrite the object, or allow some corrupt records with the hyperparameter "
            "tolerate_corrupt_records."
        )

    def _error(self, text: str) -> StreamError:
        return StreamError(f"Channel {self._channel}: {text}")
