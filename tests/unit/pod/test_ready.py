"""Startup probe: `python -m traingrid.pod ready` succeeds once `results` handles SIGTERM."""

import os
import subprocess
import sys
import time
from pathlib import Path

from traingrid.pod.__main__ import READY

ROOT = Path(__file__).resolve().parents[3]


def program(command: str, folder: Path) -> "subprocess.Popen[bytes]":
    environment = {"PYTHONPATH": os.pathsep.join([str(ROOT), *(path for path in sys.path if path)])}
    environment |= {"SAGEMAKER_BASE_DIR": str(folder), "TRAINGRID_TERMINATION_LOG": str(folder / "message")}
    return subprocess.Popen([sys.executable, "-m", "traingrid.pod", command], env=environment)


def test_the_probe_succeeds_when_results_handles_sigterm(tmp_path: Path) -> None:
    assert program("ready", tmp_path).wait(120) == 1
    results = program("results", tmp_path)  # it ends with an error later, because there is no description of a job
    deadline = time.monotonic() + 60
    while not (tmp_path / READY.name).exists() and time.monotonic() < deadline:
        time.sleep(0.001)
    results.terminate()  # while it imports its libraries
    assert program("ready", tmp_path).wait(120) == 0
    assert results.wait(120) == 1, "not 143: its own error, not the signal"
    assert (tmp_path / "message").read_text()
