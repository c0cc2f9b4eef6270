"""Validation: computes metrics on all ranks together, in which every image has the same weight."""

from collections.abc import Iterable, Sequence

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.recipe.config import Config

WeightedBatch = tuple[tf.Tensor, tf.Tensor, tf.Tensor]
TOP = 5


class Validation:
    """The loss, top-1 and top-5 of a network on the validation images of all ranks."""

    def __init__(self, model: tf.keras.Model, config: Config) -> None:
        self._model = model
        # With five or fewer classes, top-5 would always be 1.
        self._top = TOP if config.classes > TOP else None
        shape = [None, config.image_size, config.image_size, 3]
        signature = [tf.TensorSpec(shape, tf.uint8), tf.TensorSpec([None], tf.int64), tf.TensorSpec([None])]
        self._sums = tf.function(self._sums_of, autograph=False, input_signature=signature)

    def __call__(self, batches: Iterable[WeightedBatch]) -> dict[str, float]:
        """Return the metrics, which are the same on all ranks. All ranks must call it together.

        Args:
            batches: This rank's share: images [batch, size, size, 3] uint8, labels [batch], weights [batch]. Ranks may
                have different numbers of batches, because they synchronize only once, after their last batch.

        Raises:
            ValueError: No rank has an image.
        """
        sums = tf.zeros([4], tf.float64)
        for images, labels, weights in batches:
            sums += self._sums(images, labels, weights)
        loss, top1, top5, weight = hvd.allreduce(sums, op=hvd.Sum, name="validation").numpy().tolist()
        if weight == 0:
            raise ValueError(
                "The channel 'validation' has no records on any rank. Upload TFRecord files to its S3 prefix, or "
                "remove the channel to train without validation."
            )
        metrics = {"validation_loss": loss / weight, "validation_top1": top1 / weight}
        if self._top:
            metrics["validation_top5"] = top5 / weight
        return metrics

    def _sums_of(self, images: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
        """Return the weighted sums of loss, top-1 hits and top-5 hits, and the sum of weights."""
        logits = self._model(tf.cast(images, tf.float32), training=False)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels, logits)
        top1 = tf.cast(tf.argmax(logits, axis=-1) == labels, tf.float32)
        top5 = tf.cast(tf.math.in_top_k(labels, logits, self._top), tf.float32) if self._top else top1
        sums = [tf.reduce_sum(weights * values) for values in (losses, top1, top5, tf.ones_like(losses))]
        return tf.cast(tf.stack(sums), tf.float64)


def are_finite(variables: Iterable[tf.Variable]) -> bool:
    """Return True if all numbers in the variables are finite."""
    return all(bool(tf.reduce_all(tf.math.is_finite(variable))) for variable in variables if variable.dtype.is_floating)


def average_batch_norm_statistics(variables: Sequence[tf.Variable]) -> None:
    """Average the moving means and variances over ranks, so that all ranks validate the network that rank 0 exports.

    Training does not use them, and averaging commutes with their updates, so it may be done at any time.
    """
    if variables:
        averages = hvd.grouped_allreduce([variable.value() for variable in variables], name="batch_norm")
        for variable, average in zip(variables, averages, strict=True):
            variable.assign(average)
