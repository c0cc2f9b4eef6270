"""How far a training has come. Imports no TensorFlow."""

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self


@dataclass(frozen=True, kw_only=True)
class Progress:
    """Where a training stands between two steps: what a checkpoint holds beside the variables.

    Together with the seed it is the position in the data, too: shuffling and augmentation are functions of seed, epoch,
    rank and record, so that no state of a random generator needs to be kept.

    Attributes:
        epoch: whole epochs done.
        step_in_epoch: steps done of the epoch under way.
        step: steps done of the whole training.
        ranks: ranks that the steps were counted with.
        batch_size: images per rank and step that they were counted with.
        loss_sum: sum of the losses of the epoch's steps so far, averaged over ranks. Summed in float64, it makes the
            epoch's mean after an interruption the same to the last digit that is printed.
        loss_steps: how many losses are in loss_sum.
        best: the best value of what early stopping looks at, None before the first validation.
        epochs_since_best: epochs validated since then.
        images: images trained with so far, of all ranks.
        awaits_validation: the epoch under way is trained to its end, and not validated yet.
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

    def to_json(self) -> dict[str, Any]:
        """Return the fields for JSON, without loss: Python writes a float so that it reads back the same."""
        return dataclasses.asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Self:
        """Return what to_json wrote; fields that a later version has added are left out.

        Raises:
            TypeError, ValueError: a field is not what it should be.
        """
        known = {entry.name: values[entry.name] for entry in dataclasses.fields(cls) if entry.name in values}
        for name, value in known.items():
            expected = "flag" if name == "awaits_validation" else "number"
            is_flag = isinstance(value, bool)
            found = "flag" if is_flag else "number" if isinstance(value, int | float) else "something else"
            if found != expected and not (value is None and name == "best"):
                raise TypeError(f"{name} is {value!r}, which is no {expected}")
        return cls(**known)

    def rescaled(self, ranks: int, batch_size: int, steps_per_epoch: int | None) -> Self:
        """Return the same place in the training, counted in the steps of another number of ranks or images per rank.

        The part of the epoch that is done stays the same to within a step; which images those were does not, because
        every rank's share changes with the number of ranks: some images of that epoch come twice and some not at all.

        Args:
            ranks: how many there are now.
            batch_size: images per rank and step now.
            steps_per_epoch: of now; None where it is unknown before a stream's end: then the epoch under way is begun
                again.
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
        """Return the sentence for going on with another number of ranks or images per rank, None if neither changed."""
        if (ranks, batch_size) == (self.ranks, self.batch_size):
            return None
        return (
            f"The checkpoint is of {_ranks(self.ranks)} with {self.batch_size} images each, and this job has "
            f"{_ranks(ranks)} with {batch_size} each: training goes on from the same part of epoch {self.epoch + 1} "
            f"with {ranks * batch_size} images a step instead of {self.ranks * self.batch_size}, and the learning rate "
            f"is that of {_ranks(ranks)}."
        )


def _ranks(count: int) -> str:
    return f"{count} rank" if count == 1 else f"{count} ranks"
