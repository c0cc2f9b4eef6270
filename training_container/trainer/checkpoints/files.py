"""Checkpoint files: writes checkpoint folders atomically, and detects incomplete ones when reading.

A checkpoint is a folder `checkpoint-000007-step-000000123`. It is written under another name, flushed to disk,
completed with a state.json that has the size and CRC32C of every other file, and renamed. SageMaker copies
/opt/ml/checkpoints to S3 during training, and later restores its copy, in no guaranteed order. So a folder that was
complete here may be restored with files missing or truncated, which only the sizes and checksums reveal.

The first number determines which checkpoint is newer. Steps cannot: a training that continues with more images per step
counts fewer steps for the same progress, and SageMaker may restore folders that were removed. The number is part of the
name, because an incomplete folder has a name, too. This module does not import TensorFlow.

While SageMaker copies a file, it keeps empty files beside it, and removes them at any time. They are not part of a
checkpoint.
"""

import errno
import json
import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from pathlib import Path
from typing import Any

import google_crc32c

from training_container import outside_json

STATE = "state.json"
_WRITING = ".writing-"
_NAME = re.compile(r"checkpoint-(\d{6,})-step-(\d{9,})")
# Names in earlier images: the step, and how often it was saved. They are older than all checkpoints with a number.
_UNNUMBERED = re.compile(r"step-(\d{9,})(?:-(\d+))?")
_BLOCK_BYTES = 1 << 20
# Of a file that SageMaker copies or has copied, and of one that it is asked not to copy
# (src/sagemaker_xgboost_container/checkpointing.py in https://github.com/aws/sagemaker-xgboost-container).
_MARKERS = (".sagemaker-uploading", ".sagemaker-uploaded", ".sagemaker-ignore")
_NFS_DELETED = ".nfs"
"""The beginning of the name of a deleted file that a process of an NFS client, as for Amazon EFS, has still open."""
_TRIES, _PAUSE_SECONDS = 20, 0.1
_FULL_DISK = (os.strerror(errno.ENOSPC), os.strerror(errno.EDQUOT))


class BrokenCheckpointError(ValueError):
    """A checkpoint is incomplete. The text names the file and the reason."""


def folders(parent: Path) -> list[Path]:
    """Return the checkpoints in a folder, complete or not, oldest first."""
    paths_by_age = [(age, path) for path in parent.glob("*step-*") if (age := _age(path.name)) and path.is_dir()]
    return [path for _, path in sorted(paths_by_age)]


def begin(parent: Path, step: int) -> Path:
    """Return a new, empty folder for the checkpoint of a step. Delete unfinished folders of processes that were killed.

    Its number is higher than that of every other folder, complete or not.
    """
    remove_unfinished(parent)
    writing = writing_folder(parent, next_number(parent), step)
    writing.mkdir(parents=True)
    return writing


def remove_unfinished(parent: Path) -> None:
    """Delete unfinished folders of processes that were killed."""
    for left in parent.glob(f"{_WRITING}*"):
        _delete(left)


def next_number(parent: Path) -> int:
    """Return a number that is higher than that of every folder, complete or not."""
    return 1 + max((_age(path.name)[0] for path in folders(parent)), default=0)


def writing_folder(parent: Path, number: int, step: int) -> Path:
    """Return the path of a checkpoint's folder while it is written."""
    return parent / f"{_WRITING}checkpoint-{number:06d}-step-{step:09d}"


def finish(writing: Path, state: Mapping[str, Any]) -> Path:
    """Turn a written folder into a checkpoint: flush its files, add state.json, rename it. Return its path.

    Nothing is overwritten, so the previous checkpoint exists at every moment, and a name in S3 never has two contents.

    Raises:
        OSError: For example, the disk is full.
    """
    write_state(writing, state, flushed_files(writing))
    return publish(writing)


def flushed_files(writing: Path, is_included: Callable[[str], bool] = bool) -> dict[str, list[int | str]]:
    """Flush files of a checkpoint, by default all, and return the size and checksum of each by its path."""
    paths = [path for path in sorted(writing.rglob("*")) if path.is_file() and not is_foreign(path.name)]
    names = {path: str(path.relative_to(writing)) for path in paths}
    return {name: _flushed(path) for path, name in names.items() if is_included(name)}


def write_state(writing: Path, state: Mapping[str, Any], listed: Mapping[str, list[int | str]]) -> None:
    """Write state.json with the sizes and checksums of `flushed_files`."""
    _write_state(writing / STATE, {**state, "files": dict(listed)})


def publish(writing: Path) -> Path:
    """Rename a folder with all its files, unless another host that shares it has done so. Return its path."""
    try:
        _flush(writing)
        writing.rename(final(writing))
    except FileNotFoundError:
        if not final(writing).exists():
            raise
    _flush(writing.parent)
    return final(writing)


def final(writing: Path) -> Path:
    """Return the path of a folder of `begin` after it has been renamed."""
    return writing.with_name(writing.name.removeprefix(_WRITING))


def is_foreign(name: str) -> bool:
    """Return True for a file that another program keeps in the folder, and removes at any time."""
    return name.endswith(_MARKERS) or name.startswith(_NFS_DELETED)


