"""Networks: averages weights, combines networks into an ensemble, and reads exported weights."""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf

from training_container.merge.outer_step import Weights
from training_container.merge.parts import MergeError
from training_container.merge.reports import Network
from training_container.recipe.config import Config
from training_container.trainer.data import augment
from training_container.trainer.models import build_model

# The name of a weight in the SavedModel that trainer/artifacts.py writes.
_STORED = "model_variables/{number}/.ATTRIBUTES/VARIABLE_VALUE"


def read_weights(network: Network, model: tf.keras.Model) -> Weights:
    """Return the exported weights of a network.

    Args:
        model: A model of its hyperparameters, whose variables have the expected shapes.

    Raises:
        MergeError: There is no exported network, or a weight has another shape or is not finite.
    """
    print(f"Reading the network of {network} ...")
    return read_variables(network.part.folder, str(network), model)


def read_variables(folder: Path, name: str, model: tf.keras.Model) -> Weights:
    """Return the exported weights in the folder of a model, as `read_weights` does.

    Args:
        name: The name of the network in errors.
    """
    try:
        reader = tf.train.load_checkpoint(str(folder / "1" / "variables" / "variables"))
        shapes = reader.get_variable_to_shape_map()
    except (tf.errors.OpError, ValueError) as error:
        raise MergeError(f"The network of {name} cannot be read: {error}.") from error
    weights = []
    for number, variable in enumerate(model.variables):
        key = _STORED.format(number=number)
        shape = shapes.get(key)
        expected = variable.shape.as_list()
        if shape != expected:
            raise MergeError(
                f"The weight {variable.name} of {name} has the shape {shape}, but a {model.name} of this "
                f"image has {expected}: models of different shapes cannot be merged."
            )
        weights.append(np.asarray(reader.get_tensor(key), np.float32))
        if not np.isfinite(weights[-1]).all():
            raise MergeError(f"The weight {variable.name} of {name} is not finite: its training diverged.")
    return weights


def recompute_statistics(
    model: tf.keras.Model, config: Config, batches: Iterable[tuple[tf.Tensor, tf.Tensor]], images: int
) -> int:
    """Replace the moving means and variances of batch norm by the means over batches of training images.

    The mean of other networks' statistics is not that of the averaged network, whose activations differ (Izmailov et
    al. 2018, arXiv:1803.05407, which recompute them after averaging, too).

    Args:
        model: The network. Its trainable weights stay as they are.
        config: The hyperparameters with which it was trained.
        batches: Batches of the training data: images [batch, size, size, 3] uint8, and labels.
        images: The number of images after which to end; the batches may have fewer.

    Returns:
        The number of images.
    """
    layers = [layer for layer in model.layers if isinstance(layer, tf.keras.layers.BatchNormalization)]
    momenta = [layer.momentum for layer in layers]
    statistics = [variable for layer in layers for variable in (layer.moving_mean, layer.moving_variance)]
    sums = [np.zeros(variable.shape, np.float64) for variable in statistics]
    for layer in layers:
        layer.momentum = 0.0  # so that the variables have the statistics of the last batch only
    images_read = 0
    forward = _forward(model, config)
    for number, (batch, _) in enumerate(batches):
        forward(batch, tf.constant([config.seed, number], tf.int64))
        size = int(batch.shape[0])
        images_read += size
        sums = [total + variable.numpy() * float(size) for total, variable in zip(sums, statistics, strict=True)]
        if images_read >= images:
            break
    if not images_read:
        raise MergeError("The channel 'train' has no images from which the statistics of batch norm can be computed.")
    for variable, total in zip(statistics, sums, strict=True):
        variable.assign((total / images_read).astype(np.float32))
    for layer, momentum in zip(layers, momenta, strict=True):
        layer.momentum = momentum
    return images_read


def _forward(model: tf.keras.Model, config: Config) -> tf.types.experimental.GenericFunction:
    """Return the forward pass of a training step, which updates the statistics of batch norm."""
    shape = [None, config.image_size, config.image_size, 3]

    @tf.function(autograph=False, input_signature=[tf.TensorSpec(shape, tf.uint8), tf.TensorSpec([2], tf.int64)])
    def forward(images: tf.Tensor, seed: tf.Tensor) -> tf.Tensor:
        if config.augmentation == "crop_and_flip":
            images = augment.mirror_half(images, seed)
        return model(tf.cast(images, tf.float32), training=True)

    return forward


class Ensemble(tf.keras.Model):
    """A network whose probabilities are the means of its members' probabilities.

    Like each member, it returns logits: the logarithms of its probabilities, whose softmax are the probabilities again.
    """

    def __init__(self, members: Sequence[tf.keras.Model]) -> None:
        super().__init__(name="ensemble")
        self.members = list(members)

    def call(self, images: tf.Tensor, training: bool = False) -> tf.Tensor:
        """Return the logits [batch, classes] of images [batch, size, size, 3] in 0..255."""
        logarithms = tf.stack([tf.nn.log_softmax(member(images, training=training)) for member in self.members])
        return tf.reduce_logsumexp(logarithms, axis=0) - tf.math.log(float(len(self.members)))


def models_of(networks: Sequence[Network]) -> Iterator[tf.keras.Model]:
    """Yield a model with the exported weights of each network."""
    for network in networks:
        model = build_model(network.config)
        assign(model, read_weights(network, model))
        yield model


def assign(model: tf.keras.Model, weights: Weights) -> None:
    """Assign the variables of a model."""
    for variable, value in zip(model.variables, weights, strict=True):
        variable.assign(value)
