"""Device: this rank's GPU or processor, the number format in which it computes, and its connection to other ranks."""

import os
import shutil
from datetime import timedelta

import torch
import torch.distributed as dist

from training_container.contract.missing_gpus import may_use_cpu
from training_container.contract.training_job import TrainingJob
from training_container.recipe.config import Config, HyperparameterError, HyperparameterProblem
from training_container.recipe.processor import computes_in_bfloat16
from training_container.recipe.stall_limit import stall_limit
from training_container.script_api.ranks import Ranks

_UNLIMITED = timedelta(days=365)


def connected_device(job: TrainingJob, config: Config, place: Ranks) -> torch.device:
    """Connect the ranks, and return the device of this one.

    Raises:
        HyperparameterError: The image lacks a program that a hyperparameter requires.
        RuntimeError: The host has fewer GPUs than ranks, or GPUs that PyTorch cannot use.
    """
    device = own_device(job, place.local_rank)
    torch.set_num_threads(max(1, (os.cpu_count() or 1) // place.local_size))
    if config.torch_compile:
        require_compiler()
    backend = "nccl" if device.type == "cuda" else "gloo"
    dist.init_process_group(backend, timeout=timeout_of(job, config), device_id=device if backend == "nccl" else None)
    return device


def leave() -> None:
    """Leave the process group together: a rank that ends while another one is connected would make that one abort."""
    dist.barrier()
    dist.destroy_process_group()


def timeout_of(job: TrainingJob, config: Config) -> timedelta:
    """Return the time that ranks wait for each other."""
    return timedelta(seconds=stall_limit(job, config)) or _UNLIMITED


def own_device(job: TrainingJob, local_rank: int) -> torch.device:
    """Return this rank's GPU or, without GPUs, the processor.

    Raises:
        RuntimeError: The host has fewer GPUs than ranks, or GPUs that PyTorch cannot use.
    """
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    if count == 0 and may_use_cpu(job, os.environ):
        return torch.device("cpu")
    if local_rank >= count:
        raise RuntimeError(
            f"Local rank {local_rank} has no GPU: PyTorch finds {count} on the host. Start fewer processes, or check "
            "that NVIDIA's driver is new enough for the image's CUDA."
        )
    torch.cuda.set_device(local_rank)
    torch.backends.cudnn.benchmark = True
    return torch.device("cuda", local_rank)


def require_compiler() -> None:
    """Check that the host has the C compiler that torch.compile needs (torch/_inductor, triton/runtime/build.py).

    Raises:
        HyperparameterError: It has none.
    """
    if not os.environ.get("CC") and not any(map(shutil.which, ("cc", "gcc", "clang"))):
        reason = "is true, but torch.compile needs a C compiler, and the image has none"
        step = "Remove torch_compile, or add one to the image."
        raise HyperparameterError([HyperparameterProblem(name="torch_compile", reason=reason, next_step=step)])


def precision_of(config: Config, device: torch.device) -> torch.dtype:
    """Return the number format of the network's computations: bfloat16 where the device computes in it, for `auto`."""
    if config.precision == "auto":
        has_bfloat16 = torch.cuda.is_bf16_supported(False) if device.type == "cuda" else computes_in_bfloat16()
        return torch.bfloat16 if has_bfloat16 else torch.float32
    return torch.bfloat16 if config.precision == "mixed_bfloat16" else torch.float32
