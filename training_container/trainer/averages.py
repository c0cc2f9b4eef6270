"""Averages: a moving average of the weights over training steps, which often validates better than the last weights."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf


class WeightAverages(tf.Module):
    """The moving averages of a network's variables.

    The averages of weights are the same on all ranks, as the weights are. The statistics of batch normalization are
    averaged, too: they depend on the weights that they were measured with, so the statistics of the last weights would
    not match the averaged weights (TensorFlow's EfficientNet averages both, in utils.py's get_ema_vars). Statistics
    differ between ranks until they are averaged over ranks.

    Args:
        weights: The trainable variables.
        statistics: The moving means and variances of batch normalization.
        decay: The share of the old average that each step keeps. After n steps it is at most (1 + n) / (10 + n), so
            that the random initial weights soon lose their influence (the rule of
            tf.train.ExponentialMovingAverage).
    """

    def __init__(self, weights: Sequence[tf.Variable], statistics: Sequence[tf.Variable], decay: float) -> None:
        super().__init__()
        self._averaged, self._decay = [*weights, *statistics], decay
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.averages = [tf.Variable(weight, trainable=False) for weight in self._averaged]
        self.statistics = self.averages[len(weights) :]

    def update(self) -> None:
        """Update the averages with the current weights. This is part of the training step."""
        steps = tf.cast(self.steps.assign_add(1), tf.float32)
        part = 1.0 - tf.minimum(self._decay, (1.0 + steps) / (10.0 + steps))
        for average, weight in zip(self.averages, self._averaged, strict=True):
            average.assign_add(tf.cast(part, average.dtype) * (weight - average))

    def restart(self) -> None:
        """Reset the averages to the current weights."""
        self.steps.assign(0)
        for average, weight in zip(self.averages, self._averaged, strict=True):
            average.assign(weight)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Replace the weights by their averages, and restore them afterwards."""
        weights = [weight.numpy() for weight in self._averaged]
        for average, weight in zip(self.averages, self._averaged, strict=True):
            weight.assign(average)
        try:
            yield
        finally:
            for weight, value in zip(self._averaged, weights, strict=True):
                weight.assign(value)
