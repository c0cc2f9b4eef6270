"""Unpacking: extracts .tar and .tar.gz files of other programs, and trusts nothing in them.

The filters of `tarfile` (PEP 706) are not enough: they resolve a link with a path that may be longer than the system's
limit, so that a file is written through it (https://github.com/python/cpython/issues/135034), and Python before 3.11.4
has none. Here no member is ever written through a link, because there are none: a folder with unpacked files contains
only files and folders. `tarfile` reads the headers.
"""

from __future__ import annotations

import gzip
import os
import shutil
import tarfile
import tempfile
import zlib
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator

_CHUNK = 2**20
_MAX_HEADER_BYTES = 2**16
"""The most bytes of the headers of one member: they are read into memory, and may specify any size."""
_MAX_PATH_LENGTH, _MAX_NAME_LENGTH, _MAX_DEPTH = 1024, 255, 100
"""The longest key in S3, the longest name of Linux's file systems, and a depth that Python can delete again."""
_TOO_MANY_DIGITS = b"0" * 256
_AS_ZEROS = bytes.maketrans(b"123456789", b"000000000")
_MAX_LINKS, _MAX_CHAIN_LENGTH, _SHOWN = 100_000, 16, 10
_DISK_RESERVE = 2**28
# `tarfile` raises these for malformed headers, besides its own.
_MALFORMED = (tarfile.TarError, EOFError, zlib.error, gzip.BadGzipFile, ValueError, ArithmeticError, LookupError)


class ArchiveError(Exception):
    """An archive cannot be unpacked. The text names the member and the reason, without a period."""


class TooLargeError(ArchiveError):
    """An archive has more than its limits."""


class FolderConflictError(ArchiveError):
    """The folder has files that the archive's files cannot replace."""


@dataclass(frozen=True, kw_only=True)
class ArchiveLimits:
    """The most that an archive may contain.

    Attributes:
        size: The bytes of all its files and headers, uncompressed.
        members: The number of its files, folders and links, and of the folders on the way to them.
        hint: A way to unpack more, for errors.
    """

    size: int
    members: int
    hint: str

    @classmethod
    def of_archive(cls, size: int, hint: str) -> ArchiveLimits:
        """Return limits that no model reaches, for an archive of some bytes.

        Weights hardly compress, while zeros shrink to a thousandth (https://zlib.net/zlib_tech.html).
        """
        return cls(size=max(4 * 2**30, 100 * size), members=2_000_000, hint=hint)

    @classmethod
    def of_disk(cls, folder: Path, hint: str) -> ArchiveLimits:
        """Return the limits of the disk of a folder, which leave room for other files.

        Args:
            folder: A folder that exists.
            hint: A way to unpack more.
        """
        disk = os.statvfs(folder)
        members = disk.f_favail * 9 // 10 if disk.f_files else 2**63  # some file systems do not count inodes
        return cls(size=max(0, disk.f_bavail * disk.f_frsize - _DISK_RESERVE), members=members, hint=hint)


def unpack(archive: Path, folder: Path, limits: ArchiveLimits) -> list[str]:
    """Unpack an archive beside a folder, and move its files into the folder once all of them are complete.

    A link to a file of the archive becomes another name of this file. Other links are left out.

    Args:
        archive: The .tar or .tar.gz.
        folder: The folder, which may exist and have other files.
        limits: The most that the archive may contain.

    Returns:
        The names of the links that were left out.

    Raises:
        ArchiveError: The archive is damaged or too large, or has a member that is not a file, folder or link, or whose
            path is not below the folder. The folder is unchanged.
        OSError: The archive cannot be read, or the disk is full.
    """
    folder.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=folder.parent, prefix=f".{folder.name}-") as scratch:
        unpacking = _Unpacking(Path(scratch) / "files", limits)
        unpacking.root.mkdir()
        with archive.open("rb") as file:
            compressed = file.read(2) == b"\x1f\x8b"
            file.seek(0)
            try:
                unpacking.extract(gzip.GzipFile(fileobj=file) if compressed else file)
            except RecursionError as error:
                raise ArchiveError("its headers are nested too deeply") from error
            except _MALFORMED as error:
                raise ArchiveError(str(error).rstrip(".")) from error
        _move(unpacking.root, folder)
    return unpacking.left_out


