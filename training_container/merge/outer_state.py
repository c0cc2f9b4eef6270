"""Outer state: the common start of a round and the velocity of its outer step, beside the models of a merge.

The velocity is not in the model, which every Region of the next round downloads, but in output.tar.gz, which only the
next merge reads.
"""

from pathlib import Path

import numpy as np
import tensorflow as tf

from training_container import unpacking
from training_container.contract.training_job import Folders
from training_container.merge.networks import read_variables
from training_container.merge.options import MergeOptions
from training_container.merge.outer_step import Sums, Weights
from training_container.merge.parts import MergeError
from training_container.merge.reports import Network
from training_container.trainer.models import build_model
from training_container.trainer.weights import weights_digest

_START, _VELOCITY = "start.tar.gz", "velocity.tar.gz"
"""The names that traingrid/merge/line.py gives the archives."""
_FILE = "outer_velocity.npz"


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
    folder = _unpacked(channel / _START, network.part.folder.parent / "start")
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


def read_velocity(channel: Path, scratch: Path, options: MergeOptions) -> Weights | None:
    """Return the velocity of the round before; None in the first round.

    Raises:
        MergeError: It is missing.
    """
    if options.outer_round == 1:
        return None
    folder = _unpacked(channel / _VELOCITY, scratch / "velocity")
    if folder is None or not (folder / _FILE).is_file():
        raise MergeError(f"The channel has no velocity of round {options.outer_round - 1}. Restore its output.tar.gz.")
    with np.load(folder / _FILE, allow_pickle=False) as stored:
        return [stored[str(number)] for number in range(len(stored.files))]


def write_velocity(velocity: Sums, folders: Folders) -> None:
    """Write the velocity into the folder that SageMaker uploads as output.tar.gz."""
    target = folders.output / "data"
    target.mkdir(parents=True, exist_ok=True)
    np.savez(target / _FILE, **{str(number): value.astype(np.float32) for number, value in enumerate(velocity)})


def _unpacked(archive: Path, target: Path) -> Path | None:
    if not archive.is_file():
        return None
    try:
        unpacking.unpack(archive, target, unpacking.ArchiveLimits.of_disk(target.parent, "Set a larger volume_gb"))
    except (unpacking.ArchiveError, OSError) as error:
        raise MergeError(f"The archive {archive.name} cannot be unpacked: {error}.") from error
    return target
