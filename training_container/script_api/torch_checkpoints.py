"""Torch checkpoints: sharded checkpoints of PyTorch, written by a thread of each rank, and read by any number of ranks.

Example:
    from torch.distributed.checkpoint.state_dict import get_state_dict, set_state_dict
    from trainer import ranks, torch_checkpoints

    folder = ranks.current().folders.checkpoints
    def tensors():
        return dict(zip(("model", "optimizer"), get_state_dict(model, optimizer)))

    newest = torch_checkpoints.load(folder, restored := tensors())
    if newest:
        set_state_dict(model, optimizer, model_state_dict=restored["model"], optim_state_dict=restored["optimizer"])
    ...
    torch_checkpoints.save(folder, step, tensors(), epoch=epoch + 1)
    ...
    torch_checkpoints.finish()          # before torch.distributed.destroy_process_group()

All ranks call each function together. torch.distributed.checkpoint (DCP) writes a file of each rank's share, and
`.metadata`, with which another number of ranks can read them. Hosts may share the folder, or copy their own to one
prefix of S3, as on SageMaker. state.json of rank 0 names the files of all ranks with their sizes and checksums, so a
checkpoint without the files of a host is incomplete, like any other one (trainer/checkpoints/files.py).

The thread uses its own process group of Gloo, as PyTorch recommends for asynchronous checkpoints
(https://docs.pytorch.org/tutorials/recipes/distributed_async_checkpoint_recipe.html).
"""

import functools
import json
import os
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any, TypeVar

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.default_planner import DefaultLoadPlanner
from torch.distributed.checkpoint.planner import LoadPlan
from torch.distributed.checkpoint.staging import DefaultStager, StagingOptions

from training_container.contract.rank_variables import position
from training_container.script_api.checkpoint_folders import Found
from training_container.trainer.checkpoints import background, files

_Result = TypeVar("_Result")
_METADATA = ".metadata"
_MAX_CAUSE_LENGTH = 300
_SLOWEST_RANK = timedelta(hours=1)
"""The time in which all ranks have written their files."""

_groups: weakref.WeakSet[Any] = weakref.WeakSet()
"""The process group of checkpoints. Gloo aborts a process that refers to a group after destroy_process_group."""

_complete: dict[Path, list[Path]] = {}
"""The checkpoints of each folder that this process knows to be complete on all hosts, oldest first."""


class ShardedCheckpointError(RuntimeError):
    """A checkpoint cannot be written or loaded. It is raised on every rank."""


def save(parent: str | Path, step: int, tensors: Mapping[str, Any], *, keep: int = 3, **state: Any) -> Path:
    """Copy this rank's tensors to host memory, and let a thread write them. Return the folder, which appears later.

    Args:
        parent: The folder of the checkpoints: /opt/ml/checkpoints, or a folder in it.
        step: The step, for the folder's name.
        tensors: State dicts by name, whose sharded tensors are DTensors.
        keep: The number of complete checkpoints to keep, in addition to the one that is written. Incomplete ones that
            are older are deleted.
        state: Values for JSON, such as the epoch; the same on all ranks.

    Raises:
        ShardedCheckpointError: The ranks disagree about the checkpoint, one of them cannot copy its tensors, or the
            previous one could not be written. Earlier ones have not changed.
    """
    parent, copied = Path(parent), {}

    def begin() -> tuple[int, str]:
        proposal = _proposal(parent, step, state)
        copied.update(_stager().stage(dict(tensors)))
        return proposal

    proposals = _on_each_rank("A checkpoint cannot begin", begin)
    for rank, (_, step_and_state) in enumerate(proposals):
        if step_and_state != proposals[0][1]:
            raise ShardedCheckpointError(
                f"Ranks disagree about a checkpoint: rank 0 saves {proposals[0][1]}, but rank {rank} saves "
                f"{step_and_state}. All ranks must save the same step and state together."
            )
    writing = files.writing_folder(parent, max(number for number, _ in proposals), step)
    background.start(lambda: _write(writing, copied, {"step": step, "state": state}, keep))
    return files.final(writing)


