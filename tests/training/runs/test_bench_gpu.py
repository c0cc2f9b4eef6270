"""`python -m bench.gpu` on a processor: the program that measures GPUs runs, and refuses a machine without one."""

import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[3]
SMALL = ("--ranks", "1", "--batch", "2", "--image-size", "32", "--model", "resnet8", "--rounds", "1", "--steps", "1")


def bench_gpu(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench.gpu", *arguments]
    return subprocess.run(command, cwd=REPOSITORY, capture_output=True, text=True, timeout=600, check=False)


def test_each_loop_and_each_part_of_a_step_is_measured() -> None:
    ended = bench_gpu("--on-cpu", *SMALL)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for loop in ("the trainer, JPEGs", "the trainer's step", "Keras' SGD", "Horovod's synthetic benchmark"):
        (speed,) = re.findall(rf"^{loop}.* ([0-9.]+)$", ended.stdout, re.MULTILINE)
        assert float(speed) > 0
    for part in ("prepare a batch", "copy a batch", "network, loss", "average over", "update the weights"):
        assert part in ended.stdout


def test_without_a_gpu_the_command_names_the_place_to_run_it() -> None:
    ended = bench_gpu()
    assert ended.returncode == 1
    assert "TensorFlow finds no GPU here" in ended.stderr
    assert "docker run" in ended.stderr
