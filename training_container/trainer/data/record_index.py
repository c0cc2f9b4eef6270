"""Record index: how many records each file of a channel has, and where they start. Does not import TensorFlow.

Ranges of records need the counts of all files. The ranks share the work: each walks the headers of some files, and all
ranks exchange the results.
"""

import dataclasses
import itertools
import json
import os
import struct
import zlib
from array import array
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from training_container import outside_json

WITH_THE_DATA = "_records.json"
"""The name of an index in a channel's folder, in the format of `store`."""
MIN_RECORD_BYTES = 16
"""Bytes of a record without data: its length, and two CRCs."""
MAX_STARTS = 1024
"""Starts that are kept of a file: 8 KiB. Must be even."""
THREADS = 8
"""Files whose headers a rank reads at once. In FastFile mode a header is a request to S3, which takes milliseconds."""
ROUND_SECONDS = 20.0
"""Time until ranks exchange how far they are. Horovod ends a job whose ranks wait for `stall_seconds`."""

_GZIP = b"\x1f\x8b\x08"  # RFC 1952, 2.3.1


class ShardError(ValueError):
    """A channel cannot be sharded. The text names the channel or file and the reason."""


@dataclass(frozen=True, kw_only=True)
class FileIndex:
    """The records of a file.

    Attributes:
        size: The file's size in bytes, for which the index is valid.
        stride: The distance, in records, between two known starts.
        starts: The bytes at which records 0, stride, 2 * stride, ... start. May be empty: then only byte 0 is known.
    """

    size: int
    records: int
    stride: int = 1
    starts: Sequence[int] = ()

    def before(self, record: int) -> tuple[int, int]:
        """Return the last known start at or before a record: the number of its record, and the byte."""
        place = min(record // self.stride, len(self.starts) - 1)
        return (place * self.stride, self.starts[place]) if place > 0 else (0, 0)


Index = dict[str, FileIndex]
"""The indices of files, by their path below the channel's folder, with slashes."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """The results of one rank since the last exchange.

    Attributes:
        listing: A checksum of the names and sizes of the files that the rank sees.
        found: The files whose headers it has read.
        left: The number of files whose headers it has not read yet.
        error: The text of a ShardError, or "".
    """

    listing: int
    found: Index = field(default_factory=dict)
    left: int = 0
    error: str = ""


Exchange = Callable[[Part], list[Part]]
"""Sends this rank's part to all ranks, and returns the parts of all, in the order of ranks."""


def own_part(part: Part) -> list[Part]:
    """Exchange nothing: this process counts all files."""
    return [part]


def record_index(  # noqa: PLR0913  # all are keyword-only
    channel: str,
    files: Mapping[str, Path],
    *,
    rank: int = 0,
    ranks: int = 1,
    counted: Mapping[str, FileIndex] | None = None,
    exchange: Exchange = own_part,
    among_local: bool = False,
    round_seconds: float = ROUND_SECONDS,
) -> Index:
    """Return the index of a channel's files. All ranks must call this together if `exchange` is collective.

    Args:
        channel: The channel's name, for messages.
        files: The files that this rank sees, by name.
        rank: This rank's number among the ranks that see these files.
        ranks: The number of ranks that see them.
        counted: Entries of an earlier count, the same on all ranks. An entry for a file of another size is ignored.
        exchange: The exchange with all other ranks, including those of other hosts.
        among_local: If true, other hosts have other files.
        round_seconds: The time between two exchanges.

    Raises:
        ShardError: On all ranks: a file is invalid, or ranks see different files.
    """
    sizes = {name: path.stat().st_size for name, path in files.items()}
    index = {name: entry for name, entry in (counted or {}).items() if sizes.get(name, entry.size) == entry.size}
    missing = [name for name in files if name not in index]
    if counted and missing and rank == 0:
        stale = (
            f"{len(missing):,} of {len(files):,} files of channel {channel} are not in its index of records, or changed"
        )
        print(f"{stale}; their records are counted. `traingrid data index` renews {WITH_THE_DATA}.", flush=True)
    listing = zlib.crc32(repr(sorted(sizes.items())).encode())
    with ThreadPoolExecutor(THREADS, thread_name_prefix="record-index") as pool:
        counts = {name: pool.submit(indexed, files[name]) for name in missing[rank::ranks]}
        try:
            for parts in _rounds(counts, listing, exchange, round_seconds):
                for part in parts:
                    index |= part.found
                _check(channel, parts, among_local=among_local)
                if rank == 0 and (skipped_records := sum(part.left for part in parts)):
                    print(f"Counting the records of channel {channel}: {skipped_records:,} files are left.", flush=True)
        finally:
            for count in counts.values():
                count.cancel()
    return {name: index[name] for name in files} if not among_local else index


def _rounds(
    counts: dict[str, Future[FileIndex]], listing: int, exchange: Exchange, seconds: float
) -> Iterator[list[Part]]:
    """Exchange results until no rank has files left. Yield the parts of all ranks."""
    waiting = dict(counts)
    while True:
        wait(waiting.values(), timeout=seconds)
        finished_counts = {name: count for name, count in waiting.items() if count.done()}
        waiting = {name: count for name, count in waiting.items() if name not in finished_counts}
        errors = [str(error) for count in finished_counts.values() if (error := count.exception())]
        entries = {name: count.result() for name, count in finished_counts.items() if not count.exception()}
        parts = exchange(Part(listing=listing, found=entries, left=len(waiting), error="".join(errors[:1])))
        yield parts
        if not any(part.left for part in parts):
            return


def _check(channel: str, parts: Sequence[Part], *, among_local: bool) -> None:
    if error := next((part.error for part in parts if part.error), ""):
        raise ShardError(error)
    differing = next((rank for rank, part in enumerate(parts) if part.listing != parts[0].listing), None)
    if differing is not None and not among_local:
        raise ShardError(
            f"Ranks 0 and {differing} see different files in channel {channel}: objects were added or replaced "
            "while the "
            "job started. Submit it again."
        )


def stored(path: Path) -> Index:
    """Return the index in a file that `store` has written; empty if there is none. Report an invalid file.

    `stride` and `starts` of an entry are optional, so that a program can write the file that knows only counts.
    """
    try:
        entries = outside_json.loads(path.read_text(encoding="utf-8"))["files"]
        return {name: _entry(values) for name, values in entries.items()}
    except FileNotFoundError:
        return {}
    except (OSError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        print(f"{path} is not an index of records ({type(error).__name__}: {error}); records are counted.", flush=True)
        return {}


def _entry(values: Mapping[str, Any]) -> FileIndex:
    size = int(values.get("size", 1))
    records = int(values.get("records", 1))
    stride = int(values.get("stride", 1))
    starts = array("q", values.get("starts", []))
    if records < 0 or stride < 1 or "size" not in values or "records" not in values:
        raise ValueError("an entry needs size, records, and a stride of at least 1")
    if size < MIN_RECORD_BYTES * records:
        limit = f"{records:,} records of at least {MIN_RECORD_BYTES} bytes"
        raise ValueError(f"a file of {size:,} bytes cannot have {limit}")
    if starts and (len(starts) != -(-records // stride) or not _ascend(starts, MIN_RECORD_BYTES * stride, size)):
        raise ValueError("starts must be the bytes of records 0, stride, 2 * stride, ...")
    return FileIndex(size=size, records=records, stride=stride, starts=starts)


def _ascend(starts: Sequence[int], distance: int, end: int) -> bool:
    """Return True if starts begin at 0, have at least this distance, and leave room for the last record."""
    far_enough = all(second - first >= distance for first, second in itertools.pairwise(starts))
    return starts[0] == 0 and far_enough and starts[-1] + MIN_RECORD_BYTES <= end


def store(path: Path, index: Mapping[str, FileIndex]) -> None:
    """Write an index to a file, atomically. A failure is reported and ignored: the records are then counted again."""
    entries = {name: dataclasses.asdict(entry) | {"starts": list(entry.starts)} for name, entry in index.items()}
    writing = path.with_name(f".{path.name}.writing")
    try:
        writing.write_text(json.dumps({"version": 1, "files": entries}), encoding="utf-8")
        writing.replace(path)
    except OSError as error:
        print(f"The index of records was not stored in {path}: {error}.", flush=True)


def indexed(path: Path) -> FileIndex:
    """Return the index of a TFRecord file, reading only its headers.

    Raises:
        ShardError: The file ends within a record, or is not a TFRecord file.
    """
    starts, stride, records = array("q"), 1, 0
    for start in record_starts(path):
        if records % stride == 0:
            if len(starts) == MAX_STARTS:
                starts, stride = starts[::2], 2 * stride
            starts.append(start)
        records += 1
    return FileIndex(size=path.stat().st_size, records=records, stride=stride, starts=starts)


def record_starts(path: Path, last: int | None = None, *, first: int = 0) -> Iterator[int]:
    """Yield the byte at which each record of a TFRecord file starts.

    A record consists of its length (uint64, little endian), a CRC of the length (uint32), the data, and a CRC of the
    data (uint32). Source: TensorFlow, lib/io/record_writer.h.

    Args:
        last: Stop at this byte, without reading the record that starts there.
        first: The byte at which a record starts, from which to walk.

    Raises:
        ShardError: The file ends within a record, or is not a TFRecord file.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size, position, records = os.fstat(descriptor).st_size, first, 0
        while position < size:
            if last is not None and position >= last:
                yield position
                return
            header = os.pread(descriptor, 12, position)
            end = position + MIN_RECORD_BYTES + struct.unpack_from("<Q", header)[0] if len(header) == 12 else size + 1
            if end > size:
                raise ShardError(_invalid(path, descriptor, records, end, size))
            yield position
            records, position = records + 1, end
    finally:
        os.close(descriptor)


def _invalid(path: Path, descriptor: int, record: int, end: int, size: int) -> str:
    if os.pread(descriptor, 3, 0) == _GZIP:
        return f"{path.name} is compressed with gzip. Rewrite it without compression, and upload it."
    if record == 0:
        return (
            f"{path.name} is truncated or not a TFRecord file: record 0 is longer than its {size:,} bytes. The image's "
            "trainer reads TFRecords and folders of images; for other data, add source and entry_point to the line."
        )
    return (
        f"{path.name} is truncated or not a TFRecord file: record {record} ends at byte {end:,}, but the file has "
        f"{size:,} bytes. Rewrite it without compression, and upload it."
    )
