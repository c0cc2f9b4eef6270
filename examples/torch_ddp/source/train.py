"""A vision transformer on handwritten digits with DistributedDataParallel, on any number of hosts and ranks.

    {"source": "source", "entry_point": "train.py", "launcher": "torchrun", "checkpoints": true, ...}

Comments mark the distributed parts. A training that is interrupted and resumed by as many ranks computes the same
numbers as one without an interruption: the order of images, their shifts and dropout only depend on the seed, the
epoch, the step and the rank.
"""

import argparse
import dataclasses
import hashlib
import json
import math
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from digits import order, read, shifted
from torch.nn.functional import cross_entropy
from torch.nn.parallel import DistributedDataParallel
from trainer import checkpoint_folders, metrics, ranks
from vit import VisionTransformer

STEPS_BETWEEN_STOP_CHECKS = 10  # a check is a small allreduce


@dataclasses.dataclass
class Progress:
    """The position in the training, which is a part of every checkpoint."""

    epoch: int = 0  # completed epochs
    seen: int = 0  # images of the current epoch that all ranks have trained on
    loss_sums: list[float] = dataclasses.field(default_factory=list)  # of the current epoch, by rank
    history: list[dict[str, float]] = dataclasses.field(default_factory=list)  # results of completed epochs


def hyperparameters() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--epochs", type=int, default=10)
    parser.add_argument("--batch_size", type=int, default=16, help="per rank")
    parser.add_argument("--learning_rate", type=float, default=0.001, help="per rank")
    parser.add_argument("--seed", type=int, default=20170717)
    return parser.parse_args()


def main() -> None:
    options, here = hyperparameters(), ranks.current()
    device = start(here)
    torch.manual_seed(options.seed)
    model = VisionTransformer().to(device)
    optimizer = torch.optim.AdamW(model.parameters(), weight_decay=0.05)
    progress = resume(here, model, optimizer)
    parallel = DistributedDataParallel(model)  # gradients are averaged over all ranks

    images, labels = read(Path(os.environ["SM_CHANNEL_TRAIN"]), device)
    validation = read(Path(os.environ["SM_CHANNEL_VALIDATION"]), device)
    together = here.size * options.batch_size
    steps = len(images) // together
    if not steps:
        raise ValueError(
            f"{len(images)} images are fewer than a step's {together}. Lower batch_size, or use fewer ranks."
        )
    # DDP rearranges gradients after the first backward pass of each process, which changes the order in which the ranks
    # are added, and the last digit of their sum. So the first pass is not a step of the training.
    parallel(shifted(images[: options.batch_size])).sum().backward()
    for epoch in range(progress.epoch, options.epochs):
        started, shuffled = time.monotonic(), order(len(images), options.seed, epoch).to(device)
        loss_sum = torch.tensor(sum(progress.loss_sums[here.rank :: here.size]), dtype=torch.float64, device=device)
        first = progress.seen // together  # not 0 if the training was stopped in this epoch
        for step in range(first, steps):
            if step % STEPS_BETWEEN_STOP_CHECKS == 0 and here.stop_requested():
                save(here, model, optimizer, dataclasses.replace(progress, seen=step * together), loss_sum)
                return
            set_learning_rate(optimizer, options, here.size, (epoch + step / steps) / options.epochs)
            # Each rank shifts and drops differently, and the same again after an interruption.
            torch.manual_seed(number_of(options.seed, epoch, step, here.rank))
            own = shuffled[step * together + here.rank :: here.size][: options.batch_size]  # this rank's share
            loss = cross_entropy(parallel(shifted(images[own])), labels[own])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            loss_sum += loss.detach()
        seconds = time.monotonic() - started
        results = {"epoch": epoch + 1} | evaluate(here, model, validation, loss_sum / steps)
        progress = Progress(epoch=epoch + 1, history=[*progress.history, results])
        save(here, model, optimizer, progress, torch.zeros_like(loss_sum))
        if here.is_main:
            rate = {"images_per_second": (steps - first) * together / seconds, "ranks": here.size}
            metrics.report(**results, **rate)
    if here.is_main:  # only rank 0 writes
        torch.save(model.state_dict(), here.folders.model / "model.pt")
        (here.folders.model / "results.json").write_text(json.dumps(progress.history, indent=2) + "\n")


