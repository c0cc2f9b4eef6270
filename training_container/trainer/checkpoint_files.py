"""The files of a checkpoint: written so that a folder is whole or not there, read so that a broken one is recognised.

A checkpoint is a folder `checkpoint-000007-step-000000123`. It is written under another name, flushed to the disk,
given a state.json with size and CRC32C of every other file, and renamed. SageMaker copies /opt/ml/checkpoints to S3
while training writes into it and brings back what it copied, in no promised order; so a folder that was whole here may
come back with files missing or cut, and only the sizes and checksums tell.

The first number says which is newer. Steps cannot: a training that goes on with more images a step counts fewer steps
for what is done, and removed folders come back from S3. It is in the name, since half of a folder has that too. Imports
no TensorFlow.
"""

import json
import os
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import google_crc32c

STATE = "state.json"
_WRITING = ".writing-"
_NAME = re.compile(r"checkpoint-(\d{6,})-step-(\d{9,})")
# As earlier images named them, by the step and how often it had been saved: older than any that has a number.
_UNNUMBERED = re.compile(r"step-(\d{9,})(?:-(\d+))?")
_BLOCK_BYTES = 1 << 20


class BrokenCheckpointError(ValueError):
    """A checkpoint is not whole; the text says which file and why."""


def folders(parent: Path) -> list[Path]:
    """Return the checkpoints in a folder, whole or not, the oldest first."""
    found = [(age, path) for path in parent.glob("*step-*") if (age := _age(path.name)) and path.is_dir()]
    return [path for _, path in sorted(found)]


def begin(parent: Path, step: int) -> Path:
    """Return a new, empty folder to write the checkpoint of a step into. What a killed process began is taken away.

    Its number is above that of every other folder, whole or not.
    """
    for left in parent.glob(f"{_WRITING}*"):
        shutil.rmtree(left)
    number = 1 + max((_age(path.name)[0] for path in folders(parent)), default=0)
    writing = parent / f"{_WRITING}checkpoint-{number:06d}-step-{step:09d}"
    writing.mkdir(parents=True)
    return writing


def finish(writing: Path, state: Mapping[str, Any]) -> Path:
    """Make a written folder a checkpoint: flush its files, add state.json, rename. Return its path.

    Nothing is overwritten, so that no moment is without the former checkpoint, and no name in S3 ever stands for two
    contents.

    Raises:
        OSError: for example, the disk is full.
    """
    files = {}
    for path in sorted(writing.rglob("*")):
        if path.is_file():
            _flush(path)
            files[str(path.relative_to(writing))] = _size_and_checksum(path)
    _write_state(writing / STATE, dict(state) | {"files": files})
    _flush(writing)
    final = writing.with_name(writing.name.removeprefix(_WRITING))
    writing.rename(final)
    _flush(final.parent)
    return final


def amend(folder: Path, state: Mapping[str, Any]) -> None:
    """Replace entries of a checkpoint's state.json, at once: its other files stay as they are.

    Raises:
        BrokenCheckpointError: it is not whole.
        OSError: for example, the disk is full; the checkpoint is as it was.
    """
    content = read_state(folder) | dict(state)
    replacement = folder / f"{STATE}.new"
    _write_state(replacement, content)
    replacement.replace(folder / STATE)
    _flush(folder)


def _write_state(path: Path, content: Mapping[str, Any]) -> None:
    text = json.dumps({**content, "crc32c": _checksum_of(content)}, indent=2)
    path.write_text(text, encoding="utf-8")  # no line end: whatever is cut off, the text is no JSON
    _flush(path)


def read(folder: Path) -> dict[str, Any]:
    """Return state.json of a checkpoint after checking every byte of its files.

    Raises:
        BrokenCheckpointError: a file is missing, cut or changed.
    """
    state = read_state(folder)
    for name, (size, checksum) in state["files"].items():
        if (actual := _size_and_checksum(folder / name)) != [size, checksum]:
            raise BrokenCheckpointError(f"{name} has the CRC32C {actual[1]}, but {STATE} says {checksum}")
    return state


def read_state(folder: Path) -> dict[str, Any]:
    """Return state.json of a checkpoint after checking it and the sizes of the other files.

    Raises:
        BrokenCheckpointError: a file is missing or cut, or state.json is not what was written.
    """
    try:
        state = json.loads((folder / STATE).read_text(encoding="utf-8"))
        checksum = state.pop("crc32c")
    except FileNotFoundError:
        raise BrokenCheckpointError(f"{STATE} is missing") from None
    except (ValueError, KeyError, AttributeError, TypeError):
        raise BrokenCheckpointError(f"{STATE} is cut or is no state") from None
    if checksum != _checksum_of(state):
        raise BrokenCheckpointError(f"{STATE} has changed since it was written")
    for name, (size, _) in state["files"].items():
        path = folder / name
        if not path.is_file():
            raise BrokenCheckpointError(f"{name} is missing")
        if path.stat().st_size != size:
            raise BrokenCheckpointError(f"{name} has {path.stat().st_size} of its {size} bytes")
    return dict(state)


def remove(folder: Path) -> None:
    """Remove a checkpoint; one that is interrupted in this leaves no whole one behind."""
    (folder / STATE).unlink(missing_ok=True)
    shutil.rmtree(folder)


def _age(name: str) -> tuple[int, ...]:
    """Return what orders checkpoints from the oldest to the newest, nothing for a name that is no checkpoint's."""
    if match := _NAME.fullmatch(name):
        return int(match[1]), int(match[2])
    if match := _UNNUMBERED.fullmatch(name):
        return 0, int(match[1]), int(match[2] or 1)
    return ()


def _flush(path: Path) -> None:
    """Wait until a file's bytes, or a folder's names, are on the disk."""
    number = os.open(path, os.O_RDONLY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


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
