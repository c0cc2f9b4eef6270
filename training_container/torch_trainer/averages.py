"""Averages: a moving average of the weights over training steps, which often validates better than the last weights."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


class MovingAverages:
    """The moving averages of a network's weights, and of the statistics that were measured with them.

    Args:
        decay: The share of the old average that each step keeps. After n steps it is at most (1 + n) / (10 + n), so
            that the random initial weights soon lose their influence (the rule of tf.train.ExponentialMovingAverage).

    Attributes:
        averages: The averages of the network's numbers, in the order of its state dict.
        steps: The number of steps, which checkpoints contain.
    """

    def __init__(self, network: torch.nn.Module, decay: float) -> None:
        entries = {name: value for name, value in network.state_dict().items() if value.is_floating_point()}
        self._names, self._values, self._decay = list(entries), list(entries.values()), decay
        self.averages = [value.clone() for value in self._values]
        self.steps = torch.zeros((), dtype=torch.int64)

    def update(self) -> None:
        """Update the averages with the current weights."""
        self.steps += 1
        steps = int(self.steps)
        part = 1.0 - min(self._decay, (1.0 + steps) / (10.0 + steps))
        torch._foreach_lerp_(self.averages, self._values, part)  # PyTorch's own optimizers call it, too

    def restart(self) -> None:
        """Reset the averages to the current weights."""
        self.steps.zero_()
        for average, value in zip(self.averages, self._values, strict=True):
            average.copy_(value)

    def by_name(self) -> dict[str, torch.Tensor]:
        """Return the tensors of a checkpoint."""
        return {**dict(zip(self._names, self.averages, strict=True)), "steps": self.steps}

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Replace the weights by their averages, and restore them afterwards."""
        weights = [value.clone() for value in self._values]
        for value, average in zip(self._values, self.averages, strict=True):
            value.copy_(average)
        try:
            yield
        finally:
            for value, weight in zip(self._values, weights, strict=True):
                value.copy_(weight)
