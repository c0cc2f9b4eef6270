"""Precision: selects the number format in which a network computes, and scales the loss of float16 networks."""

from collections.abc import Callable, Sequence
from pathlib import Path

import tensorflow as tf

from training_container.recipe.config import Config
from training_container.recipe.processor import CPUINFO, computes_in_bfloat16

# Source: Micikevicius et al. 2017 (arXiv:1710.03740), section 3.2, with the numbers of Keras' LossScaleOptimizer.
INITIAL, GROWTH_STEPS = 2.0**15, 2000


def policy(config: Config, processor: Path = CPUINFO) -> str:
    """Return Keras' name of the precision: the user's choice or, for `auto`, the fastest one that is safe here.

    GPUs use float16, with loss scaling because of its small range. CPUs use bfloat16, which has the range of float32,
    if they have instructions for it; ResNet-50 is then 1.8 times as fast (`make bench-training`).
    """
    if config.precision != "auto":
        return config.precision
    if tf.config.get_visible_devices("GPU"):
        return "mixed_float16"
    return "mixed_bfloat16" if computes_in_bfloat16(processor) else "float32"


class LossScale(tf.Module):
    """A factor for the loss that halves when a gradient overflows, and doubles after 2,000 steps without overflow.

    Keras' LossScaleOptimizer does the same, but does not expose its variables, which must be the same on all ranks at
    the start. Here gradients stay scaled until the update, after they are averaged, so that all ranks see the same
    overflow and keep the same factor.
    """

    def __init__(self) -> None:
        super().__init__()
        self.factor = tf.Variable(INITIAL, trainable=False)
        self.sound_steps = tf.Variable(0, dtype=tf.int64, trainable=False)

    def update(self, gradients: Sequence[tf.Tensor], apply: Callable[[], None]) -> None:
        """Call `apply` unless a gradient has overflowed, and adapt the factor. This is part of the training step.

        A sum of squares is finite only if all numbers are: one operation for each gradient. In float32 it overflows
        only above 1e19, which scaled gradients, sums of numbers below 65,504, do not reach.
        """
        sound = tf.math.is_finite(tf.add_n([tf.nn.l2_loss(gradient) for gradient in gradients]))
        tf.cond(sound, lambda: self._apply_update(apply), self._halve_factor)

    def _apply_update(self, apply: Callable[[], None]) -> tf.Tensor:
        apply()
        steps = self.sound_steps.assign_add(1)
        grows = steps >= GROWTH_STEPS
        self.sound_steps.assign(tf.where(grows, tf.zeros_like(steps), steps))
        return self.factor.assign(tf.where(grows, self.factor * 2.0, self.factor)).read_value()

    def _halve_factor(self) -> tf.Tensor:
        self.sound_steps.assign(0)
        return self.factor.assign(tf.maximum(self.factor / 2.0, 1.0)).read_value()
