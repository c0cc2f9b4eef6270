"""Optimizer: SGD with Nesterov momentum, one operation of TensorFlow for each weight."""

from collections.abc import Sequence

import tensorflow as tf


class NesterovMomentum(tf.Module):
    """SGD with Nesterov momentum, as tf.keras.optimizers.SGD computes it, with a fused operation.

    For each weight, Keras' optimizer runs eight operations, which a GPU starts one by one: ResNet-50 has 161 weights.
    Here it is one, ResourceApplyKerasMomentum
    (https://www.tensorflow.org/api_docs/python/tf/raw_ops/ResourceApplyKerasMomentum), which XLA compiles as well.

    Args:
        weights: The trainable variables.
        momentum: The share of its velocity that a weight keeps in each step.

    Attributes:
        learning_rate: The rate of the last step, scalar float32.
        velocities: The change of each weight in the last step.
    """

    def __init__(self, weights: Sequence[tf.Variable], momentum: float) -> None:
        super().__init__()
        self._weights, self._momentum = list(weights), momentum
        self.learning_rate = tf.Variable(0.0, trainable=False)
        self.velocities = [tf.Variable(tf.zeros_like(weight), trainable=False) for weight in weights]

    def apply(self, gradients: Sequence[tf.Tensor], scale: tf.Tensor | float = 1.0) -> None:
        """Change the weights. This is part of the training step.

        Args:
            gradients: The gradient of each weight, times `scale`.
            scale: The factor of the gradients. Dividing the rate by it saves a division for each gradient; it is a
                power of two (precision.py), so the result is the same.
        """
        rate = self.learning_rate / scale
        momentum = tf.constant(self._momentum)
        for weight, velocity, gradient in zip(self._weights, self.velocities, gradients, strict=True):
            tf.raw_ops.ResourceApplyKerasMomentum(
                var=weight.handle,
                accum=velocity.handle,
                lr=rate,
                grad=gradient,
                momentum=momentum,
                use_nesterov=True,
            )
