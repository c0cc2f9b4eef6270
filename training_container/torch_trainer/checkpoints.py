"""Checkpoints: saves and restores a training, and the network of its best epoch, with the modules of scripts."""

from pathlib import Path

import torch
import torch.distributed as dist

from training_container.contract.training_job import Folders
from training_container.recipe.config import Config
from training_container.recipe.progress import Progress
from training_container.script_api import checkpoint_folders, torch_checkpoints
from training_container.torch_trainer.step import TorchStep

_BEST, _NETWORK = "best", "network.pt"


def save(folders: Folders, step: TorchStep, progress: Progress, config: Config) -> None:
    """Copy weights, optimizer and averages to the host's memory, and let a thread write them. All ranks take part."""
    state = {"progress": progress.to_json(), "rate": step.rate}
    torch_checkpoints.save(folders.checkpoints, progress.step, step.tensors(), keep=config.keep_checkpoints, **state)


def resume(folders: Folders, step: TorchStep) -> Progress | None:
    """Load the newest complete checkpoint on all ranks, and return its progress; None without one.

    Raises:
        ShardedCheckpointError: It is of another network or optimizer.
    """
    newest = torch_checkpoints.load(folders.checkpoints, step.tensors())
    if newest is None:
        return None
    step.rate = float(newest.state["rate"])
    return Progress.from_json(newest.state["progress"])


def save_best(folders: Folders, step: TorchStep, progress: Progress) -> None:
    """Save the network that an epoch would export, in place of that of an earlier epoch. Only rank 0 calls this."""

    def write(folder: Path) -> None:
        with step.averaged():
            torch.save(step.network.network.state_dict(), folder / _NETWORK)

    checkpoint_folders.save(folders.checkpoints / _BEST, progress.step, write, keep=1, progress=progress.to_json())


def restore_best(folders: Folders, step: TorchStep) -> Progress | None:
    """Load the network of the best epoch on all ranks, and return the epoch's progress; None if there is none."""
    best = checkpoint_folders.newest(folders.checkpoints / _BEST) if dist.get_rank() == 0 else None
    states: list[dict[str, float] | None] = [best.state["progress"] if best else None]
    dist.broadcast_object_list(states, src=0)
    if states[0] is None:
        return None
    if best:
        step.network.network.load_state_dict(torch.load(best.folder / _NETWORK, map_location="cpu", weights_only=True))
    for value in step.network.network.state_dict().values():
        dist.broadcast(value, src=0)
    if step.averages:
        step.averages.restart()
    return Progress.from_json(states[0])
