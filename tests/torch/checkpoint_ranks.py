"""Checkpoint ranks: real ranks with Gloo, each host with its own disk, that save and load sharded checkpoints.

Each rank is a process that is forked from one that has imported PyTorch, which takes seconds.
"""

import multiprocessing
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path

import torch._dynamo  # for the ranks, like those below
import torch.distributed.checkpoint.state_dict
import torch.distributed.fsdp
import torch.distributed.tensor  # noqa: F401  # they bind the same name

from tests.torch.torch_hosts import free_port
from training_container.script_api import torch_checkpoints  # noqa: F401  # for the ranks

_SECONDS = 120
_FORKING = multiprocessing.get_context("forkserver")
_FORKING.set_forkserver_preload(["pytest", __name__])

BEGIN = """
import os, signal, sys
from pathlib import Path
import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.tensor import Shard, distribute_tensor
from training_container.script_api import torch_checkpoints
from training_container.trainer.checkpoints import files
torch.set_num_threads(1)
folder, rank = Path(sys.argv[1]), int(os.environ["RANK"])
dist.init_process_group("gloo")
mesh = init_device_mesh("cpu", (dist.get_world_size(),))

def tensors(value, rows=8):
    sharded = distribute_tensor(torch.arange(rows * 3.0).reshape(rows, 3) + value, mesh, [Shard(0)])
    model = {"sharded": sharded, "same": torch.full((5,), float(value)), "empty": torch.empty(0)}
    return {"model": model, "rate": value}

def save(step, value=None, **arguments):
    return torch_checkpoints.save(folder, step, tensors(step if value is None else value), epoch=step, **arguments)
"""
END = """
torch_checkpoints.finish()
dist.barrier()
dist.destroy_process_group()
"""


@dataclass(frozen=True, kw_only=True)
class Ended:
    """The exit status and the output of a rank."""

    status: int
    output: str


def disk(parent: Path, host: int) -> Path:
    """Return the folder of checkpoints on a host's own disk."""
    return parent / f"host-{host}"


def run(parent: Path, program: str, hosts: int = 2, on_each: int = 1, *, end: str = END) -> list[Ended]:
    """Run a program in all ranks, and return their ends by rank."""
    port = free_port()
    processes: list[ForkServerProcess] = []
    outputs = [parent / f"output-{rank}" for rank in range(hosts * on_each)]
    for rank, output in enumerate(outputs):
        folder = disk(parent, rank // on_each)
        folder.mkdir(parents=True, exist_ok=True)
        position = (rank, hosts * on_each, rank % on_each, on_each)
        names = ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE")
        environment = {name: str(value) for name, value in zip(names, position, strict=True)}
        environment |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "OMP_NUM_THREADS": "1"}
        processes.append(_FORKING.Process(target=_rank, args=(BEGIN + program + end, folder, environment, output)))
        processes[-1].start()
    try:
        for process in processes:
            process.join(_SECONDS)
        statuses = [process.exitcode for process in processes]
    finally:
        for process in processes:
            process.kill()
            process.join()
    texts = [output.read_text() for output in outputs]
    assert None not in statuses, f"ranks still run after {_SECONDS} s: {statuses}\n" + "\n".join(texts)
    return [Ended(status=status or 0, output=text) for status, text in zip(statuses, texts, strict=True)]


def _rank(program: str, folder: Path, environment: Mapping[str, str], output: Path) -> None:
    """Run a program in this process, as `python -c` does with the folder as argument."""
    with output.open("wb") as file:
        for stream in (1, 2):
            os.dup2(file.fileno(), stream)
    os.environ.update(environment)
    sys.argv = ["-c", str(folder)]
    exec(program, {"__name__": "__main__"})  # the test's own program


def succeeded(ends: Sequence[Ended]) -> str:
    """Return the output of rank 0, after checking that all ranks have succeeded."""
    assert [end.status for end in ends] == [0] * len(ends), "\n".join(end.output for end in ends)
    return ends[0].output


def restored_from_s3(parent: Path, hosts: int = 2) -> Path:
    """Return a new disk with the files of all hosts, as SageMaker restores them."""
    target = parent / "restored" / "host-0"
    shutil.rmtree(target, ignore_errors=True)
    for host in range(hosts):
        shutil.copytree(disk(parent, host), target, dirs_exist_ok=True)
    return target
