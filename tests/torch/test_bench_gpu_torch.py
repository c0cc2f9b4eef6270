"""`python -m bench.gpu_torch` on a processor: the program that measures a GPU runs, and needs one otherwise."""

import os
import re
import subprocess
import sys
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[2]
SMALL = ("--batch", "2", "--image-size", "32", "--model", "squeezenet1_1", "--workers", "1", "--rounds", "1")


def bench_gpu_torch(*arguments: str) -> "subprocess.CompletedProcess[str]":
    command = [sys.executable, "-m", "bench.gpu_torch", *arguments]
    environment = {**os.environ, "TRAINGRID_BENCH_SIZE": "tiny" if arguments else "", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        command, cwd=REPOSITORY, env=environment, capture_output=True, text=True, timeout=600, check=False
    )


def test_each_loop_part_and_limit_is_measured() -> None:
    ended = bench_gpu_torch("--on-cpu", *SMALL)
    assert ended.returncode == 0, ended.stdout + ended.stderr
    for row in ("PyTorch alone", "the same with torch.compile", "the same with Distributed", "the same, JPEGs"):
        speeds = re.findall(rf"^{row}.* ([0-9.]+) +[0-9.]+ +[0-9.]+ to ", ended.stdout, re.MULTILINE)
        assert [float(speed) > 0 for speed in speeds] == [True]
    for words in ("host waits for a batch", "update the weights", "traingrid's records in one process", "A checkpoint"):
        assert words in ended.stdout


def test_without_a_gpu_the_command_names_the_place_to_run_it() -> None:
    ended = bench_gpu_torch()
    assert ended.returncode == 1
    assert "PyTorch finds no GPU here" in ended.stderr
    assert "make bench-gpu-torch" in ended.stderr
