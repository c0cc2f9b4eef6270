"""Shards: assigns TFRecord files and records to ranks, which count the records together. Does not import TensorFlow.

Only the counting together imports Horovod.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections import ChainMap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from training_container.trainer.data.record_index import (
    THREADS,
    WITH_THE_DATA,
    FileIndex,
    Index,
    Part,
    ShardError,
    indexed,
    record_index,
    record_starts,
    store,
    stored,
)

if TYPE_CHECKING:
    from training_container.trainer.data.channels import Place

_MARKER = b"dataset.json"
"""The object that registers the dataset of a folder, which may be a channel itself (DATASET_MARKER of traingrid)."""
_KIND = re.compile(r"(train|validation|valid|val|test)(?![A-Za-z])(?!.*[A-Za-z].*/)", re.IGNORECASE)
"""The beginning of the name of a file with training data, or with data for another purpose, or the name of a folder
with such files: `val`, or `val2017`, but not `test_tube`, which may be a class."""
Count = Callable[[Mapping[str, Path], int, int], Index]
"""Counts the records of files by name, which `ranks` ranks share, as this `rank` of them."""


@dataclass(frozen=True, kw_only=True)
class Segment:
    """Consecutive records of a file.

    Attributes:
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
    """Return a channel's files in the order of their S3 keys, without hidden and empty ones and `dataset.json`.

    Raises:
        ShardError: There are none.
    """
    paths = (path for path in folder.rglob("*") if path.is_file() and not _is_hidden(path.relative_to(folder)))
    # S3 sorts keys by their UTF-8 bytes. Paths are compared part by part, which would sort "a-b/c" after "a/c".
    files = sorted((path.relative_to(folder).as_posix().encode(), path) for path in paths if path.stat().st_size > 0)
    files = [(name, path) for name, path in files if name != _MARKER]
    if not files:
        raise ShardError(
            f"Channel {channel} has no files, or only empty ones, in {folder}. Check that its S3 prefix has the data."
        )
    return tuple(path for _, path in files)


def check_is_training(files: Iterable[Path], folder: Path) -> None:
    """Check that no file of training data is one for validation, by its name or that of its folder in the channel.

    Raises:
        ShardError: The channel has both. Training on the images for validation would only make their accuracy better.
    """
    by_kind: dict[str, Path] = {}
    for path in files:
        inside = path.relative_to(folder)
        is_in_folder = len(inside.parts) > 1
        if kind := _KIND.match(f"{inside.parts[0]}/" if is_in_folder else inside.parts[0]):
            by_kind.setdefault("train" if kind[1].lower() == "train" else "validation", inside)
    if len(by_kind) > 1:
        raise ShardError(
            f"Channel train has files of two kinds, such as {by_kind['train']} and {by_kind['validation']}. Write "
            "s3_uri with their folder in place of inputs, or inputs with a URI for train that ends with train-."
        )


def _is_hidden(path: Path) -> bool:
    """Return True for a file that is no data, by its path in the channel; as `is_hidden` in traingrid/names.py."""
    return any(part.startswith(".") or (part.startswith("_") and "=" not in part) for part in path.parts)


def shard(files: Sequence[Path], rank: int, ranks: int, by: str) -> Shard:
    """Return the share of `files` that this rank reads: whole files, or every n-th record.

    The shares of all ranks contain each record exactly once. By file, the ranks' bytes are balanced (see `balanced`).
    By record, record i of the channel belongs to rank i mod ranks, and every rank reads all bytes.

    Args:
        files: The files in the order of their keys, the same on all ranks.
        rank: This rank, from 0.
        by: "file" or "record".
    """
    if by == "record":
        return Shard(files=tuple(files), every=ranks, offset=rank)
    shares = balanced([path.stat().st_size for path in files], ranks)
    return Shard(files=tuple(files[index] for index in shares[rank]))


