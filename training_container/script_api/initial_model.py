"""Initial model: the files of the model with which a job with `init_from` begins.

Example:
    from trainer import initial_model

    folder = initial_model.folder()                         # None without init_from
    if folder:
        model.load_state_dict(torch.load(folder / "model.pt"))

SageMaker provides the model as the archive model.tar.gz in the channel `model` (SM_CHANNEL_MODEL). A job that finds its
own checkpoint continues from that instead: check for it first.
"""

import fcntl
import os
from pathlib import Path

from training_container.contract.training_job import ContractError, Folders
from training_container.unpacking import ArchiveError, ArchiveLimits, shown, unpack

CHANNEL = "model"
"""The name of the channel."""
ARCHIVE = "model.tar.gz"


def folder(folders: Folders | None = None) -> Path | None:
    """Return the folder with the files of the initial model; None if the job has no channel `model`.

    The archive is unpacked once on each host, by the first rank that calls this; the others wait.

    Args:
        folders: The folders of this host; by default /opt/ml, or $SAGEMAKER_BASE_DIR.

    Raises:
        ContractError: The channel has no model.tar.gz, or it cannot be unpacked.
    """
    folders = folders or Folders.from_environment(os.environ)
    channel = folders.data / CHANNEL
    if not channel.is_dir():
        return None
    archive = channel / ARCHIVE
    target = folders.base / "initial_model"
    if not archive.is_file():
        raise ContractError(f"The channel {CHANNEL} has no file {ARCHIVE}. Set init_from to a job with a model.")
    with (folders.base / ".initial_model.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not target.is_dir():
            _unpack(archive, target)
    return target


def _unpack(archive: Path, target: Path) -> None:
    """Unpack an archive; the target appears when it is complete."""
    try:
        left_out = unpack(archive, target, ArchiveLimits.of_disk(target.parent, "Set a larger volume_gb"))
    except (ArchiveError, OSError) as error:
        raise ContractError(f"The initial model {archive} cannot be unpacked: {error}.") from error
    if left_out:
        print(shown(left_out), flush=True)
