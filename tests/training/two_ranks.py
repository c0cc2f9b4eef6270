"""Two ranks: runs functions of test files on two real ranks. Tests use `TwoRanks`; the ranks run this file."""

import importlib
import inspect
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from training_container.__main__ import launch_command
from training_container.contract.launch_options import LaunchOptions
from training_container.contract.training_job import Folders, TrainingJob
from training_container.launcher.command import rank_command
from training_container.ranks import rank_process

REPOSITORY = Path(__file__).resolve().parents[2]
PATIENCE_SECONDS = 600  # only reached if ranks stall
_POLL_SECONDS = 0.02


class TwoRanks:
    """Two ranks of the launcher mpi, which run one function after the other: their start takes seconds.

    Args:
        folder: An empty folder for calls, results and the ranks' output.
        controller: The program that starts the ranks: mpi or gloo.
    """

    def __init__(self, folder: Path, controller: str) -> None:
        self._folder, self._calls = folder, 0
        environment = {name: value for name, value in os.environ.items() if not name.startswith(("OMPI_", "PMIX_"))} | {
            "HOROVOD_CONTROLLER": controller,
            "PYTHONPATH": str(REPOSITORY),
            "TF_CPP_MIN_LOG_LEVEL": "2",
            "OMP_NUM_THREADS": "1",
            "OMPI_MCA_mpi_yield_when_idle": "1",
            "TMPDIR": str(folder),
            "SAGEMAKER_BASE_DIR": str(folder / "none"),
        }
        with (folder / "output").open("w") as output:
            self._process = subprocess.Popen(
                [*launcher(environment), sys.executable, "-m", "tests.training.two_ranks", str(folder)],
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
            )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _write(self._folder / f"call-{self._calls}.json", None)
        try:
            self._process.wait(PATIENCE_SECONDS)
        finally:
            self._process.kill()

    def run(self, function: Callable[..., Any], *arguments: str) -> list[Any]:
        """Run a function of a module on both ranks, after hvd.init(), and return their results, converted to JSON."""
        # pytest imports test files without their package.
        module = ".".join(Path(inspect.getfile(function)).relative_to(REPOSITORY).with_suffix("").parts)
        results = [self._folder / f"result-{self._calls}-{rank}.json" for rank in range(2)]
        _write(self._folder / f"call-{self._calls}.json", [module, function.__name__, *arguments])
        self._calls += 1
        deadline = time.monotonic() + PATIENCE_SECONDS
        while not all(result.exists() for result in results):
            assert self._process.poll() is None, (self._folder / "output").read_text()
            assert time.monotonic() < deadline, (self._folder / "output").read_text()
            time.sleep(_POLL_SECONDS)
        return [json.loads(result.read_text()) for result in results]


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


def main(folder: Path) -> None:
    """Run one of the ranks until a call has no function."""
    rank_process.begin()  # an error ends the process immediately: a regular exit would wait for the other rank
    from training_container.trainer import cluster  # noqa: PLC0415  # imports TensorFlow: seconds, only needed here

    rank, number = cluster.start().rank, 0
    while call := _read(folder / f"call-{number}.json"):
        module, function, *arguments = call
        result = getattr(importlib.import_module(module), function)(*arguments)
        _write(folder / f"result-{number}-{rank}.json", result)
        number += 1


def _write(file: Path, content: object) -> None:
    partial = file.with_suffix(".partial")
    partial.write_text(json.dumps(content))
    partial.rename(file)


def _read(file: Path) -> Any:
    """Read a file as soon as it exists."""
    while not file.exists():
        time.sleep(_POLL_SECONDS)
    return json.loads(file.read_text())


if __name__ == "__main__":
    main(Path(sys.argv[1]))
