"""Source folders: checks which local folder a manifest line may use, and creates its archive."""

import gzip
import io
import os
import tarfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple

from traingrid.api.secret_files import SECRET_FILES
from traingrid.errors import UsageError
from traingrid.manifest.secrets import secret_in

MAX_BYTES = 200 * 1024 * 1024
"""Maximum size of a folder's files: every host of every job downloads them. Data belongs in a channel."""
IGNORE_FILE = ".traingridignore"
"""The file at the folder's top that decides which files are packed, in the syntax of .gitignore."""
# Files that tools write and no script needs; with them, the archive's name would change after every run.
_CACHES = (
    *("__pycache__/", "*.pyc", ".git", ".hg/", ".svn/", ".ipynb_checkpoints/", ".mypy_cache/", ".pytest_cache/"),
    *(".ruff_cache/", ".DS_Store", "._*", IGNORE_FILE),
)
_ENVIRONMENTS = ("venv/", ".venv/", ".tox/", ".nox/", "node_modules/", ".conda/")
_PRIVATE = (*_ENVIRONMENTS, *" ".join(SECRET_FILES.values()).split())
_SCANNED_BYTES = 2**20
"""The size up to which a text is compared with all forms of secrets, which takes a second; others, with a table."""
_START = 4096
_CONTROLS = bytes({*range(32)} - set(b"\t\n\f\r\x1b"))


class PackedFolder(NamedTuple):
    """A folder's archive.

    Attributes:
        files: The number of files in the archive.
        archive: The bytes of the .tar.gz.
        left_out: The paths of environments, files for secrets and links that are not in it.
    """

    files: int
    archive: bytes
    left_out: tuple[str, ...]


def check_place(place: str, folder: Path, manifest: Path) -> None:
    """Check that a manifest may upload a folder.

    A manifest may come from another person, so it cannot use every folder on the disk. It can use only folders below
    its own folder or the current folder, and never the root folder or a home folder as a whole.

    Args:
        place: The manifest line and its source, for the error.
        folder: The folder, resolved.

    Raises:
        UsageError: The folder does not exist or may not be uploaded.
    """
    if not folder.is_dir():
        raise UsageError(
            f"{place}: the folder {folder} does not exist.",
            "Write a folder, relative to the manifest's folder, or s3://bucket/…/sourcedir.tar.gz.",
        )
    if folder in (Path(folder.anchor), Path.home().resolve()):
        raise UsageError(
            f"{place}: {folder} is the root folder or your home folder, which cannot be uploaded.",
            "Put the program into a separate folder.",
        )
    if not any(folder.is_relative_to(above) for above in (manifest.resolve().parent, Path.cwd())):
        raise UsageError(
            f"{place}: {folder} is outside of the manifest's folder and of the current folder.",
            f"If you want to upload it, run the command in {folder.parent}.",
        )


def archive(
    place: str, folder: Path, left_out: Sequence[str] = (), added: Mapping[str, bytes] | None = None
) -> PackedFolder:
    """Return the .tar.gz of a folder; equal files produce equal bytes.

    Args:
        place: The place of the folder's name, for errors.
        left_out: More patterns of files to leave out, in the syntax of .gitignore.
        added: The contents of additional files by their names at the archive's top.

    Raises:
        UsageError: The folder's files are larger than `MAX_BYTES`, one of them holds a secret, or an added file exists;
            nothing is packed.
    """
    choice = _FileChoice(place, folder, left_out)
    files = choice.files()
    added = added or {}
    for name in added:
        if folder / name in files:
            text = f"{place}: the folder has a file {name}, and another one is packed with this name."
            raise UsageError(text, "Rename the file, or leave it out.")
    packed = io.BytesIO()
    with (
        gzip.GzipFile(fileobj=packed, mode="wb", filename="", mtime=0) as compressed,
        tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as members,
    ):
        for path in files:
            entry = tarfile.TarInfo(path.relative_to(folder).as_posix())
            entry.size = path.stat().st_size
            entry.mode = 0o755 if path.stat().st_mode & 0o100 else 0o644
            with path.open("rb") as file:
                members.addfile(entry, file)
        for name, content in sorted(added.items()):
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(content), 0o644
            members.addfile(entry, io.BytesIO(content))
    return PackedFolder(len(files) + len(added), packed.getvalue(), tuple(dict.fromkeys(choice.left_out)))


