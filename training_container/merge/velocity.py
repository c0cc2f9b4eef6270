"""Velocity: the velocity of the outer step, from the merge of one round to that of the next.

It is not in the model, which every Region of the next round downloads, but in output.tar.gz, which only the next merge
reads. This module does not import TensorFlow.
"""

from pathlib import Path

import numpy as np

from training_container import unpacking
from training_container.contract.training_job import Folders
from training_container.merge.options import MergeOptions
from training_container.merge.outer_step import Sums, Weights
from training_container.merge.parts import MergeError

_VELOCITY = "velocity.tar.gz"
"""The name that traingrid/merge/line.py gives the archive."""
_FILE = "outer_velocity.npz"


def read_velocity(channel: Path, scratch: Path, options: MergeOptions) -> Weights | None:
    """Return the velocity of the round before; None in the first round.

    Raises:
        MergeError: It is missing.
    """
    if options.outer_round == 1:
        return None
    folder = unpacked(channel / _VELOCITY, scratch / "velocity")
    if folder is None or not (folder / _FILE).is_file():
        raise MergeError(f"The channel has no velocity of round {options.outer_round - 1}. Restore its output.tar.gz.")
    with np.load(folder / _FILE, allow_pickle=False) as stored:
        return [stored[str(number)] for number in range(len(stored.files))]


def write_velocity(velocity: Sums, folders: Folders) -> None:
    """Write the velocity into the folder that SageMaker uploads as output.tar.gz."""
    target = folders.output / "data"
    target.mkdir(parents=True, exist_ok=True)
    np.savez(target / _FILE, **{str(number): value.astype(np.float32) for number, value in enumerate(velocity)})


def unpacked(archive: Path, target: Path) -> Path | None:
    """Return the folder of an unpacked archive; None if there is no archive.

    Raises:
        MergeError: It cannot be unpacked.
    """
    if not archive.is_file():
        return None
    try:
        unpacking.unpack(archive, target, unpacking.ArchiveLimits.of_disk(target.parent, "Set a larger volume_gb"))
    except (unpacking.ArchiveError, OSError) as error:
        raise MergeError(f"The archive {archive.name} cannot be unpacked: {error}.") from error
    return target
