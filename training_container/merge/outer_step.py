"""Outer step: computes the next global network of a series of rounds from the networks that Regions have trained.

A round starts one training with the same weights in every Region. FedAvg (McMahan et al. 2017, arXiv:1602.05629,
algorithm 1) continues with the mean of the trained weights, weighted by the number of records. DiLoCo (Douillard et al.
2023, arXiv:2311.08105, algorithm 1) takes the difference between the common start and the mean as a gradient, and
descends along it with Nesterov momentum. With the learning rate 1 and without momentum, DiLoCo is FedAvg.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Weights = list[npt.NDArray[np.float32]]
"""The values of a network's variables, in the order of `model.variables`."""
Sums = list[npt.NDArray[np.float64]]
"""As `Weights`, in the precision in which they are summed."""


def weighted_mean(networks: Iterable[Weights], counts: Sequence[int]) -> Sums:
    """Return the weighted mean of each weight of several networks; only one of them is in memory at a time.

    Args:
        networks: The weights of each network.
        counts: The weight of each network, such as its number of training records. They need not add up to 1.
    """
    sums: Sums = []
    for weights, count in zip(networks, counts, strict=True):
        scaled = [value.astype(np.float64) * count for value in weights]
        sums = [total + value for total, value in zip(sums, scaled, strict=True)] if sums else scaled
    return [total / sum(counts) for total in sums]


@dataclass(frozen=True, kw_only=True)
class OuterStep:
    """The step from a global network to the next one.

    Attributes:
        learning_rate: Without momentum, 1 is FedAvg.
    """

    learning_rate: float = 1.0
    momentum: float = 0.0

    @property
    def is_mean(self) -> bool:
        """True if the next network is the mean and does not depend on the common start."""
        return self.learning_rate == 1 and self.momentum == 0

    def __call__(self, start: Weights, mean: Sums, velocity: Weights | None) -> tuple[Sums, Sums]:
        """Return the next weights and the next velocity.

        Args:
            start: The weights with which all trainings of the round began.
            mean: The mean of the weights at their ends.
            velocity: The velocity after the round before; None in the first round.
        """
        weights, velocities = [], []
        previous = velocity or [np.zeros_like(value) for value in start]
        for begin, end, before in zip(start, mean, previous, strict=True):
            gradient = begin.astype(np.float64) - end
            velocities.append(self.momentum * before.astype(np.float64) + gradient)
            weights.append(begin - self.learning_rate * (gradient + self.momentum * velocities[-1]))
        return weights, velocities
