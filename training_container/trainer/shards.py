"""Which TFRecord files and records belong to which rank. Imports no TensorFlow."""

import struct
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path


class ShardError(ValueError):
    """A channel cannot be read as TFRecord files; the text names the file and the reason."""


@dataclass(frozen=True, kw_only=True)
class Shard:
    """One rank's part of a channel.

    Attributes:
        files: the files this rank reads, in order.
        every: the rank keeps one record of so many ...
        offset: ... starting with this one; 1 and 0 keep them all.
        records: how many records that makes.
    """

    files: tuple[Path, ...]
    every: int
    offset: int
    records: int


def tfrecord_files(folder: Path) -> tuple[Path, ...]:
    """Return a channel's files in one order for all ranks; hidden files and empty ones (folder markers) are left out.

    Raises:
        ShardError: there are none.
    """
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and not path.name.startswith(("_", ".")))
    files = tuple(path for path in paths if path.stat().st_size > 0)
    if not files:
        raise ShardError(f"The channel in {folder} has no files. Check that its S3 prefix holds TFRecord files.")
    return files


def shard(files: Sequence[Path], rank: int, ranks: int) -> Shard:
    """Return the part of `files` that this rank reads: whole files where that is fair, else every n-th record.

    Whole files are fair when every rank gets equally many or at least eight, so that no rank has over an eighth more
    files than another; then a rank reads its own bytes only. All parts together are all records, each once.
    """
    if len(files) % ranks == 0 or len(files) >= 8 * ranks:
        own = tuple(files[rank::ranks])
        return Shard(files=own, every=1, offset=0, records=sum(record_count(path) for path in own))
    records = sum(record_count(path) for path in files)
    return Shard(files=tuple(files), every=ranks, offset=rank, records=len(range(rank, records, ranks)))


def record_count(path: Path) -> int:
    """Return the number of records in a TFRecord file by hopping from header to header, reading no data.

    A record is its length (uint64, little endian), a CRC of that (uint32), the data, and a CRC of the data (uint32).
    Source: TensorFlow, lib/io/record_writer.h.

    Raises:
        ShardError: the file ends within a record, or is no TFRecord file.
    """
    size, position, records = path.stat().st_size, 0, 0
    with path.open("rb") as file:
        while position < size:
            file.seek(position)
            header = file.read(12)
            length = struct.unpack("<Q", header[:8])[0] if len(header) == 12 else size
            position += 12 + length + 4
            if position > size:
                raise ShardError(
                    f"{path.name} is cut off or is no TFRecord file: record {records} ends at byte {position:,}, "
                    f"but the file has {size:,}. Write it again, uncompressed, and upload it."
                )
            records += 1
    return records
