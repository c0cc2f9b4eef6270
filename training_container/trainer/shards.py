"""Which TFRecord files and records belong to which rank. Imports no TensorFlow."""

import heapq
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Whole files are fair while no rank has over this share more or fewer bytes than the mean of the ranks: an epoch has as
# many batches on every rank as the emptiest one has, and what the others have beyond that is left out.
FAIR_EXCESS = 1 / 8

_GZIP = b"\x1f\x8b\x08"  # RFC 1952, 2.3.1


class ShardError(ValueError):
    """A channel cannot be shared out among ranks; the text names the channel or file and the reason."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One rank's share of a channel's files.

    Attributes:
        files: the files this rank reads, in the order of their keys; may be none.
        every: the rank keeps one record of so many ...
        offset: ... starting with this one; 1 and 0 keep them all.
    """

    files: tuple[Path, ...]
    every: int = 1
    offset: int = 0

    @property
    def by(self) -> str:
        """What is dealt to ranks: "file" or "record"."""
        return "file" if self.every == 1 else "record"

    def count(self) -> int:
        """Return how many records the share has, by walking over the headers of its files.

        Raises:
            ShardError: a file is cut off, or is no TFRecord file.
        """
        return len(range(self.offset, sum(record_count(path) for path in self.files), self.every))


def files_of(folder: Path, channel: str) -> tuple[Path, ...]:
    """Return a channel's files in the order of their S3 keys; hidden and empty ones (folder markers) are left out.

    Raises:
        ShardError: there are none.
    """
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(("_", ".")))
    # S3 lists keys by their UTF-8 bytes; comparing Paths would compare part by part, and "a-b/c" come after "a/c".
    files = sorted((path.relative_to(folder).as_posix().encode(), path) for path in paths if path.stat().st_size > 0)
    if not files:
        raise ShardError(
            f"Channel {channel} has no files, or empty ones only, in {folder}. Check that its S3 prefix holds the data."
        )
    return tuple(path for _, path in files)


def shard(files: Sequence[Path], rank: int, ranks: int, by: str = "auto") -> Shard:
    """Return the share of `files` that this rank reads: whole files where that is fair, else every n-th record.

    All shares together are all records, each once. By file, the ranks' bytes are balanced (see `balanced`). By record,
    record i of the channel goes to rank i mod ranks, and every rank reads all bytes.

    Args:
        files: in the order of their keys, the same on all ranks.
        rank: this rank, from 0.
        ranks: how many there are.
        by: "file", "record", or "auto": by file where no rank gets over 1/8 more or fewer bytes than the mean.
    """
    if by != "record":
        sizes = [path.stat().st_size for path in files]
        shares = balanced(sizes, ranks)
        if by == "file" or _are_fair([sum(sizes[index] for index in share) for share in shares]):
            return Shard(files=tuple(files[index] for index in shares[rank]))
    return Shard(files=tuple(files), every=ranks, offset=rank)


def _are_fair(sizes: Sequence[int]) -> bool:
    """Return whether the bytes of the ranks are about the same."""
    mean = sum(sizes) / len(sizes)
    return (1 - FAIR_EXCESS) * mean <= min(sizes) and max(sizes) <= (1 + FAIR_EXCESS) * mean


def balanced(sizes: Sequence[int], ranks: int) -> list[list[int]]:
    """Return the indices of the files that each rank gets, in order.

    The largest file first (of equals the first), each goes to the rank with the fewest bytes so far (of equals the
    first). The control plane's manifest files for Pipe mode follow the same rule, so that both read the same.
    """
    shares: list[list[int]] = [[] for _ in range(ranks)]
    fewest = [(0, rank) for rank in range(ranks)]
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)):
        held, rank = heapq.heappop(fewest)
        shares[rank].append(index)
        heapq.heappush(fewest, (held + sizes[index], rank))
    return [sorted(share) for share in shares]


def record_count(path: Path) -> int:
    """Return the number of records in a TFRecord file; it hops from header to header and reads no data.

    Raises:
        ShardError: the file ends within a record, or is no TFRecord file.
    """
    return sum(1 for _ in record_starts(path))


def record_starts(path: Path, last: int | None = None) -> Iterator[int]:
    """Yield the byte at which each record of a TFRecord file starts.

    A record is its length (uint64, little endian), a CRC of that (uint32), the data, and a CRC of the data (uint32).
    Source: TensorFlow, lib/io/record_writer.h.

    Args:
        path: of the file.
        last: look no further than this byte, and not at the record that starts there.

    Raises:
        ShardError: the file ends within a record, or is no TFRecord file.
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
                        f"{path.name} is compressed with gzip. Write it again, uncompressed, and upload it."
                    )
                raise ShardError(
                    f"{path.name} is cut off or is no TFRecord file: record {records} ends at byte {end:,}, "
                    f"but the file has {size:,}. Write it again, uncompressed, and upload it."
                )
            yield position
            records, position = records + 1, end
    finally:
        os.close(descriptor)
