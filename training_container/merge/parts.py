"""Parts: the models of a merge, unpacked from the archives of the channel, and joined into one folder.

Parts may have millions of files. So only folders are listed in memory: the folder with the joined files is the index by
which conflicts are found. This module does not import TensorFlow.
"""

import filecmp
import os
import re
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from training_container import unpacking
from training_container.merge.options import Layout

# The names that `traingrid merge` gives the archives.
_ARCHIVE = re.compile(r"part-(?P<place>\d+)-(?P<submission>[0-9a-f]{8})-(?P<index>\d+)\.tar\.gz")


class MergeError(ValueError):
    """The models cannot be merged. The text names the model and the reason."""


@dataclass(frozen=True, kw_only=True)
class MergePart:
    """A model of the merge."""

    submission: str
    index: int
    folder: Path

    def __str__(self) -> str:
        return f"job {self.index} of {self.submission}"


def unpack(channel: Path, scratch: Path, count: int) -> list[MergePart]:
    """Unpack the archives of a channel, and return the models in the order of their places.

    Args:
        count: The expected number of models.

    Raises:
        MergeError: A model is missing, or an archive cannot be unpacked.
    """
    archives = [match for path in sorted(channel.iterdir()) if (match := _ARCHIVE.fullmatch(path.name))]
    if len(archives) != count:
        raise MergeError(f"The channel has {len(archives)} models instead of {count}. Run `traingrid merge` again.")
    parts = []
    for match in sorted(archives, key=lambda match: int(match["place"])):
        folder = scratch / match[0].removesuffix(".tar.gz")
        part = MergePart(submission=match["submission"], index=int(match["index"]), folder=folder)
        parts.append(_unpacked(channel / match[0], part))
    return parts


def _unpacked(archive: Path, part: MergePart) -> MergePart:
    print(f"Unpacking the model of {part}, {archive.stat().st_size:,} bytes ...")
    try:
        left_out = unpacking.unpack(
            archive, part.folder, unpacking.ArchiveLimits.of_disk(part.folder.parent, "Set a larger volume_gb")
        )
    except (unpacking.ArchiveError, OSError) as error:
        raise MergeError(f"The model of {part} cannot be unpacked: {error}.") from error
    if left_out:
        print(unpacking.shown(left_out))
    return part


def join(parts: Sequence[MergePart], target: Path, layout: Layout) -> int:
    """Move the files of all parts into one folder, and return their number. Nothing is moved if files conflict.

    A file that several parts have with the same content is moved once. Empty folders are left out.

    Args:
        parts: The parts, at least one.
        layout: "shared" keeps the paths; "folders" puts each part below `<submission>-<index>/`.

    Raises:
        MergeError: Two parts have different files with the same path.
    """
    # Beside the parts, so that a link to a file takes the place of a copy.
    with tempfile.TemporaryDirectory(prefix="joined-", dir=parts[0].folder.parent) as folder:
        joined, count = Path(folder), 0
        for number, part in enumerate(parts):
            print(f"Joining the files of {part} ({number + 1} of {len(parts)}) ...")
            top = joined / f"{part.submission}-{part.index}" if layout == "folders" else joined
            count += _Joining(part, top, () if layout == "folders" else parts[:number]).add_files()
        print(f"Moving {count:,} files into the model ...")
        for place in _files(joined):
            (target / place).parent.mkdir(parents=True, exist_ok=True)
            shutil.move(joined / place, target / place)
    return count


@dataclass(frozen=True)
class _Joining:
    """A part whose files are joined to those of the parts before it.

    Attributes:
        before: The parts whose files are there.
    """

    part: MergePart
    top: Path
    before: Sequence[MergePart]

    def add_files(self) -> int:
        """Link the files of the part, and return the number of those that no part before has."""
        folder, count = None, 0
        for place in _files(self.part.folder):
            if place.parent != folder:  # files of a folder follow each other
                folder = place.parent
                self._make_folder(place)
            count += self._has_linked(place)
        return count

    def _make_folder(self, place: Path) -> None:
        """Make the folder of a file."""
        for above in reversed(place.parents[:-1]):
            if _is_file(self.top / above):
                earlier = next(part for part in self.before if _is_file(part.folder / above))
                raise MergeError(f"The file {place} of {self.part} needs a folder, where {earlier} has a file. {_HINT}")
        (self.top / place).parent.mkdir(parents=True, exist_ok=True)

    def _has_linked(self, place: Path) -> bool:
        """Link a file, and return True; return False if a part before has the same file."""
        own_file = self.part.folder / place
        joined = self.top / place
        try:
            os.link(own_file, joined, follow_symlinks=False)
        except FileExistsError:
            if not _is_file(joined):
                earlier = next(part for part in self.before if next(_files(part.folder / place), None))
                raise MergeError(f"The file {place} of {self.part} is a folder of {earlier}. {_HINT}") from None
            if not _are_equal(own_file, joined):
                earlier = next(part for part in self.before if _is_file(part.folder / place))
                raise MergeError(f"The file {place} of {self.part} differs from that of {earlier}. {_HINT}") from None
            return False
        return True


_HINT = "Use the option --folders, with which each part keeps its files in its own folder."


def _files(folder: Path) -> Iterator[Path]:
    """Yield the paths of the files and links below a folder, in no order; those of a folder follow each other."""
    waiting = [folder] if folder.is_dir() and not folder.is_symlink() else []
    while waiting:
        with os.scandir(waiting.pop()) as entries:
            for entry in entries:
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(Path(entry.path))
                else:
                    yield Path(entry.path).relative_to(folder)


def _is_file(path: Path) -> bool:
    """Return True for a file, or a link to anything."""
    return path.is_symlink() or path.is_file()


def _are_equal(first: Path, second: Path) -> bool:
    if first.is_symlink() or second.is_symlink():
        return first.is_symlink() and second.is_symlink() and first.readlink() == second.readlink()
    return filecmp.cmp(first, second, shallow=False)