def finish() -> None:
    """Wait until the last checkpoint is written.

    Raises:
        ShardedCheckpointError: It could not be written.
    """
    background.finish()


def load(parent: str | Path, tensors: dict[str, Any]) -> Found | None:
    """Load the newest complete checkpoint into tensors, after verifying every byte. Return None if there is none.

    Incomplete ones, which SageMaker may restore after an interruption, are reported in the log of rank 0 and skipped.

    Args:
        parent: The folder of the checkpoints.
        tensors: State dicts by name, as for `save`, perhaps of another number of ranks. Their tensors are overwritten,
            and their other values are replaced.

    Raises:
        ShardedCheckpointError: The newest complete checkpoint is of other tensors. Nothing is overwritten.
    """
    finish()
    parent = Path(parent)
    names = _on_each_rank("Checkpoints cannot be listed", lambda: [path.name for path in files.folders(parent)])[0]
    for name in reversed(names):
        folder = parent / name
        try:
            content = _on_each_rank(f"Checkpoint {name} is skipped", functools.partial(_verified_state, folder), "")[0]
        except ShardedCheckpointError as error:
            if not position(os.environ).rank:
                print(error, flush=True)
            continue
        _load(folder, content, tensors)
        _complete[parent] = [folder]
        return Found(folder=folder, step=int(content["step"]), state=dict(content["state"]))
    return None


def _proposal(parent: Path, step: int, state: Mapping[str, Any]) -> tuple[int, str]:
    """Return the number of the next checkpoint in this host's folder, and words for its step and state."""
    background.finish()
    if not position(os.environ).local_rank:
        files.remove_unfinished(parent)
    return files.next_number(parent), f"step {step} with {json.dumps(state, sort_keys=True)}"


def _write(writing: Path, copied: dict[str, Any], content: Mapping[str, Any], keep: int) -> None:
    """Write a checkpoint together with the threads of all ranks.

    Older checkpoints are deleted before, and not after: by now all hosts have had time to copy the previous one to S3.
    """
    rank, _, local_rank, _ = position(os.environ)
    problem = f"The checkpoint of step {content['step']} could not be written to {writing.parent}"
    _on_each_rank(problem, lambda: None if local_rank else _remove_old(writing.parent, keep))
    with _in_one_sentence(problem):
        writer = dcp.FileSystemWriter(writing, sync_files=False)  # they are flushed below
        dcp.save(copied, storage_writer=writer, process_group=_group())
    listings = _on_each_rank(problem, lambda: files.flushed_files(writing, functools.partial(_is_of_rank, rank)))
    files_by_name = {name: entry for listing in listings for name, entry in listing.items()}
    _on_each_rank(problem, lambda: None if rank else files.write_state(writing, content, files_by_name))
    _on_each_rank(problem, lambda: None if local_rank else files.publish(writing))
    _complete.setdefault(writing.parent, []).append(files.final(writing))


def _is_of_rank(rank: int, name: str) -> bool:
    return name.startswith(f"__{rank}_") or (rank == 0 and name == _METADATA)


def _remove_old(parent: Path, keep: int) -> None:
    paths, complete = files.folders(parent), _complete.get(parent, [])
    if complete and complete[-1] in paths:
        files.remove_old(paths[: paths.index(complete[-1]) + 1], keep, complete)


def _verified_state(folder: Path) -> dict[str, Any]:
    """Return state.json, after this rank has verified its part of the files on its host."""
    _, _, local_rank, local_size = position(os.environ)
    content = files.read(folder, local_rank, local_size)
    return {"step": int(content["step"]), "state": dict(content["state"]), "files": content["files"]}