class _FileChoice:
    """Decides which files of a folder are packed.

    Attributes:
        left_out: The paths of environments, files for secrets and links that are left out.
    """

    def __init__(self, place: str, folder: Path, patterns: Sequence[str]) -> None:
        from pathspec import GitIgnoreSpec  # noqa: PLC0415  # its import of RE2 takes 3 MiB

        self._place, self._folder, self.left_out = place, folder, list[str]()
        ignore_file = folder / IGNORE_FILE
        lines = ignore_file.read_text(encoding="utf-8-sig").splitlines() if ignore_file.is_file() else []
        try:
            self._patterns = GitIgnoreSpec.from_lines([*_CACHES, *_PRIVATE, *lines, *patterns])
        except ValueError as error:
            raise UsageError(f"{place}: {ignore_file} has a line that is not a pattern: {error}.", "Fix it.") from error

    def files(self) -> list[Path]:
        """Return the files in the order of their names, after checking them; follow links to files of the folder."""
        paths, size = [], 0
        for above, folders, names in os.walk(self._folder):
            folders[:] = [name for name in sorted(folders) if self._is_packed(Path(above, name), is_folder=True)]
            for path in (Path(above, name) for name in sorted(names)):
                if not path.is_file() or not self._is_packed(path):
                    continue
                paths.append(path)
                size += path.stat().st_size
                if size > MAX_BYTES:
                    raise UsageError(
                        f"{self._place}: {self._folder} has more than {MAX_BYTES // 2**20} MiB.",
                        f"Put data into a channel, or name files that are not needed in {IGNORE_FILE}.",
                    )
        return sorted(paths)

    def _is_packed(self, path: Path, *, is_folder: bool = False) -> bool:
        name = path.relative_to(self._folder).as_posix() + "/" * is_folder
        if path.is_symlink():
            return self._is_packed_link(path, name)
        result = self._patterns.check_file(name)
        position = -1 if result.index is None else result.index  # of the pattern that decides
        by_user = position >= len(_CACHES) + len(_PRIVATE)
        environment = is_folder and ((path / "pyvenv.cfg").is_file() or (path / "conda-meta").is_dir())
        if result.include or (environment and not by_user):
            self.left_out += [name] * (environment or len(_CACHES) <= position < len(_CACHES) + len(_PRIVATE))
            return False
        if not is_folder and not by_user:
            self._check_secrets(path, name)
        return True

    def _is_packed_link(self, link: Path, name: str) -> bool:
        """Return True if a link leads to a file of the folder that is packed; name other links.

        A pattern of the folder's own file cannot include a link out of it: the folder may come from another person.
        """
        target = link.resolve()
        top = self._folder.resolve()
        if target.is_relative_to(top) and target.is_file():
            path = self._folder / target.relative_to(top)
            # A folder on the way may be left out.
            inside = [
                folder for folder in path.parents if folder != self._folder and folder.is_relative_to(self._folder)
            ]
            if all(self._is_packed(folder, is_folder=True) for folder in inside) and self._is_packed(path):
                return not self._patterns.match_file(name)
        elif not self._patterns.match_file(name):
            self.left_out.append(f"{name.rstrip('/')} (a link)")
        return False

    def _check_secrets(self, path: Path, name: str) -> None:
        content = _text(path)
        if secret := secret_in(content.splitlines(), quickly=len(content) > _SCANNED_BYTES):
            raise UsageError(
                f"{self._place}: line {secret[0]} of {name} looks like a secret ({secret[1]}), and users of the data "
                "bucket could read it.",
                "Read it from AWS Secrets Manager in the training code. To leave the file out, or to pack it "
                f"nevertheless, write {name} or !{name} into {self._folder / IGNORE_FILE}.",
            )


def _text(path: Path) -> str:
    """Return the text of a file; empty if it is no text. A text in UTF-16 or UTF-32 lacks only its NUL characters."""
    with path.open("rb") as file:
        start = file.read(_START).removeprefix(b"\xff\xfe").removeprefix(b"\xfe\xff")
        if any(sign in start.replace(b"\0", b"") for sign in _CONTROLS):
            return ""
        return (start + file.read()).replace(b"\0", b"").decode(errors="replace")