class _Forward:
    """Reads an archive forward only, within its limits: a header can neither point back nor fill the memory."""

    def __init__(self, stream: Any, limits: ArchiveLimits) -> None:
        self._stream, self._limits, self._position, self._header = stream, limits, 0, 0
        self._block = b""

    def start_header(self) -> None:
        """Let the next reads be those of the headers of one member."""
        self._header = _MAX_HEADER_BYTES

    def end_header(self) -> None:
        self._header = 0

    def check_end(self) -> None:
        """Read the rest, after which gzip's checksum is.

        Raises:
            ArchiveError: The last block was none of zeros, which end an archive, or other bytes follow. `tarfile` takes
                a missing or damaged header for the end.
        """
        if len(self._block) < tarfile.BLOCKSIZE or any(self._block):
            intact = self._position - len(self._block)
            raise ArchiveError(f"it is truncated or damaged after its first {intact:,} bytes")
        while content := self.read(_CHUNK):
            if content.count(0) < len(content):
                raise ArchiveError("the file has more after its end, such as a second archive")

    def read(self, size: int) -> bytes:
        """Return the next bytes: all that are requested, or the last ones."""
        if size < 0 or (self._header and size > self._header):
            raise ArchiveError(f"a member has headers of more than {_MAX_HEADER_BYTES:,} bytes")
        content: bytes = self._stream.read(size)
        self._block = content
        self._position += len(content)
        if self._position > self._limits.size:
            raise _too_large(self._limits)
        if self._header:
            self._header = max(1, self._header - size)
            # Python before 3.11.10 needs quadratic time for digits (https://github.com/python/cpython/issues/121285).
            if _TOO_MANY_DIGITS in content.translate(_AS_ZEROS):
                raise ArchiveError(f"a member has a header with {len(_TOO_MANY_DIGITS)} digits in a row")
        return content

    def tell(self) -> int:
        return self._position

    def seek(self, position: int) -> None:
        """Read up to a position after this one."""
        if position < self._position:
            raise ArchiveError("a header points to a place before it")
        header, self._header = self._header, 0
        while self._position < position and self.read(min(_CHUNK, position - self._position)):
            continue
        self._header = header


@dataclass
class _Unpacking:
    """The extraction of one archive.

    Attributes:
        root: A new folder.
        limits: The most that the archive may contain.
        size: The bytes of the files so far.
        members: The number of files, folders and links so far.
        links: The targets of links, by their paths.
        left_out: The names of links that were left out.
    """

    root: Path
    limits: ArchiveLimits
    size: int = 0
    members: int = 0
    links: dict[PurePosixPath, PurePosixPath | None] = field(default_factory=dict)
    left_out: list[str] = field(default_factory=list)

    def extract(self, stream: Any) -> None:
        """Extract all members, then make the links."""
        forward = _Forward(stream, self.limits)
        for archive, member in _members(forward):
            self._count_members(1)
            self._add(archive, member)
        forward.check_end()
        self._make_links()

    def _add(self, archive: tarfile.TarFile, member: tarfile.TarInfo) -> None:
        """Extract a file or a folder; remember a link, which is made after all members."""
        path = _checked_path(member.name)
        if path == PurePosixPath() and member.isdir():
            return
        if path == PurePosixPath() or not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
            raise ArchiveError(f"{member.name!r} is not a file, a folder or a link")
        self.links.pop(path, None)  # this member replaces an earlier link
        if member.issym() or member.islnk():
            target = _target(path, member)
            if target != path:  # GNU tar stores a file that is named twice as a link to itself
                self.links[path] = target
            if len(self.links) > _MAX_LINKS:
                raise ArchiveError(f"it has more than {_MAX_LINKS:,} links")
            return
        try:
            if member.isdir():
                self._make_folders(self.root / path, already_counted=1)
            else:
                self._make_folders((self.root / path).parent)
                self._write(archive, member, self.root / path)
        except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
            raise ArchiveError(f"{member.name!r} is a file and a folder") from error

    def _make_folders(self, folder: Path, already_counted: int = 0) -> None:
        """Make a folder and its missing parents, and count those that are new.

        `already_counted` of them are members, which have been counted.
        """
        new = sum(1 for _ in takewhile(lambda above: not above.exists(), (folder, *folder.parents)))
        self._count_members(max(0, new - already_counted))
        folder.mkdir(parents=True, exist_ok=True)

    def _write(self, archive: tarfile.TarFile, member: tarfile.TarInfo, path: Path) -> None:
        """Write a file. A later member with the same name replaces an earlier one."""
        path.unlink(missing_ok=True)
        content = archive.extractfile(member)
        new = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o755 if member.mode & 0o100 else 0o644)
        with os.fdopen(new, "wb") as file:
            while content and (piece := content.read(_CHUNK)):
                self._count(len(piece))
                file.write(piece)

    def _count_members(self, number: int) -> None:
        self.members += number
        if self.members > self.limits.members:
            raise TooLargeError(f"it has more than {self.limits.members:,} files. {self.limits.hint}")

    def _count(self, size: int) -> None:
        self.size += size
        if self.size > self.limits.size:  # a sparse file has more bytes than the archive
            raise _too_large(self.limits)

    def _make_links(self) -> None:
        for path in self.links:
            target = self._end_of(path)
            if target is None or not (self.root / target).is_file():
                self.left_out.append(str(path))
                continue
            try:
                self._make_link(self.root / path, self.root / target)
            except (FileExistsError, NotADirectoryError, IsADirectoryError) as error:
                raise ArchiveError(f"{str(path)!r} is a link and a folder") from error

    def _end_of(self, path: PurePosixPath) -> PurePosixPath | None:
        """Return the path to which a chain of links leads, or None if it leads nowhere."""
        end: PurePosixPath | None = path
        for _ in range(_MAX_CHAIN_LENGTH):
            if end is None or end not in self.links:
                return end
            end = self.links[end]
        return None

    def _make_link(self, path: Path, target: Path) -> None:
        self._make_folders(path.parent)
        path.unlink(missing_ok=True)
        try:
            path.hardlink_to(target)
        except OSError:  # a file system without hard links, or too many of one file
            self._count(target.stat().st_size)
            shutil.copyfile(target, path)


