"""A stream of bytes split into TFRecords, with every break found. Imports no TensorFlow.

A record is its length (uint64, little endian), a masked CRC-32C of that (uint32), the data, and a masked CRC-32C of the
data (uint32). Source: TensorFlow, lib/io/record_writer.h and lib/hash/crc32c.h. native/framing.h is the same in C++.
"""

import struct
import threading

import google_crc32c

HEADER = 12
FOOTER = 4
LONGEST = 1 << 30
"""Bytes of data that a record may have: a forged length would be allocated before anything shows that it is wrong."""

_lock = threading.Lock()
_corrupt_records = 0


class StreamError(ValueError):
    """A stream of records is broken; the text names the channel, the byte, the record, and what to do."""


def masked_crc(data: bytes | memoryview) -> int:
    """Return the CRC-32C of `data` as TFRecords store it: rotated, plus a constant."""
    # google_crc32c reads nothing but bytes; numpy's and memoryview's contents are copied.
    crc: int = google_crc32c.value(data if isinstance(data, bytes) else bytes(data))
    return (((crc >> 15) | (crc << 17)) + 0xA282EAD8) & 0xFFFFFFFF


def corrupt_records_seen() -> int:
    """Return how many records of a wrong data CRC this process has skipped so far, of all channels and epochs."""
    return _corrupt_records


class Splitter:
    """Splits what it is fed into records.

    Args:
        channel: for the errors.
        source: the path the bytes come from, for the errors.
        tolerate: how many records whose data CRC is wrong are skipped (and counted) before one is an error.
        whole: hand out whole records, framing included and the data's CRC unchecked, as the demultiplexer wants them.
    """

    def __init__(self, channel: str, source: str, *, tolerate: int = 0, whole: bool = False) -> None:
        self._channel, self._source = channel, source
        self.tolerate, self._whole = tolerate, whole
        self._parts: list[bytes] = []
        self.held = 0  # bytes of a record that has not ended yet
        self._wanted = HEADER  # bytes, before which there is nothing to do
        self.start = 0  # the byte at which the next record starts
        self.record = 0  # its number
        self._failure: StreamError | None = None

    def feed(self, block: bytes) -> list[bytes]:
        """Return the records that end in this block; what is wrong behind them is raised at the next call.

        Raises:
            StreamError: a CRC is wrong, or a length exceeds LONGEST.
        """
        if self._failure:
            raise self._failure
        self._parts.append(block)
        self.held += len(block)
        if self.held < self._wanted:
            return []
        data = b"".join(self._parts) if len(self._parts) > 1 else block
        records: list[bytes] = []
        try:
            used = self._split(data, records)
        except StreamError as error:
            self._failure = error
            return records
        self._parts, self.held = [data[used:]], len(data) - used
        return records

    def _split(self, data: bytes, records: list[bytes]) -> int:
        """Append the whole records in `data` to `records` and return how many bytes they take."""
        position, size = 0, len(data)
        self._wanted = HEADER
        while position + HEADER <= size:
            length = self._length(data[position : position + HEADER])
            end = position + HEADER + length + FOOTER
            if end > size:
                self._wanted = end - position
                break
            if self._whole:
                records.append(data[position:end])
            else:
                content = data[position + HEADER : end - FOOTER]
                if self._sound(content, data[end - FOOTER : end]):
                    records.append(content)
            self.start += end - position
            self.record += 1
            position = end
        return position

    def finish(self) -> None:
        """Check that the stream may end here.

        Raises:
            StreamError: it had no bytes, ends inside a record, or was broken before.
        """
        if self._failure:
            raise self._failure
        if self.held == 0 and self.start > 0:
            return
        if self.held == 0:
            raise self._error(
                f"{self._source} ended without a single byte. Check that the channel's S3 prefix or manifest holds "
                "TFRecord objects."
            )
        part = "the header of " if self.held < HEADER else ""
        raise self._error(
            f"{self._source} was cut at byte {self.start + self.held}, inside {part}record {self.record}, which starts "
            f"at byte {self.start}. Its writer ended too early, or an object is incomplete."
        )

    def _length(self, header: bytes) -> int:
        length, crc = struct.unpack("<QI", header)
        if masked_crc(header[:8]) != crc:
            raise self._error(
                f"the header of record {self.record} at byte {self.start} of {self._source} is corrupt: the CRC of its "
                "length does not match. The objects are damaged, compressed, or no TFRecords."
            )
        if length > LONGEST:
            raise self._error(
                f"record {self.record} at byte {self.start} of {self._source} claims {length} bytes, more than the "
                f"{LONGEST} that a record may have. The object is damaged."
            )
        return int(length)

    def _sound(self, content: bytes, footer: bytes) -> bool:
        global _corrupt_records  # noqa: PLW0603  # one figure for the whole process is what is asked for
        if masked_crc(content) == int.from_bytes(footer, "little"):
            return True
        if self.tolerate > 0:
            self.tolerate -= 1
            with _lock:
                _corrupt_records += 1
            return False
        raise self._error(
            f"record {self.record} at byte {self.start} of {self._source} is corrupt: the CRC of its {len(content)} "
            "bytes does not match. Write the object again, or allow a few with the hyperparameter "
            "tolerate_corrupt_records."
        )

    def _error(self, text: str) -> StreamError:
        return StreamError(f"Channel {self._channel}: {text}")
