"""`make bench-gpu-torch`: measures PyTorch with traingrid's modules on a GPU, and writes results/gpu-torch.json.

    python3 -m bench.gpu_torch [--batch N] [--model NAME] [--workers N] [--rounds N] [--steps N] [--commit HASH]

It needs an NVIDIA GPU, PyTorch, torchvision, psutil, nvidia-ml-py and google-crc32c, and takes about five minutes. It
starts a job of one rank as SageMaker does: `train` reads the job's files and starts torchrun. The loops alternate in
that rank, so figures of one run can be compared with each other. --on-cpu checks the program without a GPU, and writes
no file.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import torch

from bench import results_file
from bench.gpu_torch.channel import write_channel, write_job
from bench.gpu_torch.report import report
from bench.gpu_torch.settings import AIMS, BARE, LOOPS, Settings
from bench.machine import CHECKOUT
from bench.size import IS_TINY, size
from bench.training.machine import description
from bench.training.verdict import interval, verdict

VERSIONS = ("torch", "torchvision")
NO_GPU = (
    "PyTorch finds no GPU here. Run this on a machine with an NVIDIA GPU, with the Python of its PyTorch:\n"
    "    make bench-gpu-torch GPU_PYTHON=python3\n"
    "With --on-cpu the program runs on the CPU, which checks only that it works."
)


def main() -> None:
    """Measure, print the figures, and write them."""
    options = vars(parsed())
    commit = options.pop("commit")
    settings = Settings(**options)
    if not settings.on_cpu and not torch.cuda.is_available():
        sys.exit(NO_GPU)
    machine = {**description(VERSIONS), **device()}
    figures = measured(settings)
    summarized = summary(figures, settings)
    print(report(summarized, machine))
    if not settings.on_cpu:
        stated = {"commit": commit} if commit else {}
        results_file.write("gpu-torch", {**stated, **summarized}, figures, machine)


def parsed() -> argparse.Namespace:
    """Return the command's arguments."""
    parser = argparse.ArgumentParser(prog="python3 -m bench.gpu_torch")
    parser.add_argument("--batch", type=int, default=size(256, 2), help="images per step")
    parser.add_argument("--image-size", type=int, default=size(224, 32))
    parser.add_argument("--model", default=size("resnet50", "squeezenet1_1"), help="a network of torchvision")
    parser.add_argument("--workers", type=int, default=size(os.cpu_count() or 1, 1), help="default: the cores")
    parser.add_argument("--rounds", type=int, default=size(6, 1), help="at least six for 95 %% confidence")
    parser.add_argument(
        "--steps", type=int, default=size(48, 1), help="steps of a block: batches arrive in bursts of --workers"
    )
    parser.add_argument("--commit", default="", help="the commit of a copy whose git has another one, or none")
    parser.add_argument("--on-cpu", action="store_true", default=IS_TINY, help="accept CPUs, and write no file")
    return parser.parse_args()


def device() -> dict[str, Any]:
    """Return the GPU, its driver and PyTorch's CUDA; nothing without a GPU."""
    if not torch.cuda.is_available():
        return {}
    import pynvml  # noqa: PLC0415  # a machine without GPU may lack it

    pynvml.nvmlInit()
    cuda = {"cuda": torch.version.cuda, "cudnn": torch.backends.cudnn.version()}
    nccl = ".".join(map(str, torch.cuda.nccl.version()))
    return {"gpu": torch.cuda.get_device_name(), "driver": pynvml.nvmlSystemGetDriverVersion(), **cuda, "nccl": nccl}


def measured(settings: Settings) -> dict[str, Any]:
    """Run the job, and return its figures."""
    memory = "/dev/shm" if Path("/dev/shm").is_dir() else None  # noqa: S108  # the file system, not a fixed file
    with tempfile.TemporaryDirectory(prefix="traingrid-gpu-torch-", dir=memory) as folder:
        base = Path(folder)
        write_channel(base, settings)
        write_job(base, settings, started=time.time())
        path = f"{Path(sys.executable).parent}:{os.environ['PATH']}"  # torchrun's
        variables = {**os.environ, "SAGEMAKER_BASE_DIR": folder, "PYTHON": sys.executable, "PATH": path}
        status = subprocess.run([CHECKOUT / "training_container/train"], env=variables, check=False).returncode
        if status:
            sys.exit(f"The job failed with exit code {status}; its output is above.")
        return dict(json.loads((base / "model/figures.json").read_text()))


def summary(figures: dict[str, Any], settings: Settings) -> dict[str, Any]:
    """Return the settings, a row for each loop with its ratio to the bare one, and the other figures."""
    speeds = figures["images_per_second"]
    rows = []
    for name, speed in speeds.items():
        ratio = interval([ours / bare for ours, bare in zip(speed, speeds[BARE], strict=True)])
        row = {"name": name, "loop": LOOPS[name], "images_per_second": round(statistics.median(speed), 1)}
        row["range"] = [round(min(speed), 1), round(max(speed), 1)]
        row["to_bare"] = round(ratio.median, 3)
        row["interval"] = [round(ratio.low, 3), round(ratio.high, 3)]
        row["peak_memory_mib"] = round(figures["peak_memory_mib"][name])
        if name in AIMS:
            row |= {"aim": AIMS[name], "met": verdict(ratio, ">=", AIMS[name])}
        rows.append(row)
    rest = {name: figures[name] for name in ("backend", "parts", "limits", "start_seconds", "checkpoint_seconds")}
    return {"settings": settings.__dict__, "loops": rows, **rounded(rest)}


def rounded(value: Any) -> Any:
    """Return figures with three decimals, or none from 1,000 on."""
    if isinstance(value, dict):
        return {name: rounded(inner) for name, inner in value.items()}
    return round(value, 0 if value >= 1000 else 3) if isinstance(value, float) else value


if __name__ == "__main__":
    main()
