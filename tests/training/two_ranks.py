"""Two ranks: runs a function of a test file on two real ranks. Tests call `on_two_ranks`; the ranks run this file."""

import importlib
import inspect
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from training_container.__main__ import launch_command
from training_container.contract.launch_options import LaunchOptions
from training_container.contract.training_job import Folders, TrainingJob
from training_container.launcher.command import rank_command
from training_container.ranks import rank_process

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 600  # only reached if ranks stall


def on_two_ranks(function: Callable[..., Any], folder: Path, *arguments: str) -> list[Any]:
    """Run a function of a module on two ranks of the launcher mpi, and return their results, converted to JSON.

    Args:
        function: A function that takes `arguments`. hvd.init() has been called before.
        folder: An empty folder for the results.
        arguments: The function's arguments.
    """
    environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_"))} | {
        "PYTHONPATH": str(REPOSITORY),
        "TF_CPP_MIN_LOG_LEVEL": "2",
        "OMP_NUM_THREADS": "1",
        "OMPI_MCA_mpi_yield_when_idle": "1",
        "TMPDIR": str(folder),
        "SAGEMAKER_BASE_DIR": str(folder / "none"),
    }
    # pytest imports test files without their package.
    module = ".".join(Path(inspect.getfile(function)).relative_to(REPOSITORY).with_suffix("").parts)
    program = [sys.executable, "-m", "tests.training.two_ranks", str(folder), module, function.__name__]
    ended = subprocess.run(
        [*launcher(environment), *program, *arguments],
        env=environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout + ended.stderr
    return [json.loads((folder / f"result-{rank}.json").read_text()) for rank in range(2)]


def launcher(environment: dict[str, str]) -> list[str]:
    """Return the command with which `train` starts two ranks, without the program of the ranks."""
    job = TrainingJob(
        folders=Folders(base=Path("/opt/ml")),
        hosts=("algo-1",),
        current_host="algo-1",
        network_interface="eth0",
        channels={},
        hyperparameters={},
        launch=LaunchOptions(processes_per_host=2),
    )
    return launch_command(job, environment)[: -len(rank_command(job))]


def main(folder: str, module: str, function: str, *arguments: str) -> None:
    """Run one of the ranks."""
    rank_process.begin()  # an error ends the process immediately: a regular exit would wait for the other rank
    from training_container.trainer import cluster  # noqa: PLC0415  # imports TensorFlow: seconds, only needed here

    rank = cluster.start().rank
    result = getattr(importlib.import_module(module), function)(*arguments)
    (Path(folder) / f"result-{rank}.json").write_text(json.dumps(result))


if __name__ == "__main__":
    main(*sys.argv[1:])