def start(here: ranks.Ranks) -> torch.device:
    """Connect the ranks, and return the device of this one."""
    # cuBLAS is deterministic with a fixed workspace (https://docs.nvidia.com/cuda/cublas/, "Results reproducibility").
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.use_deterministic_algorithms(mode=True)
    gpus = torch.cuda.is_available()
    if gpus:
        torch.cuda.set_device(here.local_rank)
    # A rank that waits longer for another one fails.
    dist.init_process_group("nccl" if gpus else "gloo", timeout=timedelta(minutes=5))
    return torch.device("cuda", here.local_rank) if gpus else torch.device("cpu")


def resume(here: ranks.Ranks, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> Progress:
    """Load rank 0's newest complete checkpoint on all ranks, and return its progress."""
    content: list[tuple[dict[str, Any], dict[str, Any]] | None] = [None]
    if here.is_main and (found := checkpoint_folders.newest(here.folders.checkpoints)):
        content = [(torch.load(found.folder / "training.pt", map_location="cpu", weights_only=True), found.state)]
        print(f"Resuming from {found.folder.name}", flush=True)
    dist.broadcast_object_list(content, src=0)
    if content[0] is None:
        return Progress()
    tensors, state = content[0]
    model.load_state_dict(tensors["model"])
    optimizer.load_state_dict(tensors["optimizer"])
    return Progress(**state)


def save(
    here: ranks.Ranks,
    model: torch.nn.Module,
    optimizer: torch.optim.Optimizer,
    progress: Progress,
    loss_sum: torch.Tensor,
) -> None:
    """Write a checkpoint on rank 0; all ranks must call this together, because it contains the loss of each."""
    sums = [0.0] * here.size
    dist.all_gather_object(sums, loss_sum.item())
    if not here.is_main:
        return

    def write(folder: Path) -> None:
        torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, folder / "training.pt")

    state = dataclasses.asdict(dataclasses.replace(progress, loss_sums=sums))
    checkpoint_folders.save(here.folders.checkpoints, progress.epoch, write, **state)


def number_of(*position: int) -> int:
    """Return a seed for a position in the training."""
    return int.from_bytes(hashlib.sha256(str(position).encode()).digest()[:7])


def set_learning_rate(
    optimizer: torch.optim.Optimizer, options: argparse.Namespace, size: int, completed: float
) -> None:
    """Set the learning rate after a share of the training: linear warm-up in a tenth of it, then half a cosine."""
    factor = min(1.0, completed / 0.1) * 0.5 * (1 + math.cos(math.pi * completed))
    for group in optimizer.param_groups:
        group["lr"] = options.learning_rate * size * max(factor, 0.01)


@torch.no_grad()
def evaluate(
    here: ranks.Ranks, model: torch.nn.Module, validation: tuple[torch.Tensor, torch.Tensor], loss: torch.Tensor
) -> dict[str, float]:
    """Return the mean loss of an epoch, and the loss and accuracy on held-out images, over all ranks."""
    images, labels = (part[here.rank :: here.size] for part in validation)
    model.eval()
    logits = model(images.float() / 255).double()
    model.train()
    hits = (logits.argmax(dim=1) == labels).sum().double()
    sums = torch.stack([loss / here.size, cross_entropy(logits, labels, reduction="sum"), hits])
    dist.all_reduce(sums)  # of all ranks
    count = len(validation[0])
    return {
        "train_loss": sums[0].item(),
        "validation_loss": sums[1].item() / count,
        "validation_top1": sums[2].item() / count,
    }


if __name__ == "__main__":
    main()
    # A rank that ends while another one is still connected to it would make that one abort
    # (https://docs.pytorch.org/docs/stable/distributed.html, "Shutdown").
    dist.barrier()
    dist.destroy_process_group()
