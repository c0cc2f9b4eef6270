import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path

import pytest

from tests.support import tiny
from tests.support.packages import OPEN_MPI, needs
from tests.training.fake_s3 import Store
from tests.training.streams import feed
from training_container.contract.training_job import Folders

pytest_plugins = ["tests.support.file_order", "tests.support.lanes", "tests.support.skipped_tests"]
REPOSITORY = Path(__file__).resolve().parents[2]
# traingrid's default in grid.yaml. It is intended for GPUs, and must work on CPUs, too.
MPI_OPTIONS = "-mca btl_vader_single_copy_mechanism none -x NCCL_MIN_NRINGS=8 -x NCCL_LAUNCH_MODE=PARALLEL"
TINY = tiny.TINY | {"cache": "true"}
CONTROLLERS = [pytest.param("mpi", marks=needs(OPEN_MPI)), "gloo"]
"""The programs that start the ranks of the launcher mpi."""


@pytest.fixture(scope="session")
def campaigns(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the four campaigns of digits."""
    folder = tmp_path_factory.mktemp("campaigns")
    program = REPOSITORY / "examples" / "digits" / "write_campaigns.py"
    subprocess.run([sys.executable, program, folder], check=True, capture_output=True)
    return folder


@pytest.fixture
def host_folder(campaigns: Path) -> Callable[..., Path]:
    """A function that writes SageMaker's files to a host's /opt/ml."""

    def write(  # noqa: PLR0917  # each has a default, and tests name them
        base: Path,
        hyperparameters: Mapping[str, str] = TINY,
        processes: int = 2,
        options: str = MPI_OPTIONS,
        hosts: Sequence[str] = ("algo-1",),
        current_host: str = "algo-1",
    ) -> Path:
        launch = {
            "sagemaker_mpi_enabled": "true",
            "sagemaker_mpi_num_of_processes_per_host": str(processes),
            "sagemaker_mpi_custom_mpi_options": options,
        }
        config = base / "input" / "config"
        config.mkdir(parents=True)
        resources = {"current_host": current_host, "hosts": list(hosts), "network_interface_name": "eth0"}
        (config / "hyperparameters.json").write_text(json.dumps(launch | dict(hyperparameters)))
        (config / "resourceconfig.json").write_text(json.dumps(resources))
        (config / "inputdataconfig.json").write_text(json.dumps({"train": {}, "validation": {}}))
        (base / "input" / "data").mkdir()
        for channel in ("train", "validation"):
            (base / "input" / "data" / channel).symlink_to(campaigns / "campaign-1" / channel)
        return base

    return write


@pytest.fixture(params=CONTROLLERS)
def controller(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each program that starts the ranks of the launcher mpi; a test that does not use this runs with the default."""
    monkeypatch.setenv("HOROVOD_CONTROLLER", request.param)
    return str(request.param)


@pytest.fixture
def start() -> Iterator[Callable[..., "subprocess.Popen[str]"]]:
    """A function that starts `train` as SageMaker does: by name, in a clean environment. Killed after the test."""
    started: list[subprocess.Popen[str]] = []

    def run(base: Path, **environment: str) -> "subprocess.Popen[str]":
        inherited = {name: os.environ[name] for name in ("PATH", "HOROVOD_CONTROLLER") if name in os.environ}
        train = subprocess.Popen(
            [REPOSITORY / "training_container" / "train"],
            env=inherited | {"PYTHON": sys.executable, "SAGEMAKER_BASE_DIR": str(base)} | environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        started.append(train)
        return train

    yield run
    for train in started:
        train.kill()  # its ranks end with it
        train.communicate()


@pytest.fixture
def store() -> Iterator[Store]:
    store = Store()
    thread = threading.Thread(target=store.server.serve_forever, kwargs={"poll_interval": 0.05})
    thread.start()
    yield store
    store.server.shutdown()
    store.server.server_close()
    thread.join()


@pytest.fixture(scope="session")
def one_rank() -> None:
    """Make this process the only rank."""
    import horovod.tensorflow as hvd  # noqa: PLC0415  # takes seconds, and not every test needs it

    hvd.init()


@pytest.fixture
def job(tmp_path: Path) -> Callable[..., Folders]:
    """A job whose channels have these labels, in two files. Each image has one shade of grey: ten times its label."""
    import numpy as np  # noqa: PLC0415  # as above

    from examples.digits.write_campaigns import write  # noqa: PLC0415  # as above

    def make(**labels: list[int]) -> Folders:
        folders = Folders(base=tmp_path)
        folders.config.mkdir(parents=True)
        (folders.config / "inputdataconfig.json").write_text(json.dumps({name: {} for name in labels}))
        for name, values in labels.items():
            images = np.stack([np.full((8, 8, 1), 10 * label % 256, np.uint8) for label in values])
            write(folders.data / name, name, images, np.array(values), files=2)
        return folders

    return make


@pytest.fixture
def streamed(tmp_path: Path) -> Callable[..., Folders]:
    """A job whose channel `train` streams these bytes, one value per epoch."""

    def make(*epochs: bytes) -> Folders:
        folders = Folders(base=tmp_path)
        folders.config.mkdir(parents=True)
        folders.data.mkdir()
        (folders.config / "inputdataconfig.json").write_text('{"train": {"TrainingInputMode": "Pipe"}}')
        threading.Thread(target=feed, args=(folders.data, "train", epochs), daemon=True).start()
        return folders

    return make
