"""Progress: the position of a training, as stored in checkpoints."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from types import UnionType
from typing import Any, Self

_KINDS: tuple[tuple[type | UnionType, str], ...] = ((bool, "flag"), (int | float, "number"), (str, "text"))
"""The kinds of a field's value; a bool is an int, too, and so comes first."""


@dataclass(frozen=True, kw_only=True)
class Progress:
    """The position of a training between two steps: the content of a checkpoint in addition to the variables.

    Together with the seed, it is also the position in the data: shuffling and augmentation depend only on seed, epoch,
    rank and record, so no state of a random generator is stored.

    Attributes:
        epoch: Completed epochs.
        step_in_epoch: Completed steps of the current epoch.
        step: Completed steps of the whole training.
        ranks: The number of ranks of these steps.
        batch_size: Images per rank and step of these steps.
        loss_sum: The sum of the losses of the epoch's steps so far, averaged over ranks. It is a float64 sum, so that
            the epoch's mean after an interruption has the same printed digits.
        loss_steps: The number of losses in loss_sum.
        best: The best value for early stopping; None before the first validation.
        epochs_since_best: Validated epochs since then.
        images: Images of all ranks that were trained on so far.
        awaits_validation: True if the current epoch is completely trained, but not validated yet.
        initial_weights: The digest of the weights before the first step (trainer/weights.py), by which a merge
            recognizes models with a common start; empty in checkpoints of earlier images.
    """

    epoch: int = 0
    step_in_epoch: int = 0
    step: int = 0
    ranks: int = 1
    batch_size: int = 1
    loss_sum: float = 0.0
    loss_steps: int = 0
    best: float | None = None
    epochs_since_best: int = 0
    images: int = 0
    awaits_validation: bool = False
    initial_weights: str = ""

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON. Python writes floats so that they can be read back exactly."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return the progress that to_json wrote. Unknown fields of a later version are ignored.

        Raises:
            TypeError, ValueError: A field has the wrong type.
        """
        fields = {entry.name: values[entry.name] for entry in dataclasses.fields(cls) if entry.name in values}
        for name, value in fields.items():
            expected = {"awaits_validation": "flag", "initial_weights": "text"}.get(name, "number")
            actual = next((kind for of_kind, kind in _KINDS if isinstance(value, of_kind)), "something else")
            if actual != expected and not (value is None and name == "best"):
                raise TypeError(f"{name} must be a {expected}; got {value!r}")
        return cls(**fields)

    def rescaled(self, ranks: int, batch_size: int, steps_per_epoch: int | None) -> Self:
        """Return the same position, counted in steps of another number of ranks or images per rank.

        The completed part of the epoch is the same to within a step. The images in it differ, because every rank's
        share changes with the number of ranks: some images of the epoch are repeated, and some are skipped.

        Args:
            ranks: The new number of ranks.
            batch_size: The new number of images per rank and step.
            steps_per_epoch: The new number of steps; None if it is unknown because a stream has not ended yet. Then the
                current epoch is restarted.
        """
        if (ranks, batch_size) == (self.ranks, self.batch_size):
            return self
        done = self.step_in_epoch * self.ranks * self.batch_size // (ranks * batch_size)
        if self.awaits_validation:  # no step is left
            done = steps_per_epoch or self.step_in_epoch
        else:
            done = 0 if steps_per_epoch is None else min(done, steps_per_epoch - 1)
        before = self.epoch * steps_per_epoch if steps_per_epoch else self.step - self.step_in_epoch
        place = dataclasses.replace(self, step=before + done, step_in_epoch=done, ranks=ranks, batch_size=batch_size)
        return place if done else dataclasses.replace(place, loss_sum=0.0, loss_steps=0)

    def change(self, ranks: int, batch_size: int) -> str | None:
        """Return a message about a changed number of ranks or images per rank; None if neither changed."""
        if (ranks, batch_size) == (self.ranks, self.batch_size):
            return None
        return (
            f"The checkpoint is of {_ranks(self.ranks)} with {self.batch_size} images each, but this job has "
            f"{_ranks(ranks)} with {batch_size} each: training continues from the same part of epoch {self.epoch + 1} "
            f"with {ranks * batch_size} images per step instead of {self.ranks * self.batch_size}, and with the "
            f"learning rate of {_ranks(ranks)}."
        )


def _ranks(count: int) -> str:
    return f"{count} rank" if count == 1 else f"{count} ranks"
