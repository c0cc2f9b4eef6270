"""Torch hosts: hosts of a training job with torchrun, as processes of this machine."""

import contextlib
import json
import os
import random
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

REPOSITORY = Path(__file__).resolve().parents[2]
SOURCE = REPOSITORY / "examples/torch_ddp/source"
PROGRAMS = Path(sys.executable).parent


@dataclass(kw_only=True)
class TorchHosts:
    """Two hosts of two ranks, whose checkpoints are in one folder, as they are in S3.

    Attributes:
        folder: The folder of both hosts.
        data: The folder of the channels.
        hyperparameters: Those of the script or trainer.
        source: The folder of the script `train.py`; None for the image's trainer.
        trains: The running processes, by host; the names are addresses of this machine.
    """

    folder: Path
    data: Path
    hyperparameters: Mapping[str, str] = field(default_factory=dict)
    source: Path | None = SOURCE
    trains: dict[str, "subprocess.Popen[bytes]"] = field(default_factory=dict)

    @property
    def checkpoints(self) -> Path:
        return self.folder / "checkpoints"

    def start(self, hosts: Sequence[str] = ("127.0.0.1", "127.0.0.2"), processes: int = 2) -> None:
        """Start `train` on all hosts, as SageMaker does."""
        self.checkpoints.mkdir(parents=True, exist_ok=True)
        port = free_port()
        self.trains = {}
        for host in hosts:
            base = self._prepared(host, hosts, processes)
            environment = {"PYTHON": sys.executable, "SAGEMAKER_BASE_DIR": str(base), "MASTER_PORT": str(port)}
            environment |= {"PATH": f"{PROGRAMS}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
            with (base / "log").open("w") as log:
                self.trains[host] = subprocess.Popen(
                    [REPOSITORY / "training_container/train"],
                    env=environment,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                )

    def wait(self, seconds: float = 240) -> list[int]:
        """Wait for the end of all hosts, and return their exit statuses."""
        return [train.wait(seconds) for train in self.trains.values()]

    def log(self, number: int) -> str:
        return (self.folder / f"127.0.0.{number}" / "log").read_text()

    def failure(self, number: int) -> str:
        return (self.folder / f"127.0.0.{number}" / "output/failure").read_text()

    @property
    def model(self) -> Path:
        return self.folder / "127.0.0.1/model"

    def lose(self, number: int) -> None:
        """Kill all processes of a host at once, as if its machine had failed."""
        train = psutil.Process(self.trains[f"127.0.0.{number}"].pid)
        for process in [train, *train.children(recursive=True)]:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.kill()

    def kill(self) -> None:
        """Kill what still runs."""
        for train in self.trains.values():
            train.kill()  # its ranks end with it
            train.wait()

    def _prepared(self, host: str, hosts: Sequence[str], processes: int) -> Path:
        """Write SageMaker's files into a host's /opt/ml, and return it."""
        base = self.folder / host
        config = base / "input/config"
        config.mkdir(parents=True, exist_ok=True)
        launch = {
            "sagemaker_torch_distributed_enabled": "true",
            "sagemaker_mpi_num_of_processes_per_host": str(processes),
        }
        if self.source:
            launch |= {"sagemaker_program": "train.py", "sagemaker_submit_directory": str(self.source)}
        resources = {"current_host": host, "hosts": list(hosts), "network_interface_name": "lo"}
        (config / "hyperparameters.json").write_text(json.dumps(launch | dict(self.hyperparameters)))
        (config / "resourceconfig.json").write_text(json.dumps(resources))
        channels = sorted(path.name for path in self.data.iterdir())
        (config / "inputdataconfig.json").write_text(json.dumps({name: {} for name in channels}))
        if not (base / "input/data").exists():
            (base / "input/data").symlink_to(self.data)
            (base / "checkpoints").symlink_to(self.checkpoints)
            (base / "model").mkdir()
        return base


def free_port() -> int:
    """Return a port that is free, like the next one, and that the system does not give to connections."""
    while True:
        port = random.randrange(20_000, 32_000, 2)
        with contextlib.suppress(OSError), socket.create_server(("", port)), socket.create_server(("", port + 1)):
            return port
