"""`make bench-gpu`: measures the trainer on this machine's GPUs, and writes results/gpu.json.

    python3 -m bench.gpu [--ranks N] [--batch N] [--precision P] [--xla] [--rounds N] [--steps N]

It needs GPUs and the packages of the image's target `gpu`. Without --ranks it starts one rank for each GPU. All loops
run in the same processes and alternate, so figures of one run can be compared with each other. --on-cpu checks the
program without a GPU, and writes no file.
"""

import argparse
import json
import shutil
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from bench import results_file
from bench.gpu.settings import BARE, HOROVOD, LOOPS, PARTS, SYNTHETIC, TRAINER, Settings
from bench.machine import CHECKOUT
from bench.size import IS_TINY, size
from bench.training.machine import description
from bench.training.verdict import interval

NO_GPU = (
    "TensorFlow finds no GPU here. Run this on a machine with NVIDIA GPUs, in the image of the target gpu:\n"
    "    docker run --rm --gpus all --shm-size 8g -v $PWD:/traingrid -w /traingrid IMAGE python3 -m bench.gpu\n"
    "With --on-cpu the program runs on the CPU, which checks only that it works."
)
RATIOS = ((TRAINER, SYNTHETIC), (SYNTHETIC, BARE), (SYNTHETIC, HOROVOD))


def main() -> None:
    """Measure, print the figures, and write them."""
    arguments = parsed()
    gpus = 0 if arguments.on_cpu else visible_gpus()
    if not gpus and not arguments.on_cpu:
        sys.exit(NO_GPU)
    settings = Settings(
        batch=arguments.batch,
        image_size=arguments.image_size,
        model=arguments.model,
        precision=arguments.precision,
        xla=arguments.xla,
        rounds=arguments.rounds,
        steps=arguments.steps,
        on_cpu=arguments.on_cpu,
    )
    machine = description()
    figures = measured(settings, arguments.ranks or gpus or 1)
    print(report(figures, settings))
    if not arguments.on_cpu:
        results_file.write("gpu", {"settings": settings.__dict__, **summary(figures)}, figures, machine)


def parsed() -> argparse.Namespace:
    """Return the command's arguments."""
    parser = argparse.ArgumentParser(prog="python3 -m bench.gpu")
    parser.add_argument("--ranks", type=int, default=0, help="default: one for each GPU")
    parser.add_argument("--batch", type=int, default=size(256, 2), help="images per rank and step")
    parser.add_argument("--image-size", type=int, default=size(224, 32))
    parser.add_argument("--model", default=size("resnet50", "resnet8"), help="the trainer's network")
    parser.add_argument("--precision", default="auto")
    parser.add_argument("--xla", action="store_true", help="compile the trainer's and the bare step with XLA")
    parser.add_argument(
        "--rounds", type=int, default=size(6, 2), help="at least six for an interval with 95 %% confidence"
    )
    parser.add_argument("--steps", type=int, default=size(40, 1), help="steps of a block")
    parser.add_argument(
        "--on-cpu", action="store_true", default=IS_TINY, help="accept a machine without GPU, and write no file"
    )
    return parser.parse_args()


def visible_gpus() -> int:
    """Return the number of GPUs that TensorFlow finds, in a process that ends and frees them; 0 without TensorFlow."""
    program = "import tensorflow as tf; print(len(tf.config.list_physical_devices('GPU')))"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    return int(ended.stdout.split()[-1]) if ended.returncode == 0 else 0


def measured(settings: Settings, ranks: int) -> dict[str, Any]:
    """Return the figures of rank 0."""
    with tempfile.TemporaryDirectory(prefix="traingrid-gpu-") as work:
        command = [*launcher(ranks), sys.executable, "-m", "bench.gpu.rank", settings.text(), work]
        if status := subprocess.run(command, cwd=CHECKOUT, check=False).returncode:
            sys.exit(f"A rank failed with exit code {status}; its output is above.")
        return dict(json.loads(Path(work, "figures.json").read_text()))


def launcher(ranks: int) -> list[str]:
    """Return the command that starts a program once per rank, without the program: mpirun, otherwise Horovod's Gloo."""
    if shutil.which("mpirun"):
        return ["mpirun", "--allow-run-as-root", "--oversubscribe", "-np", str(ranks), "--bind-to", "none"]
    gloo = [sys.executable, "-m", "training_container.launcher.gloo", "--hosts", f"localhost:{ranks}"]
    return [*gloo, "--current-host", "localhost", "--"]


def summary(figures: dict[str, Any]) -> dict[str, Any]:
    """Return the medians, and the ratios with their intervals."""
    speeds = figures["images_per_second"]
    rows = []
    for one, two in RATIOS:
        found = interval([ours / theirs for ours, theirs in zip(speeds[one], speeds[two], strict=True)])
        ends = [round(found.low, 3), round(found.high, 3)]
        rows.append({"what": f"{one} to {two}", "median": round(found.median, 3), "interval": ends})
    medians = {name: round(statistics.median(values), 1) for name, values in speeds.items()}
    kept = {name: value for name, value in figures.items() if name != "images_per_second"}
    return {**kept, "images_per_second": medians, "ratios": rows}


def report(figures: dict[str, Any], settings: Settings) -> str:
    """Return the figures as text: loops, then the parts of a step with their share of its time."""
    found = summary(figures)
    lines = [f"{found['ranks']} rank(s) on {found['device']}, {settings.batch} images each, {found['precision']}", ""]
    lines.append(f"{'loop':62} images/s")
    lines += [f"{what:62} {found['images_per_second'][name]:8.1f}" for name, what in LOOPS.items()]
    lines += ["", f"{'ratio':62}   median   interval"]
    for row in found["ratios"]:
        low, high = row["interval"]
        lines.append(f"{row['what']:62} {row['median']:8.3f}   {low:.3f} to {high:.3f}")
    step = settings.batch * found["ranks"] / found["images_per_second"][TRAINER]
    lines += ["", f"{'part of the step, measured alone; in training they overlap':62}       ms   of a step"]
    for name, what in PARTS.items():
        lines.append(f"{what:62} {1000 * found['parts'][name]:8.2f}   {found['parts'][name] / step:6.1%}")
    lines.append(f"{'the whole step of the trainer with input':62} {1000 * step:8.2f}")
    if found["peak_memory_mib"]:
        lines += ["", f"Peak memory of the GPU of rank 0, all loops together: {found['peak_memory_mib']:,.0f} MiB"]
    return "\n".join(lines)


if __name__ == "__main__":
    main()
