"""A moving average of a network over training steps, which often validates better than the last weights."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import tensorflow as tf


class WeightAverages(tf.Module):  # type: ignore[misc]  # TensorFlow has no types
    """The averages of a network's variables.

    Of the weights every rank has the same, since every rank has the same weights. The statistics of norms go with them:
    they belong to the weights that they were measured with, and those of the last weights do not fit the averages
    (TensorFlow's EfficientNet averages both, in utils.py's get_ema_vars). They are each rank's own until they are
    averaged over ranks.

    Args:
        weights: the trainable variables.
        statistics: moving means and variances of batch normalization.
        decay: the share of the old average that stays at each step; in the first steps less does, min(decay,
            (1 + n) / (10 + n)) after n steps, so that the random initial weights are soon forgotten
            (tf.train.ExponentialMovingAverage's rule).
    """

    def __init__(self, weights: Sequence[tf.Variable], statistics: Sequence[tf.Variable], decay: float) -> None:
        super().__init__()
        self._weights, self._decay = [*weights, *statistics], decay
        self.steps = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.averages = [tf.Variable(weight, trainable=False) for weight in self._weights]
        self.statistics = self.averages[len(weights) :]

    def update(self) -> None:
        """Take the present weights in; runs inside the training step."""
        steps = tf.cast(self.steps.assign_add(1), tf.float32)
        part = 1.0 - tf.minimum(self._decay, (1.0 + steps) / (10.0 + steps))
        for average, weight in zip(self.averages, self._weights, strict=True):
            average.assign_add(tf.cast(part, average.dtype) * (weight - average))

    def restart(self) -> None:
        """Begin anew from the present weights."""
        self.steps.assign(0)
        for average, weight in zip(self.averages, self._weights, strict=True):
            average.assign(weight)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Put the averages where the weights are, and the weights back afterwards."""
        weights = [weight.numpy() for weight in self._weights]
        for average, weight in zip(self.averages, self._weights, strict=True):
            weight.assign(average)
        try:
            yield
        finally:
            for weight, value in zip(self._weights, weights, strict=True):
                weight.assign(value)
