"""Checkpoint folders: checkpoints of any framework that appear atomically, and are verified before they are used.

Example:
    from trainer import checkpoint_folders, ranks

    here = ranks.current()
    found = checkpoint_folders.newest(here.folders.checkpoints)
    start = found.state["epoch"] if found else 0            # torch.load(found.folder / "model.pt")
    ...
    def write(folder):
        torch.save(model.state_dict(), folder / "model.pt")

    if here.is_main:
        checkpoint_folders.save(here.folders.checkpoints, step, write, epoch=epoch)
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from training_container.trainer.checkpoints import background, files


@dataclass(frozen=True, kw_only=True)
class Found:
    """A complete checkpoint.

    Attributes:
        folder: Its folder, with the files that the script has written.
        state: The values that the script has given to `save`.
    """

    folder: Path
    step: int
    state: dict[str, Any]


def save(parent: str | Path, step: int, write: Callable[[Path], object], *, keep: int = 3, **state: Any) -> Path:
    """Write a checkpoint, and delete older ones. An interruption leaves the previous checkpoint as the newest one.

    Only one rank may write to a folder. A checkpoint that a thread of this process writes comes first.

    Args:
        parent: The folder of the checkpoints: /opt/ml/checkpoints, or a folder in it.
        step: The step, for the folder's name.
        write: Writes the checkpoint's files into an empty folder.
        keep: The number of complete checkpoints to keep. Incomplete ones are deleted.
        state: Values for JSON, such as the epoch.

    Raises:
        OSError: For example, the disk is full. Previous checkpoints have not changed.
        Exception: The error of a checkpoint that a thread of this process has written. Nothing is written.
    """
    background.finish()
    parent = Path(parent)
    parent.mkdir(parents=True, exist_ok=True)
    writing = files.begin(parent, step)
    write(writing)
    saved = files.finish(writing, {"step": step, "state": state})
    files.remove_old(files.folders(parent), keep)
    return saved


def newest(parent: str | Path) -> Found | None:
    """Return the newest complete checkpoint, after verifying every byte; None if there is none.

    Incomplete ones, which SageMaker may restore after an interruption, are reported in the log and skipped.
    """
    for folder in reversed(files.folders(Path(parent))):
        try:
            content = files.read(folder)
            return Found(folder=folder, step=int(content["step"]), state=dict(content["state"]))
        except (files.BrokenCheckpointError, KeyError, TypeError) as error:
            print(f"Checkpoint {folder.name} is skipped: {error}.", flush=True)
    return None