def shown(links: list[str]) -> str:
    """Return a sentence about links that were left out; empty if there are none."""
    if not links:
        return ""
    more = f" and {len(links) - _SHOWN:,} more" if len(links) > _SHOWN else ""
    return f"Left out {', '.join(map(repr, links[:_SHOWN]))}{more}: links to places other than files of the archive."


def _members(forward: _Forward) -> Iterator[tuple[tarfile.TarFile, tarfile.TarInfo]]:
    """Yield the members of an archive, and keep none of them in memory, of which there may be millions."""
    forward.start_header()
    archive = tarfile.TarFile(fileobj=forward, mode="r")  # type: ignore[arg-type]  # it reads and seeks, no more
    while (member := archive.next()) is not None:
        forward.end_header()
        yield archive, member
        archive.members.clear()  # type: ignore[attr-defined]  # typeshed does not have it
        forward.start_header()
    forward.end_header()


def _checked_path(name: str) -> PurePosixPath:
    """Return a member's path.

    Raises:
        ArchiveError: It is not below the archive's folder, or too long.
    """
    path = PurePosixPath(name)
    if path.is_absolute() or ".." in path.parts:
        raise ArchiveError(f"the path {name[:_MAX_PATH_LENGTH]!r} leads out of the folder")
    if "\0" in name:
        raise ArchiveError(f"the path {name[:_MAX_PATH_LENGTH]!r} has a NUL character")
    longest = max((len(os.fsencode(part)) for part in path.parts), default=0)
    if len(os.fsencode(name)) > _MAX_PATH_LENGTH or longest > _MAX_NAME_LENGTH or len(path.parts) > _MAX_DEPTH:
        raise ArchiveError(
            f"the path {name[:60]!r}... is too long: the limits are {_MAX_PATH_LENGTH:,} bytes, {_MAX_NAME_LENGTH} for "
            f"each part, and {_MAX_DEPTH} folders"
        )
    return path


def _target(path: PurePosixPath, member: tarfile.TarInfo) -> PurePosixPath | None:
    """Return the path in the archive to which a link leads, or None if it leads out of it.

    The target of a symbolic link is relative to the link's folder, that of a hard link to the archive. No folder on the
    way is a link, so `..` is the folder above.
    """
    if member.linkname.startswith("/") or len(os.fsencode(member.linkname)) > _MAX_PATH_LENGTH:
        return None
    parts: list[str] = []
    for part in ((path.parent / member.linkname) if member.issym() else PurePosixPath(member.linkname)).parts:
        if part != "..":
            parts.append(part)
        elif parts:
            parts.pop()
        else:
            return None
    with suppress(ArchiveError):
        return _checked_path("/".join(parts))
    return None


def _too_large(limits: ArchiveLimits) -> TooLargeError:
    return TooLargeError(f"its files have more than {limits.size:,} bytes. {limits.hint}")


def _move(files: Path, folder: Path) -> None:
    """Move unpacked files into a folder. Nothing is moved if one of them would be written through a link there.

    Raises:
        FolderConflictError: The folder has a file or a link in place of a folder, or a folder in place of a file.
    """
    if not folder.exists():
        files.rename(folder)
        return
    for above, folders, names in os.walk(files):
        target = folder / Path(above).relative_to(files)
        for name in folders:
            if (target / name).is_symlink() or ((target / name).exists() and not (target / name).is_dir()):
                raise FolderConflictError(f"{target / name} exists and is no folder; move it, or use another folder")
        for name in names:
            if (target / name).is_dir() and not (target / name).is_symlink():
                raise FolderConflictError(f"{target / name} exists and is a folder; move it, or use another folder")
    for above, _, names in os.walk(files):
        target = folder / Path(above).relative_to(files)
        target.mkdir(exist_ok=True)
        for name in names:
            if (target / name).is_symlink():
                (target / name).unlink()
            shutil.move(Path(above, name), target / name)
