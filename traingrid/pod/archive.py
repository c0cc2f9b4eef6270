"""Archive: packs a folder as .tar.gz while it is uploaded, so that neither disk nor memory holds a second copy.

S3 shows the object only after its last part, so an interrupted upload leaves none
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/mpuoverview.html).
"""

import io
import math
import os
import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from boto3.s3.transfer import TransferConfig

from traingrid.aws.s3_uri import S3Uri
from traingrid.pod.gzip_stream import compressed

_READ_BYTES = 1024 * 1024
_PART_BYTES = 8 * 2**20
_PARTS_BYTES = 128 * 2**20
_PARTS_AT_ONCE = 8
_MAX_PARTS = 9000
"""Below S3's limit of 10,000 parts (https://docs.aws.amazon.com/AmazonS3/latest/userguide/qfacts.html), because the
archive has headers, too."""


def upload_folder(s3: Any, folder: Path, target: S3Uri, key_id: str = "") -> bool:
    """Upload the archive of a folder, and return True; return False, without an upload, if it has no files.

    Args:
        key_id: The KMS key of the object; the bucket's default encryption if empty.

    Raises:
        ClientError: S3 refused a call.
        OSError: A file cannot be read.
    """
    files, size = _measured(folder)
    if not files:
        return False
    part = max(_PART_BYTES, math.ceil(size / _MAX_PARTS))
    at_once = max(2, min(_PARTS_AT_ONCE, _PARTS_BYTES // part))
    config = TransferConfig(multipart_threshold=part, multipart_chunksize=part, max_concurrency=at_once)
    config.max_in_memory_upload_chunks = at_once
    encryption = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key_id} if key_id else {}
    stream = _Stream(compressed(tar_pieces(folder)))
    s3.upload_fileobj(stream, target.bucket, target.key, ExtraArgs=encryption, Config=config)
    return True


def tar_pieces(folder: Path) -> Iterator[bytes]:
    """Yield the tar archive of a folder's content, sorted by path. Sockets, pipes and devices are left out.

    Raises:
        OSError: A file cannot be read, or became shorter.
    """
    length = 0
    with tarfile.open(fileobj=io.BytesIO(), mode="w", format=tarfile.PAX_FORMAT) as archive:
        for path in _paths_below(folder):
            member = archive.gettarinfo(path, arcname=path.relative_to(folder).as_posix())
            if member is None or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
                continue
            header = member.tobuf(tarfile.PAX_FORMAT)
            length += len(header)
            yield header
            if member.isreg():
                for piece in _content(path, member.size):
                    length += len(piece)
                    yield piece
    end = 2 * tarfile.BLOCKSIZE
    yield bytes(end + -(length + end) % tarfile.RECORDSIZE)


class _Stream(io.RawIOBase):
    """Reads pieces as a file: a read returns all bytes that it requests, or the last ones.

    It is not seekable, so the transfer manager keeps the parts in memory while they are uploaded.
    """

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces, self._remainder = pieces, b""

    def readable(self) -> bool:
        return True

    def read(self, size: int = -1) -> bytes:
        """Return the next bytes."""
        pieces, length = [self._remainder], len(self._remainder)
        for piece in self._pieces:
            pieces.append(piece)
            length += len(piece)
            if 0 <= size <= length:
                break
        joined = b"".join(pieces)
        if size < 0:
            size = length
        self._remainder = joined[size:]
        return joined[:size]


def _content(path: Path, size: int) -> Iterator[bytes]:
    """Yield the content of a file, which has the size of its header, and the padding after it."""
    remaining_bytes = size
    with path.open("rb") as file:
        while remaining_bytes:
            piece = file.read(min(remaining_bytes, _READ_BYTES))
            if not piece:
                raise OSError(f"{path} became shorter while it was read")
            remaining_bytes -= len(piece)
            yield piece
    if padding := -size % tarfile.BLOCKSIZE:
        yield bytes(padding)


def _paths_below(folder: Path) -> Iterator[Path]:
    """Yield all paths below a folder, each folder before its content."""
    with os.scandir(folder) as entries:
        children = sorted((entry.name, entry.is_dir(follow_symlinks=False)) for entry in entries)
    for name, is_folder in children:
        yield folder / name
        if is_folder:
            yield from _paths_below(folder / name)


def _measured(folder: Path) -> tuple[int, int]:
    """Return the number of files and links below a folder, and their size in bytes with the headers."""
    files, size = 0, 0
    if folder.is_dir():
        for path in _paths_below(folder):
            stat = path.lstat()
            size += stat.st_size + 2 * tarfile.RECORDSIZE
            files += not path.is_dir() or path.is_symlink()
    return files, size
