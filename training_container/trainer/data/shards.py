"""Shards: assigns TFRecord files and records to ranks. Does not import TensorFlow."""

import heapq
import itertools
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from training_container.trainer.data.record_index import THREADS, FileIndex, ShardError, indexed, record_starts


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Consecutive records of a file.

    Attributes:
        path: The file.
        first: The number of the first record.
        count: The number of records; None for all until the end of the file.
        known: The number of a record at or before the first ...
        byte: ... and the byte at which it starts.
    """

    path: Path
    first: int = 0
    count: int | None = None
    known: int = 0
    byte: int = 0

    @property
    def all_or_count(self) -> int:
        """The number of records; -1 for all."""
        return -1 if self.count is None else self.count


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One rank's share of a channel's files: whole files, or every n-th record.

    Attributes:
        files: The files that this rank reads, in the order of their keys; may be empty.
        every: The rank keeps one of `every` records ...
        offset: ... starting with this one. 1 and 0 keep all records.
    """

    files: tuple[Path, ...]
    every: int = 1
    offset: int = 0

    def count(self) -> int:
        """Return the number of records in the share, from the headers in its files.

        Raises:
            ShardError: A file is truncated, or is not a TFRecord file.
        """
        with ThreadPoolExecutor(THREADS) as pool:
            records = sum(index.records for index in pool.map(indexed, self.files))
        return len(range(self.offset, records, self.every))


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


def shard(files: Sequence[Path], rank: int, ranks: int, by: str) -> Shard:
    """Return the share of `files` that this rank reads: whole files, or every n-th record.

    The shares of all ranks contain each record exactly once. By file, the ranks' bytes are balanced (see `balanced`).
    By record, record i of the channel belongs to rank i mod ranks, and every rank reads all bytes.

    Args:
        files: The files in the order of their keys, the same on all ranks.
        rank: This rank, from 0.
        ranks: The number of ranks.
        by: "file" or "record".
    """
    if by == "record":
        return Shard(files=tuple(files), every=ranks, offset=rank)
    shares = balanced([path.stat().st_size for path in files], ranks)
    return Shard(files=tuple(files[index] for index in shares[rank]))


def range_of(total: int, rank: int, ranks: int) -> range:
    """Return the numbers of the records of a rank. The ranges of all ranks differ in length by at most one record."""
    return range(total * rank // ranks, total * (rank + 1) // ranks)


def segments(files: Sequence[tuple[Path, FileIndex]], rank: int, ranks: int, shift: int = 0) -> list[Segment]:
    """Return the rank's range of a sequence of files, as consecutive records of some of them.

    Args:
        files: The files with their indices, in the order of the epoch, which is the same on all ranks.
        rank: This rank, from 0.
        ranks: The number of ranks.
        shift: The record at which rank 0 begins. The first record follows the last one, so no share changes its size.
    """
    total = sum(index.records for _, index in files)
    own = range_of(total, rank, ranks)
    begin = (own.start + shift) % total if total else 0
    end = begin + len(own)
    return [*_cut(files, range(begin, min(end, total))), *_cut(files, range(end - total))]


def _cut(files: Sequence[tuple[Path, FileIndex]], own: range) -> Iterator[Segment]:
    begin = 0
    for path, index in files:
        first, last = max(own.start - begin, 0), min(own.stop - begin, index.records)
        if first < last:
            known, byte = index.before(first)
            count = None if last == index.records else last - first
            yield Segment(path=path, first=first, count=count, known=known, byte=byte)
        begin += index.records


def byte_range(segment: Segment) -> tuple[int, int | None]:
    """Return the bytes at which a segment starts and ends, from the headers after the known one; None: at the end."""
    if segment.first == 0 and segment.count is None:
        return 0, None
    starts = record_starts(segment.path, first=segment.byte)
    first = next(itertools.islice(starts, segment.first - segment.known, None), None)
    stop = next(itertools.islice(starts, segment.all_or_count - 1, None), None) if segment.count else None
    return (segment.path.stat().st_size if first is None else first), stop


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
