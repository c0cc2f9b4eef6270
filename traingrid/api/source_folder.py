"""Source folders: checks which local folder a manifest line may use, and creates its archive."""

from __future__ import annotations

import gzip
import io
import os
import tarfile
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

from traingrid.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

MAX_BYTES = 200 * 1024 * 1024
"""Maximum size of a folder's files: every host of every job downloads them. Data belongs in a channel."""
# Files that tools write and no script needs; with them, the archive's name would change after every run.
_LEFT_OUT = {"__pycache__", ".git", ".hg", ".svn", ".venv", ".ipynb_checkpoints", ".mypy_cache", ".pytest_cache"}


def check_place(where: str, folder: Path, manifest: Path) -> None:
    """Check that a manifest may upload a folder.

    A manifest may come from another person, so it cannot use every folder on the disk. It can use only folders below
    its own folder or the current folder, and never the root folder or a home folder as a whole.

    Args:
        where: The manifest line and its source, for the error.
        folder: The folder, resolved.
        manifest: The manifest's path.

    Raises:
        UsageError: The folder does not exist or may not be uploaded.
    """
    if not folder.is_dir():
        raise UsageError(
            f"{where}: the folder {folder} does not exist.",
            "Write a folder, relative to the manifest's folder, or s3://bucket/…/sourcedir.tar.gz.",
        )
    if folder in (Path(folder.anchor), Path.home().resolve()):
        raise UsageError(
            f"{where}: {folder} is the root folder or your home folder, which cannot be uploaded.",
            "Put the program into a separate folder.",
        )
    if not any(folder.is_relative_to(above) for above in (manifest.resolve().parent, Path.cwd())):
        raise UsageError(
            f"{where}: {folder} is outside of the manifest's folder and of the current folder.",
            f"If you want to upload it, run the command in {folder.parent}.",
        )


def archive(
    where: str, folder: Path, left_out: Sequence[str] = (), added: Mapping[str, bytes] | None = None
) -> tuple[int, bytes]:
    """Return the number of files in a folder and its .tar.gz; equal files produce equal bytes.

    Args:
        where: The place of the folder's name, for errors.
        folder: The folder.
        left_out: Shell patterns of the names of other files and folders to leave out.
        added: The contents of additional files by their names at the archive's top.

    Raises:
        UsageError: The folder's files are larger than `MAX_BYTES`, or an added file exists; nothing is packed.
    """
    files, added = _files(where, folder, left_out), added or {}
    for name in added:
        if folder / name in files:
            text = f"{where}: the folder has a file {name}, and another one is packed with this name."
            raise UsageError(text, "Rename the file, or leave it out.")
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as members,
    ):
        for path in files:
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size, entry.mode = path.stat().st_size, 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as file:
                members.addfile(entry, file)
        for name, content in sorted(added.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            members.addfile(entry, io.BytesIO(content))
    return len(files) + len(added), packed.getvalue()


def _files(where: str, folder: Path, left_out: Sequence[str]) -> list[Path]:
    """Return a folder's files in the order of their names, after checking their size; follow links to files."""
    found, size = [], 0
    for above, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not _is_left_out(name, left_out)]
        for path in (Path(above, name) for name in names):
            if path.suffix == ".pyc" or _is_left_out(path.name, left_out) or not path.is_file():
                continue
            found.append(path)
            size += path.stat().st_size
            if size > MAX_BYTES:
                raise UsageError(
                    f"{where}: {folder} has more than {MAX_BYTES // 2**20} MiB.", "Put data into a channel."
                )
    return sorted(found)


def _is_left_out(name: str, left_out: Sequence[str]) -> bool:
    return name in _LEFT_OUT or any(fnmatch(name, pattern) for pattern in left_out)
