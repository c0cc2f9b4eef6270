"""The script of the measurement's job: `train` starts it with torchrun, and it writes the model `figures.json`."""

import argparse
import json
import statistics
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from bench.gpu_torch.limits import limits
from bench.gpu_torch.loops import Loop, TraingridStep, loops, network, synchronize
from bench.gpu_torch.settings import RECORDS, SYNTHETIC, Settings
from bench.gpu_torch.sources import Synthetic
from bench.size import size
from training_container.script_api import checkpoint_folders, ranks, torch_checkpoints

WARM_UP_STEPS = size(10, 1)
CHECKPOINTS = size(5, 1)


def main(settings: Settings, started: float) -> None:
    """Measure all loops, parts and limits, and write the figures."""
    start = {"imports": time.time() - started}
    here = ranks.current()
    device = torch.device("cuda", here.local_rank) if torch.cuda.is_available() else torch.device("cpu")
    torch.backends.cudnn.benchmark = True
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=timedelta(minutes=5))
    step = TraingridStep(DistributedDataParallel(network(settings, device)), device, here)
    synthetic = Loop(step=step, source=Synthetic(settings, device))
    synthetic.seconds(1)
    start["first_step"] = time.time() - started
    measured = loops(settings, device, step)
    figures = {
        "start_seconds": start,
        "backend": dist.get_backend(),
        "peak_memory_mib": {name: warmed_up(loop) for name, loop in measured.items()},
        "images_per_second": images_per_second(measured, settings),
        "parts": {name: measured[name].parts(settings.steps) for name in (SYNTHETIC, RECORDS)},
        "checkpoint_seconds": checkpoint_seconds(here.folders.checkpoints, step),
        "limits": limits(settings, device),
    }
    (here.folders.model / "figures.json").write_text(json.dumps(figures))
    dist.destroy_process_group()


def warmed_up(loop: Loop) -> float:
    """Run the first steps of a loop, and return the peak of the GPU's memory during them in MiB; 0 without a GPU."""
    if not torch.cuda.is_available():
        loop.seconds(WARM_UP_STEPS)
        return 0.0
    torch.cuda.empty_cache()
    torch.cuda.reset_peak_memory_stats()
    loop.seconds(WARM_UP_STEPS)
    return float(torch.cuda.max_memory_allocated() / 2**20)


def images_per_second(measured: dict[str, Loop], settings: Settings) -> dict[str, list[float]]:
    """Return the images per second of each loop and round. The order of loops alternates."""
    speeds: dict[str, list[float]] = {name: [] for name in measured}
    for number in range(settings.rounds):
        for name in list(measured)[:: 1 if number % 2 == 0 else -1]:
            seconds = measured[name].seconds(settings.steps, epoch=number)
            speeds[name].append(settings.steps * settings.batch / seconds)
            print(f"round {number}, {name}: {speeds[name][-1]:.1f} images/s", flush=True)
    return speeds


def checkpoint_seconds(folder: Path, step: TraingridStep) -> dict[str, float]:
    """Return the seconds to write a checkpoint of network and optimizer, to verify and load it, and to copy it.

    The copy is that of `torch_checkpoints`, whose thread then writes it. The first one allocates memory.
    """

    def tensors() -> dict[str, Any]:
        return {"model": step.model.state_dict(), "optimizer": step.optimizer.state_dict()}

    def write(target: Path) -> None:
        torch.save(tensors(), target / "training.pt")

    times: dict[str, list[float]] = {"save": [], "load": [], "pause": []}
    for number in range(CHECKPOINTS):
        synchronize()
        began = time.perf_counter()
        checkpoint_folders.save(folder, number, write, epoch=number)
        saved = time.perf_counter()
        checkpoint = checkpoint_folders.newest(folder)
        if checkpoint is None:
            raise RuntimeError(f"{folder} has no complete checkpoint; the lines above have the reason.")
        torch.load(checkpoint.folder / "training.pt", map_location="cpu", weights_only=True)
        times["save"].append(saved - began)
        times["load"].append(time.perf_counter() - saved)
        synchronize()
        began = time.perf_counter()
        torch_checkpoints.save(folder / "sharded", number, tensors(), epoch=number)
        times["pause"].append(time.perf_counter() - began)
        torch_checkpoints.finish()
    return {name: statistics.median(values) for name, values in times.items()}


def arguments() -> tuple[Settings, float]:
    """Return the hyperparameters, which the launcher passes as arguments."""
    parser: Any = argparse.ArgumentParser()
    parser.add_argument("--settings", required=True)
    parser.add_argument("--started", type=float, required=True)
    parsed = parser.parse_args()
    return Settings.parsed(parsed.settings), parsed.started


if __name__ == "__main__":
    main(*arguments())
