"""One training step of one rank: gradients of its batches, averaged over all ranks, and the update."""

from collections.abc import Sequence

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.trainer.averages import WeightAverages
from training_container.trainer.config import Config
from training_container.trainer.timing import StepTimes

Batch = tuple[tf.Tensor, tf.Tensor]
NEVER = -1


class TrainStep:
    """The training step of a network, and the state that it changes beside the weights.

    Attributes:
        optimizer: SGD with Nesterov momentum; it scales the loss where the network computes in float16.
        averages: the moving average of the weights, or None.
        loss_sum: the sum of the losses, averaged over ranks, since it was last set; in float64, see progress.py.
        diverged_at: the first step whose loss was not finite, the same on every rank, or NEVER.
    """

    def __init__(self, model: tf.keras.Model, config: Config) -> None:
        self._model, self._config, self._weights = model, config, model.trainable_variables
        self._compression = hvd.Compression.fp16 if config.gradient_compression == "fp16" else hvd.Compression.none
        # The learning rate is set at every step. XLA of the update alone is slower on processors.
        self.optimizer = tf.keras.optimizers.SGD(0.0, momentum=config.momentum, nesterov=True, jit_compile=False)
        self._scales_loss = any(layer.compute_dtype == "float16" for layer in model.layers)
        if self._scales_loss:
            self.optimizer = tf.keras.mixed_precision.LossScaleOptimizer(self.optimizer)
        self.optimizer.build(self._weights)
        self.averages = WeightAverages(self._weights, config.ema) if config.ema else None
        self.loss_sum = tf.Variable(0.0, dtype=tf.float64, trainable=False)
        self.diverged_at = tf.Variable(NEVER, dtype=tf.int64, trainable=False)
        accumulates = config.accumulate_steps > 1
        self._added = [tf.Variable(tf.zeros_like(weight), trainable=False) for weight in self._weights * accumulates]
        self._added_loss = tf.Variable(0.0, trainable=False)
        self._gradients = tf.function(self._gradients_of, autograph=False, jit_compile=config.xla or None)
        self._average = tf.function(self._average_over_ranks, autograph=False)
        self._update = tf.function(self._update_weights, autograph=False)
        self._add = tf.function(self._add_gradients, autograph=False)
        self._whole = tf.function(self._whole_step, autograph=False)

    def __call__(self, batches: Sequence[Batch], step: int, rate: float) -> None:
        """Train on this rank's batches, one update for all of them; all ranks take part.

        Args:
            batches: images [batch, size, size, 3] and labels [batch], as many as `accumulate_steps`, or fewer at the
                end of an epoch; the same number on every rank.
            step: the number of this step in the whole training.
            rate: the learning rate.
        """
        for images, labels in batches[:-1]:
            self._add(images, labels)
        images, labels = batches[-1]
        self._whole(images, labels, tf.constant(len(batches), tf.float32), _moment(step), tf.constant(rate))

    def in_parts(self, batches: Sequence[Batch], step: int, rate: float, times: StepTimes) -> None:
        """Do the same and measure: the gradients are averaged when all of them are there, not as they come.

        Without that order computation and communication overlap, and no clock can tell them apart. The time of the
        average is also that of waiting for the slowest rank.
        """
        with times.compute():
            for images, labels in batches[:-1]:
                self._add(images, labels)
            loss, gradients = self._gradients(*batches[-1])
            tf.test.experimental.sync_devices()
        with times.allreduce():
            loss, gradients = self._average(loss, gradients, tf.constant(len(batches), tf.float32))
            tf.test.experimental.sync_devices()
        with times.compute():
            self._update(loss, gradients, _moment(step), tf.constant(rate))
            tf.test.experimental.sync_devices()

    @property
    def tracked(self) -> dict[str, object]:
        """What a checkpoint holds, and what every rank must start with alike."""
        averages = {"averages": self.averages} if self.averages else {}
        return {"model": self._model, "optimizer": self.optimizer} | averages

    def _whole_step(
        self, images: tf.Tensor, labels: tf.Tensor, batches: tf.Tensor, step: tf.Tensor, rate: tf.Tensor
    ) -> None:
        loss, gradients = self._gradients(images, labels)
        loss, gradients = self._average_over_ranks(loss, gradients, batches)
        self._update_weights(loss, gradients, step, rate)

    def _gradients_of(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return this rank's mean loss and its gradients, scaled where the loss is."""
        with tf.GradientTape() as tape:
            logits = self._model(images, training=True)
            targets = tf.one_hot(labels, self._config.classes)
            smoothing = self._config.label_smoothing
            loss = tf.reduce_mean(
                tf.keras.losses.categorical_crossentropy(targets, logits, from_logits=True, label_smoothing=smoothing)
            )
            scaled = self.optimizer.get_scaled_loss(loss) if self._scales_loss else loss
        return loss, tape.gradient(scaled, self._weights)

    def _add_gradients(self, images: tf.Tensor, labels: tf.Tensor) -> None:
        loss, gradients = self._gradients(images, labels)
        self._added_loss.assign_add(loss)
        for added, gradient in zip(self._added, gradients, strict=True):
            added.assign_add(gradient)

    def _average_over_ranks(
        self, loss: tf.Tensor, gradients: Sequence[tf.Tensor], batches: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Average over a step's batches, here, and then over ranks: one allreduce however many batches there are."""
        if self._added:
            loss = (loss + self._added_loss) / batches
            gradients = [(new + added) / batches for new, added in zip(gradients, self._added, strict=True)]
        # Horovod's: gradients are averaged over all ranks, each as soon as it is there. So is the loss: a rank whose
        # loss is not a number makes it so for all, and all stop at the same step.
        gradients = [
            hvd.allreduce(gradient, name=f"gradient_{number}", compression=self._compression)
            for number, gradient in enumerate(gradients)
        ]
        return hvd.allreduce(loss, name="loss"), gradients

    def _update_weights(
        self, loss: tf.Tensor, gradients: Sequence[tf.Tensor], step: tf.Tensor, rate: tf.Tensor
    ) -> None:
        if self._scales_loss:
            gradients = self.optimizer.get_unscaled_gradients(gradients)
        # The gradient of an L2 penalty, for kernels alone. Added here it is exact, and neither scaled nor sent.
        decayed = [
            gradient + self._config.weight_decay * weight if is_decayed(weight) else gradient
            for gradient, weight in zip(gradients, self._weights, strict=True)
        ]
        self.optimizer.learning_rate.assign(rate)
        self.optimizer.apply_gradients(zip(decayed, self._weights, strict=True))
        if self.averages:
            self.averages.update()
        self.loss_sum.assign_add(tf.cast(loss, tf.float64))
        first = (self.diverged_at == NEVER) & ~tf.math.is_finite(loss)
        self.diverged_at.assign(tf.where(first, step, self.diverged_at))
        for added in (*self._added, self._added_loss):
            added.assign(tf.zeros_like(added))


def is_decayed(weight: tf.Variable) -> bool:
    """Return whether weight decay applies: to kernels, not to the scales and offsets of norms, nor to biases."""
    return "kernel" in weight.name


def _moment(step: int) -> tf.Tensor:
    return tf.constant(step, tf.int64)
