"""Outer state: the weights with which the trainings of a round began, beside the models of a merge."""

from pathlib import Path

import tensorflow as tf

from training_container.merge.networks import read_variables
from training_container.merge.outer_step import Weights
from training_container.merge.parts import MergeError
from training_container.merge.reports import Network
from training_container.merge.velocity import unpacked
from training_container.trainer.models import build_model
from training_container.trainer.weights import weights_digest

START = "start.tar.gz"
"""The name that traingrid/merge/line.py gives the archive."""


def start_weights(channel: Path, network: Network) -> Weights:
    """Return the weights with which the trainings of a round began.

    Args:
        channel: The folder of the channel with the models. In a first round without an initial model, it has no start,
            which is then computed again from the seed.
        network: One of the trained networks.

    Raises:
        MergeError: The trainings began with other weights than these.
    """
    # The trainer seeds Keras before it builds the network (trainer/loop.py).
    tf.keras.utils.set_random_seed(network.config.seed)
    model = build_model(network.config)
    folder = unpacked(channel / START, network.part.folder.parent / "start")
    if folder:
        for variable, value in zip(model.variables, read_variables(folder, "the common start", model), strict=True):
            variable.assign(value)
    if weights_digest(model.variables) != network.initial_weights:
        source = "the last global model" if folder else f"the seed {network.config.seed}"
        raise MergeError(
            f"The training of {network} did not begin with the weights of {source}, so that the outer step of this "
            "round cannot be computed. Train it again from the last global model."
        )
    return [variable.numpy() for variable in model.variables]
