"""Training state: the progress of a training, and the decisions that depend on it: the learning rate, and when to stop.

It is the same on every rank, because all ranks count the same steps and get the same losses.
"""

import dataclasses
import math
from collections.abc import Callable

from training_container.recipe.config import Config
from training_container.recipe.progress import Progress
from training_container.recipe.schedule import epochs_done, learning_rate


class DivergedError(RuntimeError):
    """The loss, or a weight, is not a finite number."""


class TrainingState:
    """The progress of one training, and its decisions.

    Args:
        batches: A function that returns the number of batches in an epoch on every rank; None while it is unknown.

    Attributes:
        progress: The progress, as stored in a checkpoint.
    """

    def __init__(self, config: Config, ranks: int, batches: Callable[[], int | None]) -> None:
        self._config, self._ranks, self._batches = config, ranks, batches
        self._images_per_step = config.batch_size * config.accumulate_steps
        self._former_steps: int | None = None
        self.progress = Progress(ranks=ranks, batch_size=self._images_per_step)

    @property
    def steps_per_epoch(self) -> int | None:
        """Steps in an epoch; None during the first epoch of a stream."""
        batches = self._batches()
        return math.ceil(batches / self._config.accumulate_steps) if batches else self._former_steps

    @property
    def rate(self) -> float:
        """The learning rate of the next step."""
        moment = epochs_done(self.progress.epoch, self.progress.step_in_epoch, self.steps_per_epoch)
        return learning_rate(self._config, self._ranks, moment)

    @property
    def is_over(self) -> bool:
        """True if all epochs are done, or early stopping applies."""
        patience = self._config.early_stop_epochs
        return self.progress.epoch >= self._config.epochs or 0 < patience <= self.progress.epochs_since_best

    @property
    def is_best(self) -> bool:
        """True if the last validation was the best so far."""
        return self.progress.best is not None and self.progress.epochs_since_best == 0

    def begin(self, initial_weights: str) -> None:
        """Record the digest of the weights with which the training begins."""
        self.progress = dataclasses.replace(self.progress, initial_weights=initial_weights)

    def resume(self, saved: Progress) -> str:
        """Continue from a checkpoint's progress. Return a message about it.

        A stream's length is unknown in the first epoch after a restart, but the checkpoint's completed epochs show it.
        """
        if saved.epoch:
            images = (saved.step - saved.step_in_epoch) / saved.epoch * saved.ranks * saved.batch_size
            self._former_steps = max(round(images / (self._ranks * self._images_per_step)), 1)
        self.progress = saved.rescaled(self._ranks, self._images_per_step, self.steps_per_epoch)
        change = saved.change(self._ranks, self._images_per_step)
        place = f"Continuing after step {saved.step}, in epoch {saved.epoch + 1}."
        if saved.awaits_validation:
            place = f"Continuing after step {saved.step}: epoch {saved.epoch + 1} is trained and is validated first."
        return f"{place} {change}" if change else place

    def count_steps(self, batches: int) -> None:
        """Count a step. Its loss follows with `add_loss`, before the next checkpoint and before the epoch's end.

        Args:
            batches: The number of batches that every rank trains on.
        """
        progress = self.progress
        self.progress = dataclasses.replace(
            progress,
            step_in_epoch=progress.step_in_epoch + 1,
            step=progress.step + 1,
            images=progress.images + batches * self._config.batch_size * self._ranks,
        )

    def add_loss(self, loss: float) -> None:
        """Add the mean loss of all ranks in a step to the epoch's mean."""
        progress = self.progress
        self.progress = dataclasses.replace(
            progress, loss_sum=progress.loss_sum + loss, loss_steps=progress.loss_steps + 1
        )

    def record_trained_epoch(self) -> None:
        """Record that the epoch is trained, and only its validation is left."""
        self.progress = dataclasses.replace(self.progress, awaits_validation=True)

    def count_epoch(self, top1: float | None) -> None:
        """Count an epoch, and compare its validation, if it had one, with the best."""
        progress = self.progress
        best, since = progress.best, progress.epochs_since_best
        if top1 is not None:
            better = best is None or top1 > best
            best, since = (top1, 0) if better else (best, since + self._config.validation_every)
        self.progress = dataclasses.replace(
            progress,
            epoch=progress.epoch + 1,
            step_in_epoch=0,
            loss_sum=0.0,
            loss_steps=0,
            best=best,
            epochs_since_best=since,
            awaits_validation=False,
        )

    def export_sentence(self, best: Progress | None) -> str:
        """Return a sentence that names the exported network: the best if its checkpoint exists, otherwise the last."""
        last_epoch = self.progress.epoch
        if best is None:
            return f"The network of epoch {last_epoch} is exported: no complete checkpoint of the best epoch exists."
        reason = f"its top-1 is better than that of epoch {last_epoch}"
        return f"The network of epoch {best.epoch} is exported, because {reason}."

    def place(self, before: int = 0) -> str:
        """Return a description of the last step, or of one `before` it in the same epoch, with its epoch."""
        is_in_epoch = self.progress.step_in_epoch > 0  # otherwise the last step belongs to the previous epoch
        return f"step {self.progress.step - before} (epoch {self.progress.epoch + is_in_epoch})"

    def diverged(self, observation: str, saved: Progress | None) -> DivergedError:
        """Return the error for a training whose numbers are no longer finite.

        Args:
            observation: The number and its place, as the beginning of a sentence.
            saved: The progress of the last valid checkpoint; None without one.
        """
        checkpoint_sentence = (
            f"The last good checkpoint is of step {saved.step}" if saved else "There is no checkpoint yet"
        )
        name = "learning_rate" if self._config.learning_rate else "base_learning_rate"
        return DivergedError(
            f"{observation}: training diverged. {checkpoint_sentence}. Reduce {name} "
            f"(the rate was {self.rate:g} for all ranks together), "
            "or increase warmup_epochs."
        )