def replace_state(folder: Path, state: Mapping[str, Any]) -> None:
    """Replace entries of a checkpoint's state.json atomically. Its other files do not change.

    Raises:
        BrokenCheckpointError: The checkpoint is incomplete.
        OSError: For example, the disk is full. The checkpoint has not changed.
    """
    content = read_state(folder) | dict(state)
    replacement = folder / f"{STATE}.new"
    _write_state(replacement, content)
    replacement.replace(folder / STATE)
    _flush(folder)


def _write_state(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps({**content, "crc32c": _checksum_of(content)}, indent=2)
    path.write_text(text, encoding="utf-8")  # no newline at the end, so that any truncation makes the JSON invalid
    _flush(path)


def read(folder: Path, part: int = 0, parts: int = 1) -> dict[str, Any]:
    """Return a checkpoint's state.json after verifying every byte of its files, or of this part of them.

    Raises:
        BrokenCheckpointError: A file is missing, truncated or modified.
    """
    state = read_state(folder)
    for name, (size, checksum) in list(state["files"].items())[part::parts]:
        if (actual := _size_and_checksum(folder / name)) != [size, checksum]:
            raise BrokenCheckpointError(f"{name} has the CRC32C {actual[1]}, but {STATE} has {checksum}")
    return state


def read_state(folder: Path) -> dict[str, Any]:
    """Return a checkpoint's state.json after verifying it and the sizes of the other files.

    Raises:
        BrokenCheckpointError: A file is missing or truncated, or state.json was modified.
    """
    try:
        state = outside_json.loads((folder / STATE).read_text(encoding="utf-8"))
        checksum = state.pop("crc32c")
    except FileNotFoundError:
        raise BrokenCheckpointError(f"{STATE} is missing") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise BrokenCheckpointError(f"{STATE} is truncated or malformed") from None
    if checksum != _checksum_of(state):
        raise BrokenCheckpointError(f"{STATE} has changed since it was written")
    # Earlier images have recorded files of other programs.
    state["files"] = {name: entry for name, entry in state["files"].items() if not is_foreign(Path(name).name)}
    for name, (size, _) in state["files"].items():
        path = folder / name
        if not path.is_file():
            raise BrokenCheckpointError(f"{name} is missing")
        if path.stat().st_size != size:
            raise BrokenCheckpointError(f"{name} has {path.stat().st_size} of its {size} bytes")
    return dict(state)


def state_if_complete(folder: Path) -> dict[str, Any] | None:
    """Return a checkpoint's state.json; None if a file is missing or truncated."""
    try:
        return read_state(folder)
    except (BrokenCheckpointError, OSError):
        return None


def step_after(error: Exception) -> str:
    """Return a sentence with the user's next step after an error of a write."""
    if any(text in str(error) for text in _FULL_DISK):
        return "Increase the job's volume_gb, or keep fewer checkpoints."
    return "Correct the cause, and retry the job."


def remove_old(paths: Sequence[Path], keep: int, verified: Collection[Path] = ()) -> None:
    """Delete incomplete checkpoints, which are useless, and all complete ones but the newest.

    Args:
        paths: The checkpoints, oldest first.
        keep: The number of complete ones to keep, at least 1.
        verified: Complete ones of which this host may have only its own files.
    """
    complete = [path for path in paths if path in verified or state_if_complete(path)]
    for path in paths:
        if path not in complete[-max(1, keep) :]:
            remove(path)


def remove(folder: Path) -> None:
    """Delete a checkpoint. state.json goes first, so that an interrupted deletion leaves an incomplete checkpoint."""
    (folder / STATE).unlink(missing_ok=True)
    _delete(folder)


def _delete(folder: Path) -> None:
    """Delete a folder in which another program adds and removes files.

    Raises:
        OSError: It cannot be deleted, also after two seconds.
    """
    for left in reversed(range(_TRIES)):
        try:
            shutil.rmtree(folder)
        except OSError:
            if not folder.exists():
                return
            if not left:
                raise
            time.sleep(_PAUSE_SECONDS)
        else:
            return


def _age(name: str) -> tuple[int, ...]:
    """Return the sort key of a checkpoint's age; empty if the name is not a checkpoint's."""
    if match := _NAME.fullmatch(name):
        return int(match[1]), int(match[2])
    if match := _UNNUMBERED.fullmatch(name):
        return 0, int(match[1]), int(match[2] or 1)
    return ()


def _flush(path: Path) -> None:
    """Flush a file's content, or a folder's entries, to disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _flushed(path: Path) -> list[int | str]:
    _flush(path)
    return _size_and_checksum(path)


def _size_and_checksum(path: Path) -> list[int | str]:
    checksum, size = google_crc32c.Checksum(), 0
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            checksum.update(block)
            size += len(block)
    return [size, str(checksum.hexdigest(), "ascii")]


def _checksum_of(content: Mapping[str, Any]) -> str:
    text = json.dumps(content, sort_keys=True)
    return str(google_crc32c.Checksum(text.encode()).hexdigest(), "ascii")
