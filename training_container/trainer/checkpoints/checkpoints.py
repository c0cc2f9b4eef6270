"""Checkpoints: rank 0 saves and restores a Keras model and optimizer, or any other trackable objects of TensorFlow.

In a custom script, on every rank:

    saved = checkpoints.Checkpoints("/opt/ml/checkpoints", model=model, optimizer=optimizer)
    progress = checkpoints.resume(saved)  # now all ranks have the same variables and progress
    ...
    if hvd.rank() == 0:
        saved.save(checkpoints.Progress(epoch=epoch + 1, ranks=hvd.size()))

files.py documents how checkpoints are written and verified, background.py how a thread writes them.
"""

import shutil
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.recipe.progress import Progress
from training_container.trainer.checkpoints import background, files
from training_container.trainer.checkpoints.files import BrokenCheckpointError
from training_container.trainer.checkpoints.variables import Variables, build_optimizers

__all__ = ["CheckpointError", "Checkpoints", "Progress", "broadcast", "resume"]

_VARIABLES = "variables"
_MAX_CAUSE_LENGTH = 300


class CheckpointError(RuntimeError):
    """A checkpoint cannot be written, or belongs to a different model."""


class Checkpoints:
    """The checkpoints of one training, one folder each. Only rank 0 may write: several writers would corrupt files.

    Args:
        folder: The folder of checkpoints: /opt/ml/checkpoints on SageMaker, which copies it to S3 if the job is
            configured for it.
        keep: The number of newest checkpoints to keep, in addition to the best.
        identity: A description of the model, for example {"model": "resnet50", "classes": 1000}. Checkpoints with
            another identity are refused.
        asynchronous: If true, `save` only copies the variables to host memory, and a thread writes them.
        tracked: The objects to save, by name: models, optimizers, variables, tf.random.Generator. Build them first,
            because objects without variables cannot be restored.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        keep: int = 3,
        identity: Mapping[str, str | int] | None = None,
        asynchronous: bool = False,
        **tracked: Any,
    ) -> None:
        if keep < 1:
            raise ValueError(f"keep must be at least 1; got {keep}.")
        self.folder = Path(folder)
        self.tracked = tracked
        self._keep = keep
        self._identity = dict(identity or {})
        self._asynchronous = asynchronous
        self._variables = Variables(tracked)

    def restore(self, *, best: bool = False, warn: Callable[[str], None] = print) -> Progress | None:
        """Load the newest complete checkpoint into the tracked objects. Return its progress, or None without one.

        Args:
            best: If true, load the newest checkpoint that was saved as the best.
            warn: A function that prints a message for each incomplete checkpoint that is skipped.

        Raises:
            CheckpointError: The checkpoint belongs to a different model.
        """
        self.finish()
        for path in reversed(files.folders(self.folder)):
            try:
                state = files.read(path)
                progress = Progress.from_json(state["progress"])
            except (BrokenCheckpointError, OSError, KeyError, TypeError, ValueError) as error:
                warn(f"Checkpoint {path} is skipped, because it is incomplete: {error}.")
                continue
            if not best or state["best"]:
                self._check_identity(path, state["identity"])
                self._load(path)
                return progress
        return None

    def save(self, progress: Progress, *, best: bool = False) -> Path:
        """Write a checkpoint and return its folder. Old checkpoints are removed only afterwards.

        First synchronize the variables that differ between ranks (moving averages of batch normalization).
        If asynchronous, the folder appears later, and the methods that change or load a checkpoint wait for it.

        Args:
            best: If true, keep this checkpoint until another one is the best, regardless of its age.

        Raises:
            CheckpointError: The checkpoint could not be written, or the previous one if asynchronous. Earlier ones have
                not changed.
        """
        self.finish()
        state = {"progress": progress.to_json(), "identity": self._identity, "best": best}
        try:
            writing = files.begin(self.folder, progress.step)
        except OSError as error:
            raise CheckpointError(self._not_written(progress.step, error)) from error
        write = partial(self._write, progress.step, writing, self._variables.copy(), state)
        if self._asynchronous:
            background.start(write)
        else:
            write()
        return files.final(writing)

    def finish(self) -> None:
        """Wait until the last checkpoint is written.

        Raises:
            CheckpointError: It could not be written.
        """
        background.finish()

    def _write(
        self, step: int, writing: Path, write_variables: Callable[[Path], object], state: Mapping[str, Any]
    ) -> None:
        try:
            write_variables(writing / _VARIABLES)
            path = files.finish(writing, state)
        except (OSError, tf.errors.OpError) as error:
            shutil.rmtree(writing, ignore_errors=True)
            raise CheckpointError(self._not_written(step, error)) from error
        self._remove_old(path)

    def update_progress(self, path: Path, progress: Progress, *, best: bool = False) -> None:
        """Replace a checkpoint's progress, for example once its variables are validated. Its variables stay.

        Args:
            best: If true, this checkpoint is now the best, as in `save`.

        Raises:
            CheckpointError: The change could not be written. The checkpoint has not changed.
        """
        self.finish()
        try:
            files.replace_state(path, {"progress": progress.to_json(), "best": best})
        except (OSError, BrokenCheckpointError) as error:
            raise CheckpointError(self._not_written(progress.step, error)) from error
        self._remove_old(path)  # a checkpoint that is now validated replaces an older one

    def discard(self, path: Path) -> None:
        """Remove a checkpoint whose variables have turned out to be unusable."""
        self.finish()
        files.remove(path)

    def latest(self) -> Path | None:
        """Return the newest checkpoint that is written and has correct file sizes; None if there is none."""
        return next((path for path in reversed(files.folders(self.folder)) if files.state_if_complete(path)), None)

    def _check_identity(self, path: Path, saved: Mapping[str, str | int]) -> None:
        if saved != self._identity:
            raise CheckpointError(
                f"Checkpoint {path} is of {_shown(saved)}, but this job trains {_shown(self._identity)}. Train the "
                "checkpoint's model, or use another folder for this job's checkpoints."
            )

    def _load(self, path: Path) -> None:
        try:
            self._variables.read(path / _VARIABLES)
        except (AssertionError, ValueError, tf.errors.OpError) as error:
            raise CheckpointError(_mismatch_sentences(path, error)) from error

    def _not_written(self, step: int, error: Exception) -> str:
        previous = self.latest()
        fallback = f"The previous checkpoint is {previous}." if previous else "There is no previous checkpoint."
        text = (error.strerror if isinstance(error, OSError) else None) or str(error).strip() or type(error).__name__
        reason = text.splitlines()[0]
        try:
            usage = shutil.disk_usage(self.folder)
            room = f"{usage.free / 1e6:,.1f} MB of {usage.total / 1e6:,.1f} MB are free there"
        except OSError as missing:
            room = f"the folder cannot be used: {missing.strerror}"
        return (
            f"The checkpoint of step {step} could not be written to {self.folder} ({reason}); {room}. {fallback} "
            f"{files.step_after(error)}"
        )

    def _remove_old(self, newest: Path) -> None:
        """Keep the newest checkpoints and the best. Delete incomplete ones, which are useless.

        A checkpoint that awaits validation does not count: if it is discarded, an earlier one must be available.
        """
        paths = [path for path in reversed(files.folders(self.folder)) if path != newest]
        state_by_path = {path: state for path in [newest, *paths] if (state := files.state_if_complete(path))}
        unproven = bool(state_by_path.get(newest, {}).get("progress", {}).get("awaits_validation"))
        newest_paths = {
            *list(state_by_path)[: self._keep + unproven],
            *[path for path, state in state_by_path.items() if state["best"]][:1],
        }
        for path in paths:
            if path not in newest_paths:
                files.remove(path)


def broadcast(progress: Progress | None) -> Progress | None:
    """Return rank 0's progress on every rank. All ranks must call this function together."""
    result: Progress | None = hvd.broadcast_object(progress, root_rank=0, name="progress")
    return result


