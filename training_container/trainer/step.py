"""Step: one training step of one rank: gradients of its batches, their average over all ranks, and the update."""

import contextlib
from collections.abc import Sequence
from functools import cached_property

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.recipe.config import Config
from training_container.recipe.timing import StepTimes
from training_container.trainer.averages import WeightAverages
from training_container.trainer.data import augment
from training_container.trainer.optimizer import NesterovMomentum
from training_container.trainer.precision import LossScale

Batch = tuple[tf.Tensor, tf.Tensor]


class Outcome:
    """The result of a step, which is the same on every rank. Reading it waits for the step to end on the device.

    Args:
        loss_and_stop: The mean of all ranks' losses, and of their flags to stop.
    """

    def __init__(self, loss_and_stop: tf.Tensor) -> None:
        self._loss_and_stop = loss_and_stop

    @property
    def loss(self) -> float:
        """The mean of all ranks' losses; not finite if any rank's loss is not."""
        return self._values[0]

    @property
    def stop(self) -> bool:
        """True if any rank was asked to stop: then the average of the flags is above zero."""
        return self._values[1] > 0

    @cached_property
    def _values(self) -> list[float]:
        values: list[float] = self._loss_and_stop.numpy().tolist()
        return values


class TrainStep:
    """The training step of a network, and the state that it changes in addition to the weights.

    Attributes:
        optimizer: SGD with Nesterov momentum.
        loss_scale: The scale of the loss if the network computes in float16; otherwise None.
        averages: The moving average of the weights and of the batch normalization statistics, or None.
        statistics: The variables that differ between ranks: moving means and variances, and their averages.
    """

    def __init__(self, model: tf.keras.Model, config: Config) -> None:
        self._model, self._config, self._weights = model, config, model.trainable_variables
        self._compression = hvd.Compression.fp16 if config.gradient_compression == "fp16" else hvd.Compression.none
        self._seed = augment.mixed_seed(config.seed, hvd.rank())
        self._batches = tf.Variable(0, dtype=tf.int64, trainable=False)
        self.optimizer = NesterovMomentum(self._weights, config.momentum)
        in_float16 = any(layer.compute_dtype == "float16" for layer in model.layers)
        self.loss_scale = LossScale() if in_float16 else None
        statistics = model.non_trainable_variables
        self.averages = WeightAverages(self._weights, statistics, config.ema) if config.ema else None
        self.statistics = list(statistics)
        if self.averages:
            self.statistics += self.averages.statistics
        accumulates = config.accumulate_steps > 1
        self._gradient_sums = [
            tf.Variable(tf.zeros_like(weight), trainable=False) for weight in self._weights * accumulates
        ]
        self._added_loss = tf.Variable(0.0, trainable=False)
        self._gradients = tf.function(self._gradients_of, autograph=False, jit_compile=config.xla or None)
        self._average = tf.function(self._average_over_ranks, autograph=False)
        self._update = tf.function(self._update_weights, autograph=False)
        self._add = tf.function(self._add_gradients, autograph=False)
        # Compiled as a whole, gradients are averaged while others are computed; compiled alone, only after all of them.
        # Horovod's operations for XLA exist on GPUs only (https://horovod.readthedocs.io/en/stable/xla.html).
        compiled = config.xla and bool(tf.config.list_logical_devices("GPU"))
        self._whole = tf.function(self._whole_step, autograph=False, jit_compile=compiled or None)
        self._has_run_in_parts = False

    def __call__(self, batches: Sequence[Batch], rate: float, stop: bool = False) -> Outcome:
        """Train on this rank's batches, with one update for all of them. All ranks take part.

        Args:
            batches: Images [batch, size, size, 3] uint8 and labels [batch]: `accumulate_steps` batches, or fewer at the
                end of an epoch. Every rank has the same number.
            stop: True if this rank was asked to stop. The other ranks receive it with the loss, without extra cost.
        """
        for images, labels in batches[:-1]:
            self._add(images, labels)
        return Outcome(self._whole(*batches[-1], *_numbers(len(batches), stop, rate)))

    def in_parts(self, batches: Sequence[Batch], rate: float, times: StepTimes, stop: bool = False) -> Outcome:
        """Run the same step with measurements: gradients are averaged after all are computed, not as soon as possible.

        Otherwise computation and communication overlap, and cannot be measured separately. The time of averaging
        includes waiting for the slowest rank.
        """
        count, stop_flag, learning_rate = _numbers(len(batches), stop, rate)
        if not self._has_run_in_parts:  # exclude the time in which TensorFlow builds the graph
            times, self._has_run_in_parts = StepTimes(), True
        with times.compute():
            for images, labels in batches[:-1]:
                self._add(images, labels)
            loss, gradients = self._gradients(*batches[-1])
            tf.test.experimental.sync_devices()
        with times.allreduce():
            outcome, gradients = self._average(loss, gradients, count, stop_flag)
            tf.test.experimental.sync_devices()
        with times.compute():
            self._update(gradients, learning_rate)
            tf.test.experimental.sync_devices()
        return Outcome(outcome)

    @property
    def tracked(self) -> dict[str, object]:
        """The objects that checkpoints contain, and that must be the same on all ranks at the start."""
        optional = {"averages": self.averages, "loss_scale": self.loss_scale}
        optional |= {"batches": self._batches if augment.crops(self._config) else None}
        entries = {name: entry for name, entry in optional.items() if entry is not None}
        return {"model": self._model, "optimizer": self.optimizer} | entries

    def averaged(self) -> contextlib.AbstractContextManager[None]:
        """Replace the weights by their moving averages, if enabled, and restore them afterwards."""
        return self.averages.in_place() if self.averages else contextlib.nullcontext()

    def _whole_step(
        self, images: tf.Tensor, labels: tf.Tensor, count: tf.Tensor, stop: tf.Tensor, rate: tf.Tensor
    ) -> tf.Tensor:
        loss, gradients = self._gradients(images, labels)
        outcome, gradients = self._average_over_ranks(loss, gradients, count, stop)
        self._update(gradients, rate)
        return outcome

    def _gradients_of(self, images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Return this rank's mean loss, and its gradients, which are scaled if the loss is.

        The images are mirrored, and converted from bytes to numbers, on the device.
        """
        if augment.crops(self._config):
            images = augment.mirror_half(images, tf.stack([self._seed, self._batches.assign_add(1)]))
        with tf.GradientTape() as tape:
            logits = self._model(tf.cast(images, tf.float32), training=True)
            targets = tf.one_hot(labels, self._config.classes)
            smoothing = self._config.label_smoothing
            loss = tf.reduce_mean(
                tf.keras.losses.categorical_crossentropy(targets, logits, from_logits=True, label_smoothing=smoothing)
            )
            scaled = loss * self.loss_scale.factor if self.loss_scale else loss
        return loss, tape.gradient(scaled, self._weights)

    def _add_gradients(self, images: tf.Tensor, labels: tf.Tensor) -> None:
        loss, gradients = self._gradients(images, labels)
        self._added_loss.assign_add(loss)
        for gradient_sum, gradient in zip(self._gradient_sums, gradients, strict=True):
            gradient_sum.assign_add(gradient)

    def _average_over_ranks(
        self, loss: tf.Tensor, gradients: Sequence[tf.Tensor], count: tf.Tensor, stop: tf.Tensor
    ) -> tuple[tf.Tensor, list[tf.Tensor]]:
        """Average over a step's batches on this rank, then over ranks: one allreduce for any number of batches."""
        if self._gradient_sums:
            loss = (loss + self._added_loss) / count
            gradients = [
                (new + gradient_sum) / count for new, gradient_sum in zip(gradients, self._gradient_sums, strict=True)
            ]
        # Horovod 4: each gradient is averaged over all ranks as soon as it is available. Loss and stop flag are
        # averaged, too: a loss that is not finite on one rank is not finite on any, so all end after the same step.
        gradients = [
            hvd.allreduce(gradient, name=f"gradient_{number}", compression=self._compression)
            for number, gradient in enumerate(gradients)
        ]
        return hvd.allreduce(tf.stack([loss, stop]), name="loss_and_stop"), gradients

    def _update_weights(self, gradients: Sequence[tf.Tensor], rate: tf.Tensor) -> None:
        self.optimizer.learning_rate.assign(rate)
        if scale := self.loss_scale:
            scale.update(gradients, lambda: self._apply(gradients, scale.factor))
        else:
            self._apply(gradients)
        for gradient_sum in (*self._gradient_sums, self._added_loss):
            gradient_sum.assign(tf.zeros_like(gradient_sum))

    def _apply(self, gradients: Sequence[tf.Tensor], scale: tf.Tensor | float = 1.0) -> None:
        # The gradient of an L2 penalty, only for kernels. Added here it is exact, and not transferred.
        decay = self._config.weight_decay * scale
        decayed = [
            gradient + decay * weight if self._config.weight_decay and is_decayed(weight) else gradient
            for gradient, weight in zip(gradients, self._weights, strict=True)
        ]
        self.optimizer.apply(decayed, scale)
        if self.averages:
            self.averages.update()


def is_decayed(weight: tf.Variable) -> bool:
    """Return True if weight decay applies: to kernels, but not to biases or to scales and offsets of norms."""
    return "kernel" in weight.name


def _numbers(count: int, stop: bool, rate: float) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
    """Return the arguments as tensors: TensorFlow would trace the step again for every new Python number."""
    return tf.constant(float(count)), tf.constant(float(stop)), tf.constant(float(rate))
