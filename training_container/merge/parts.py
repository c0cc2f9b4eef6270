"""Parts: the models of a merge, unpacked from the archives of the channel, and joined into one folder.

This module does not import TensorFlow.
"""

import filecmp
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from training_container.merge.options import Layout
from training_container.safe_tarfile import tarfile

# The names that `traingrid merge` gives the archives.
_ARCHIVE = re.compile(r"part-(?P<place>\d+)-(?P<submission>[0-9a-f]{8})-(?P<index>\d+)\.tar\.gz")


class MergeError(ValueError):
    """The models cannot be merged. The text names the model and the reason."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A model of the merge.

    Attributes:
        submission: The submission that trained it.
        index: The index of its job.
        folder: The folder with its files.
    """

    submission: str
    index: int
    folder: Path

    def __str__(self) -> str:
        return f"job {self.index} of {self.submission}"


def unpack(channel: Path, scratch: Path, count: int) -> list[Part]:
    """Unpack the archives of a channel, and return the models in the order of their places.

    Args:
        channel: The channel's folder.
        scratch: A folder for the files.
        count: The expected number of models.

    Raises:
        MergeError: A model is missing, or an archive cannot be unpacked.
    """
    found = [match for path in sorted(channel.iterdir()) if (match := _ARCHIVE.fullmatch(path.name))]
    if len(found) != count:
        raise MergeError(f"The channel has {len(found)} models instead of {count}. Run `traingrid merge` again.")
    return [
        _unpacked(channel / match[0], Part(submission=match["submission"], index=int(match["index"]), folder=folder))
        for match in sorted(found, key=lambda match: int(match["place"]))
        if (folder := scratch / match[0].removesuffix(".tar.gz"))
    ]


def _unpacked(archive: Path, part: Part) -> Part:
    try:
        with tarfile.open(archive, "r:gz") as opened:
            part.folder.mkdir()
            opened.extractall(part.folder, filter="data")
    except (tarfile.TarError, EOFError, OSError) as error:
        raise MergeError(f"The model of {part} cannot be unpacked: {error}.") from error
    return part


def join(parts: Sequence[Part], target: Path, layout: Layout) -> int:
    """Move the files of all parts into one folder, and return their number. Nothing is moved if files conflict.

    A file that several parts have with the same content is moved once.

    Args:
        parts: The parts.
        target: The folder.
        layout: "shared" keeps the paths; "folders" puts each part below `<submission>-<index>/`.

    Raises:
        MergeError: Two parts have different files with the same path.
    """
    owners: dict[Path, tuple[Part, Path]] = {}
    for part in parts:
        for path in _files(part.folder):
            relative = path.relative_to(part.folder)
            place = Path(f"{part.submission}-{part.index}") / relative if layout == "folders" else relative
            _check_conflict(place, part, path, owners)
            owners.setdefault(place, (part, path))
    for place, (_, path) in owners.items():
        (target / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.move(path, target / place)
    return len(owners)


def _check_conflict(place: Path, part: Part, path: Path, owners: dict[Path, tuple[Part, Path]]) -> None:
    """Raise MergeError if a file cannot be at a place, because another part has a different file or a folder there."""
    hint = "Use the option --folders, with which each part keeps its files in its own folder."
    if place in owners:
        other, same = owners[place]
        if not _are_equal(path, same):
            raise MergeError(f"The file {place} of {part} differs from that of {other}. {hint}")
    for other, _ in (owners[above] for above in place.parents if above in owners):
        raise MergeError(f"The file {place} of {part} needs a folder, where {other} has a file. {hint}")
    if place not in owners and (below := next((one for one in owners if place in one.parents), None)):
        raise MergeError(f"The file {place} of {part} is a folder of {owners[below][0]}. {hint}")


def _files(folder: Path) -> list[Path]:
    """Return the files and links below a folder, in the order of their paths; empty folders are left out."""
    return sorted(path for path in folder.rglob("*") if path.is_symlink() or not path.is_dir())


def _are_equal(one: Path, other: Path) -> bool:
    if one.is_symlink() or other.is_symlink():
        return one.is_symlink() and other.is_symlink() and one.readlink() == other.readlink()
    return filecmp.cmp(one, other, shallow=False)
