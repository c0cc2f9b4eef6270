"""Checkpoints in S3: the objects of the newest complete checkpoint of a training.

Checkpoints of the training image and of its module `checkpoint_folders` are folders whose state.json has the size of
every other file (training_container/trainer/checkpoints/files.py). S3 may have a part of such a folder, because a
training is interrupted while its files are uploaded in no guaranteed order. The format of other checkpoints is unknown.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from traingrid.strict_json import JsonError, json_object

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

_STATE = "state.json"
_FOLDER = re.compile(r"checkpoint-(\d{6,})-step-(\d{9,})", re.ASCII)
_UNFINISHED = (".writing-", ".nfs")
_MARKERS = (".sagemaker-uploading", ".sagemaker-uploaded", ".sagemaker-ignore")
"""The names of files that are not part of a checkpoint, as in files.py."""
_KERNELS = re.compile(r"cuda-kernels-[0-9a-f]{64}\.tar")
"""Kernels that a driver has compiled, which another start can use (training_container/launcher/kernel_cache.py)."""
_INDEX = re.compile(r"records-[^/]+\.json")
"""An index of a channel's records, which each Region has for its data (training_container/trainer/data/shards.py)."""


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """The objects that a training needs to continue.

    Attributes:
        name: The name of the newest folder; empty if the format is unknown.
        age: The number and the step of that folder, of which a newer one has more; empty if the format is unknown.
        sizes: The size of each object in bytes, by its name.
        last: The names of the objects that make their folders complete.
    """

    name: str = ""
    age: tuple[int, ...] = ()
    sizes: Mapping[str, int]
    last: frozenset[str] = frozenset()

    @property
    def bytes(self) -> int:
        """The size of all objects in bytes."""
        return sum(self.sizes.values())


def newest_checkpoint(sizes: Mapping[str, int], read: Callable[[str], bytes]) -> Checkpoint | None:
    """Return the newest complete checkpoint, together with the best one, from which a training may restore its model.

    Compiled kernels beside them belong to it. All objects are one checkpoint if they do not have the known format.

    Args:
        sizes: The size of each object, by its name below the prefix of the checkpoints.
        read: Returns the content of an object.

    Returns:
        None if there is no complete checkpoint.
    """
    sizes = {name: size for name, size in sizes.items() if not _is_foreign(name)}
    folders = {name.partition("/")[0] for name in sizes if "/" in name}
    kernels = {name for name in sizes if _KERNELS.fullmatch(name)}
    files = {name for name in sizes if "/" not in name and not _INDEX.fullmatch(name)}
    if files != kernels or not all(map(_FOLDER.fullmatch, folders)):
        return Checkpoint(sizes=sizes)
    chosen = list(_newest_and_best(sorted(folders, key=_age, reverse=True), sizes, read))
    if not chosen:
        return None
    return Checkpoint(
        name=chosen[0].folder,
        age=_age(chosen[0].folder),
        sizes={name: sizes[name] for name in sorted(kernels.union(*(complete.files for complete in chosen)))},
        last=frozenset(f"{complete.folder}/{_STATE}" for complete in chosen),
    )


class _Complete(NamedTuple):
    """A complete checkpoint with the names of its objects."""

    folder: str
    files: set[str]
    is_best: bool


def _newest_and_best(folders: list[str], sizes: Mapping[str, int], read: Callable[[str], bytes]) -> Iterator[_Complete]:
    """Yield the newest complete checkpoint, and the newest one that was saved as the best if it is another one."""
    is_first = True
    for folder in folders:
        complete = _complete(folder, sizes, read)
        if complete and (is_first or complete.is_best):
            yield complete
            is_first = False
            if complete.is_best:
                return


def _complete(folder: str, sizes: Mapping[str, int], read: Callable[[str], bytes]) -> _Complete | None:
    """Return the checkpoint in a folder if its state.json and all other files are there."""
    state = f"{folder}/{_STATE}"
    if state not in sizes:
        return None
    try:
        content = json_object(read(state), state)
        files = {f"{folder}/{name}": size for name, (size, _) in content["files"].items() if not _is_foreign(name)}
    except (JsonError, KeyError, AttributeError, TypeError, ValueError):
        return None
    if any(sizes.get(name) != size for name, size in files.items()):
        return None
    return _Complete(folder, {state, *files}, bool(content.get("best")))


def _age(folder: str) -> tuple[int, ...]:
    match = _FOLDER.fullmatch(folder)
    return (int(match[1]), int(match[2])) if match else ()


def _is_foreign(name: str) -> bool:
    return name.endswith(_MARKERS) or any(part.startswith(_UNFINISHED) for part in name.split("/"))
