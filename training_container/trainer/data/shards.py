"""Shards: assigns TFRecord files and records to ranks. Does not import TensorFlow."""

import heapq
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Sharding by whole files is fair if the bytes of every rank differ from the mean by at most this share. An epoch has as
# many batches as the smallest shard, and the other ranks' remaining records are left out.
FAIR_EXCESS = 1 / 8

_GZIP = b"\x1f\x8b\x08"  # RFC 1952, 2.3.1


class ShardError(ValueError):
    """A channel cannot be sharded. The text names the channel or file and the reason."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One rank's share of a channel's files.

    Attributes:
        files: The files that this rank reads, in the order of their keys; may be empty.
        every: The rank keeps one of `every` records ...
        offset: ... starting with this one. 1 and 0 keep all records.
    """

    files: tuple[Path, ...]
    every: int = 1
    offset: int = 0

    @property
    def by(self) -> str:
        """The sharding unit: "file" or "record"."""
        return "file" if self.every == 1 else "record"

    def count(self) -> int:
        """Return the number of records in the share, from the headers in its files.

        Raises:
            ShardError: A file is truncated, or is not a TFRecord file.
        """
        return len(range(self.offset, sum(record_count(path) for path in self.files), self.every))


def files_of(folder: Path, channel: str) -> tuple[Path, ...]:
    """Return a channel's files in the order of their S3 keys, without hidden and empty ones (folder markers).

    Raises:
        ShardError: There are none.
    """
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(("_", ".")))
    # S3 sorts keys by their UTF-8 bytes. Paths are compared part by part, which would sort "a-b/c" after "a/c".
    files = sorted((path.relative_to(folder).as_posix().encode(), path) for path in paths if path.stat().st_size > 0)
    if not files:
        raise ShardError(
            f"Channel {channel} has no files, or only empty ones, in {folder}. Check that its S3 prefix has the data."
        )
    return tuple(path for _, path in files)


def shard(files: Sequence[Path], rank: int, ranks: int, by: str = "auto") -> Shard:
    """Return the share of `files` that this rank reads: whole files if that is fair, otherwise every n-th record.

    The shares of all ranks contain each record exactly once. By file, the ranks' bytes are balanced (see `balanced`).
    By record, record i of the channel belongs to rank i mod ranks, and every rank reads all bytes.

    Args:
        files: The files in the order of their keys, the same on all ranks.
        rank: This rank, from 0.
        ranks: The number of ranks.
        by: "file", "record", or "auto": by file if every rank's bytes differ from the mean by at most 1/8.
    """
    if by != "record":
        sizes = [path.stat().st_size for path in files]
        shares = balanced(sizes, ranks)
        if by == "file" or _are_fair([sum(sizes[index] for index in share) for share in shares]):
            return Shard(files=tuple(files[index] for index in shares[rank]))
    return Shard(files=tuple(files), every=ranks, offset=rank)


def _are_fair(sizes: Sequence[int]) -> bool:
    """Return True if the sizes differ little from their mean."""
    mean = sum(sizes) / len(sizes)
    return (1 - FAIR_EXCESS) * mean <= min(sizes) and max(sizes) <= (1 + FAIR_EXCESS) * mean


def balanced(sizes: Sequence[int], ranks: int) -> list[list[int]]:
    """Return the indices of the files of each rank, in order.

    Files are assigned in order of decreasing size (then by index), each to the rank with the fewest bytes so far (then
    the lowest number). The control plane's manifest files for Pipe mode follow the same rule, so both modes read the
    same data.
    """
    shares: list[list[int]] = [[] for _ in range(ranks)]
    fewest = [(0, rank) for rank in range(ranks)]
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)):
        held, rank = heapq.heappop(fewest)
        shares[rank].append(index)
        heapq.heappush(fewest, (held + sizes[index], rank))
    return [sorted(share) for share in shares]


def record_count(path: Path) -> int:
    """Return the number of records in a TFRecord file, reading only their headers.

    Raises:
        ShardError: The file ends within a record, or is not a TFRecord file.
    """
    return sum(1 for _ in record_starts(path))


def record_starts(path: Path, last: int | None = None) -> Iterator[int]:
    """Yield the byte at which each record of a TFRecord file starts.

    A record consists of its length (uint64, little endian), a CRC of the length (uint32), the data, and a CRC of the
    data (uint32). Source: TensorFlow, lib/io/record_writer.h.

    Args:
        path: The file.
        last: Stop at this byte, without reading the record that starts there.

    Raises:
        ShardError: The file ends within a record, or is not a TFRecord file.
    """
    descriptor = os.open(path, os.O_RDONLY)
    try:
        size, position, records = os.fstat(descriptor).st_size, 0, 0
        while position < size:
            if last is not None and position >= last:
                yield position
                return
            header = os.pread(descriptor, 12, position)
            end = position + 16 + struct.unpack_from("<Q", header)[0] if len(header) == 12 else size + 1
            if end > size:
                if os.pread(descriptor, 3, 0) == _GZIP:
                    raise ShardError(
                        f"{path.name} is compressed with gzip. Rewrite it without compression, and upload it."
                    )
                raise ShardError(
                    f"{path.name} is truncated or not a TFRecord file: record {records} ends at byte {end:,}, "
                    f"but the file has {size:,} bytes. Rewrite it without compression, and upload it."
                )
            yield position
            records, position = records + 1, end
    finally:
        os.close(descriptor)