def range_of(total: int, rank: int, ranks: int) -> range:
    """Return the numbers of the records of a rank. The ranges of all ranks differ in length by at most one record."""
    return range(total * rank // ranks, total * (rank + 1) // ranks)


def segments_of_rank(files: Sequence[tuple[Path, FileIndex]], rank: int, ranks: int, shift: int = 0) -> list[Segment]:
    """Return the rank's range of a sequence of files, as consecutive records of some of them.

    Args:
        files: The files with their indices, in the order of the epoch, which is the same on all ranks.
        rank: This rank, from 0.
        shift: The record at which rank 0 begins. The first record follows the last one, so no share changes its size.
    """
    total = sum(index.records for _, index in files)
    own_records = range_of(total, rank, ranks)
    begin = (own_records.start + shift) % total if total else 0
    end = begin + len(own_records)
    return [*_segments_of_range(files, range(begin, min(end, total))), *_segments_of_range(files, range(end - total))]


def _segments_of_range(files: Sequence[tuple[Path, FileIndex]], own: range) -> Iterator[Segment]:
    begin = 0
    for path, index in files:
        first_record = max(own.start - begin, 0)
        end_record = min(own.stop - begin, index.records)
        if first_record < end_record:
            known_record, byte = index.before(first_record)
            count = None if end_record == index.records else end_record - first_record
            yield Segment(path=path, first=first_record, count=count, known=known_record, byte=byte)
        begin += index.records


def count_alone(files: Mapping[str, Path], rank: int, ranks: int) -> Index:  # noqa: ARG001  # a Count
    """Count the records of all files in this process."""
    return record_index("", files)


def count_together(name: str, folder: Path, checkpoints: Path, place: Place, *, among_local: bool) -> Count:
    """Return a function that counts a channel's records, on all ranks together if Horovod has started as many.

    Args:
        name: The channel's name.
        folder: The channel's folder, which may have an index beside the data.
        checkpoints: The folder of checkpoints, where rank 0 stores the index if it exists, for a job that is resumed.
        place: The position of this rank.
        among_local: If true, each host has other files.
    """
    import horovod.tensorflow as hvd  # noqa: PLC0415  # see above

    counts_together = hvd.is_initialized() and hvd.size() == place.size > 1
    cached = checkpoints / f"records-{name}.json"

    def exchange(part: Part) -> list[Part]:
        parts: list[Part] = hvd.allgather_object(part, name=f"record_counts_of_{name}")
        return parts

    def known_counts() -> Index:
        reads = not counts_together or (place.local_rank if among_local else place.rank) == 0
        stored_counts = stored(cached) | stored(folder / WITH_THE_DATA) if reads else {}
        if not counts_together:
            return stored_counts
        if among_local:  # the index with the data is an object, too, which only one host has
            return dict(ChainMap(*hvd.allgather_object(stored_counts, name=f"known_counts_of_{name}")))
        return dict(hvd.broadcast_object(stored_counts, root_rank=0, name=f"known_counts_of_{name}"))

    def count(files: Mapping[str, Path], rank: int, ranks: int) -> Index:
        stored_counts = known_counts()
        if not counts_together:
            return record_index(name, files, counted=stored_counts)
        index = record_index(
            name, files, rank=rank, ranks=ranks, counted=stored_counts, exchange=exchange, among_local=among_local
        )
        if place.rank == 0 and checkpoints.is_dir() and index != stored_counts:
            store(cached, index)
        return index

    return count


def byte_range(segment: Segment) -> tuple[int, int | None]:
    """Return the bytes at which a segment starts and ends, from the headers after the known one; None: at the end."""
    if segment.first == 0 and segment.count is None:
        return 0, None
    starts = record_starts(segment.path, first=segment.byte)
    first_byte = next(itertools.islice(starts, segment.first - segment.known, None), None)
    stop = next(itertools.islice(starts, segment.all_or_count - 1, None), None) if segment.count else None
    if first_byte is None:
        first_byte = segment.path.stat().st_size
    return first_byte, stop


def balanced(sizes: Sequence[int], ranks: int) -> list[list[int]]:
    """Return the indices of the files of each rank, in order.

    Files are assigned in order of decreasing size (then by index), each to the rank with the fewest bytes so far (then
    the lowest number). The control plane's manifest files for Pipe mode follow the same rule, so both modes read the
    same data.
    """
    shares: list[list[int]] = [[] for _ in range(ranks)]
    fewest = [(0, rank) for rank in range(ranks)]
    for index in sorted(range(len(sizes)), key=lambda index: (-sizes[index], index)):
        bytes_of_rank, rank = heapq.heappop(fewest)
        shares[rank].append(index)
        heapq.heappush(fewest, (bytes_of_rank + sizes[index], rank))
    return [sorted(share) for share in shares]