def resume(saved: Checkpoints, *, best: bool = False, warn: Callable[[str], None] = print) -> Progress | None:
    """Restore on rank 0, then send the variables and progress to all ranks. All ranks must call this together.

    Args:
        best: If true, restore the newest checkpoint that was saved as the best.
        warn: A function that prints a message for each incomplete checkpoint that is skipped.

    Returns:
        The progress of the newest complete checkpoint; None, on every rank, if there is none.

    Raises:
        CheckpointError: On rank 0; see Checkpoints.restore.
    """
    build_optimizers(saved.tracked)
    progress = broadcast(saved.restore(best=best, warn=warn) if hvd.rank() == 0 else None)
    if variables := Variables(saved.tracked).broadcastable():
        hvd.broadcast_variables(variables, root_rank=0)
    return progress


def _shown(identity: Mapping[str, str | int]) -> str:
    return ", ".join(f"{name} {value}" for name, value in identity.items()) or "a model without identity"


def _mismatch_sentences(path: Path, error: Exception) -> str:
    """Return sentences about a checkpoint of another model, with the begin of TensorFlow's message."""
    first_line = str(error).splitlines()[0].removesuffix(": attributes {")  # a dump of attributes may follow
    cause = first_line.rstrip(".")[:_MAX_CAUSE_LENGTH]
    return (
        f"Checkpoint {path} does not match this job's model or optimizer: {cause}. Train the checkpoint's model with "
        "its optimizer, build both before restoring, or use another folder for this job's checkpoints."
    )
