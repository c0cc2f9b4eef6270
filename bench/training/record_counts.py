"""Cost of counting records by their headers: requests, bytes, and time per record.

    .venv-training/bin/python -m bench.training.record_counts [FOLDER]

The files are written to a new folder in FOLDER (build/ by default), which must be on a disk, and dropped from the page
cache. Bytes in the cache after the count are those that the kernel has read.
"""

import ctypes
import mmap
import os
import struct
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from training_container.trainer.data.record_index import record_index

SIZES = {"1 KB": (1_000, 200_000), "110 KB": (110_000, 2_000)}
"""Bytes per record, and records in all files. 110 KB is the mean of ImageNet's records."""
FILES = 8
_PAGE = mmap.PAGESIZE


def main() -> None:
    """Print a row for each size of records."""
    parent = Path(sys.argv[1] if len(sys.argv) > 1 else "build")
    print("records   requested of a record   read from the disk   of the data   records/s")
    for name, (size, records) in SIZES.items():
        with tempfile.TemporaryDirectory(prefix="traingrid-counts-", dir=parent) as folder:
            print(row(name, list(written(Path(folder), size, records))))


def row(name: str, paths: list[Path]) -> str:
    """Count the records of files, and return the cost as a row of the table."""
    before, started = _requested(), time.perf_counter()
    index = record_index("train", {path.name: path for path in paths})
    seconds, requested = time.perf_counter() - started, _requested() - before
    records, total = sum(entry.records for entry in index.values()), sum(path.stat().st_size for path in paths)
    cached = sum(map(bytes_in_cache, paths))
    return (
        f"{name:9} {requested / records:12.1f} bytes     {cached / records:12,.0f} bytes   {cached / total:11.1%} "
        f"{records / seconds:11,.0f}"
    )


def written(folder: Path, size: int, records: int) -> Iterator[Path]:
    """Write files of records without checksums, and drop them from the page cache. Yield their paths."""
    for number in range(FILES):
        path = folder / f"part-{number}"
        with path.open("wb") as file:
            for _ in range(records // FILES):
                file.write(struct.pack("<QI", size, 0) + bytes(size + 4))
            file.flush()
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
        yield path


def bytes_in_cache(path: Path) -> int:
    """Return how many bytes of a file are in the page cache, from mincore(2)."""
    size = path.stat().st_size
    pages = (ctypes.c_ubyte * -(-size // _PAGE))()
    with path.open("r+b") as file, mmap.mmap(file.fileno(), size, access=mmap.ACCESS_COPY) as mapped:
        address = ctypes.c_char.from_buffer(mapped)
        failed = ctypes.CDLL(None, use_errno=True).mincore(
            ctypes.c_void_p(ctypes.addressof(address)), ctypes.c_size_t(size), pages
        )
        del address
    if failed:
        raise OSError(ctypes.get_errno(), "mincore failed")
    return sum(page & 1 for page in pages) * _PAGE


def _requested() -> int:
    """Return the bytes that this process has requested with read(2) and pread(2)."""
    lines = Path("/proc/self/io").read_text(encoding="utf-8").splitlines()
    return int(next(line for line in lines if line.startswith("rchar")).split()[1])


if __name__ == "__main__":
    main()
