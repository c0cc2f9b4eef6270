"""Gzip stream: compresses a stream with several threads into one gzip member, with bounded memory.

A pod has a limited time to upload its model, and one thread compresses about as much as one connection uploads. zlib
releases Python's global lock. Blocks are compressed independently, and each ends at a byte boundary (Z_SYNC_FLUSH), so
their concatenation is one deflate stream, which every reader of gzip accepts (RFC 1951, RFC 1952).
"""

import os
import struct
import zlib
from collections.abc import Iterable, Iterator

from traingrid.threads import map_in_order

BLOCK_BYTES = 1024 * 1024
_LEVEL = 1
"""Trained weights hardly compress; a higher level takes longer and saves little."""
_MAX_THREADS = 8
_HEADER = b"\x1f\x8b\x08\x00\x00\x00\x00\x00\x04\xff"
"""RFC 1952, 2.3: deflate, no flags, no time, fastest algorithm, unknown file system."""


def compressed(pieces: Iterable[bytes], threads: int = 0) -> Iterator[bytes]:
    """Yield the gzip stream of the joined pieces.

    Args:
        pieces: The content, in pieces of any length.
        threads: The number of threads; by default the number of this process's processors, at most 8.
    """
    threads = threads or min(_MAX_THREADS, len(os.sched_getaffinity(0)))
    checksum, size = 0, 0

    def measured() -> Iterator[bytes]:
        nonlocal checksum, size
        for block in blocks(pieces, BLOCK_BYTES):
            checksum = zlib.crc32(block, checksum)
            size = size + len(block)
            yield block

    yield _HEADER
    yield from map_in_order(_deflated, measured(), threads)
    yield zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS).flush(zlib.Z_FINISH)
    yield struct.pack("<II", checksum, size & 0xFFFFFFFF)


def blocks(pieces: Iterable[bytes], length: int) -> Iterator[bytes]:
    """Yield the joined pieces in blocks of one length; only the last may be shorter."""
    buffer = bytearray()
    for piece in pieces:
        buffer += piece
        while len(buffer) >= length:
            yield bytes(memoryview(buffer)[:length])
            del buffer[:length]
    if buffer:
        yield bytes(buffer)


def _deflated(block: bytes) -> bytes:
    compressor = zlib.compressobj(_LEVEL, zlib.DEFLATED, -zlib.MAX_WBITS)
    return compressor.compress(block) + compressor.flush(zlib.Z_SYNC_FLUSH)