def _load(folder: Path, content: Mapping[str, Any], tensors: dict[str, Any]) -> None:
    if _METADATA not in content["files"]:
        raise ShardedCheckpointError(
            f"Checkpoint {folder} is not sharded. Use another folder for this job's checkpoints."
        )
    problem = f"Checkpoint {folder} does not match this job's model or optimizer"
    with _in_one_sentence(problem, "Train the checkpoint's model, or use another folder for this job's checkpoints."):
        dcp.load(tensors, checkpoint_id=folder, planner=_WholePlanner(), process_group=_group())


class _WholePlanner(DefaultLoadPlanner):
    """Refuses a checkpoint with more tensors than those of this job, which DCP ignores."""

    def create_global_plan(self, global_plan: list[LoadPlan]) -> list[LoadPlan]:
        loaded = {item.storage_index.fqn for plan in global_plan for item in plan.items}
        assert self.metadata is not None  # noqa: S101  # for the type checker
        stored_entries = self.metadata.state_dict_metadata.items()
        # No rank reads a tensor without elements.
        unread_names = [
            name for name, entry in stored_entries if name not in loaded and 0 not in getattr(entry, "size", ())
        ]
        if unread_names:
            raise ValueError(f"it also has {min(unread_names)}")
        return list(super().create_global_plan(global_plan))


def _on_each_rank(problem: str, run: Callable[[], _Result], next_step: str | None = None) -> list[_Result]:
    """Run a function on all ranks, and return their results by rank. If one fails, all raise ShardedCheckpointError."""
    group = _group()
    outcome: tuple[_Result | None, str] = (None, "")
    try:
        outcome = (run(), "")
    except ShardedCheckpointError as error:
        outcome = (None, str(error))
    except Exception as error:  # noqa: BLE001  # other ranks wait for this one
        outcome = (None, _sentences(problem, position(os.environ).rank, error, next_step))
    outcomes = [outcome]
    if group:
        outcomes *= dist.get_world_size()
        dist.all_gather_object(outcomes, outcome, group=group)
    if reasons := [reason for _, reason in outcomes if reason]:
        raise ShardedCheckpointError(reasons[0])
    return [result for result, _ in outcomes]  # type: ignore[misc]  # without a reason, there is a result


@contextmanager
def _in_one_sentence(problem: str, next_step: str | None = None) -> Iterator[None]:
    """Convert an error of DCP, which has the tracebacks of ranks."""
    try:
        yield
    except dcp.CheckpointException as error:
        rank, (first_error, _) = min(error.failures.items())
        raise ShardedCheckpointError(_sentences(problem, rank, first_error, next_step)) from error


def _sentences(problem: str, rank: int, error: Exception, next_step: str | None) -> str:
    """Return sentences about an error; without a next step, with that after an error of a write."""
    text = (error.strerror if isinstance(error, OSError) else None) or str(error).strip() or type(error).__name__
    cause = text.splitlines()[0].rstrip(".")[:_MAX_CAUSE_LENGTH]
    return f"{problem} (rank {rank}): {cause}. {files.step_after(error) if next_step is None else next_step}".rstrip()


def _group() -> Any:
    """Return the process group of checkpoints; None for a single process without one.

    Raises:
        ShardedCheckpointError: This is one of several ranks without a process group.
    """
    if not dist.is_initialized():
        if (size := position(os.environ).size) > 1:
            raise ShardedCheckpointError(
                f"torch_checkpoints needs a process group of all {size} ranks. Use it after "
                "torch.distributed.init_process_group, and call its finish before destroy_process_group."
            )
        return None
    if not _groups:
        _groups.add(dist.new_group(backend="gloo", timeout=_SLOWEST_RANK))
    return next(iter(_groups))


@functools.cache
def _stager() -> DefaultStager:
    """Return the copier of tensors, which uses the same memory for each checkpoint."""
    on_gpu = torch.cuda.is_available()
    return DefaultStager(
        StagingOptions(on_gpu, use_shared_memory=False, use_async_staging=False, use_non_blocking_copy=on_gpu)
    )
