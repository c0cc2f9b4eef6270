"""A GPU host whose container sees no GPU: training fails before it causes costs."""

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import tensorflow as tf

from tests.training.conftest import MPI_OPTIONS, TINY
from training_container import __main__ as program
from training_container.contract.missing_gpus import refuse_missing_gpus
from training_container.contract.training_job import ContractError, Folders, TrainingJob, read_training_job
from training_container.trainer import cluster

HostFolder = Callable[..., Path]


@pytest.fixture
def on(host_folder: HostFolder, tmp_path: Path) -> Callable[..., TrainingJob]:
    """A function that returns the job as seen by a host of an instance type."""

    def read(instance_type: str, **hyperparameters: str) -> TrainingJob:
        base = host_folder(tmp_path / "ml", TINY | hyperparameters, options=MPI_OPTIONS)
        resources = base / "input/config/resourceconfig.json"
        resources.write_text(json.dumps({**json.loads(resources.read_text()), "current_instance_type": instance_type}))
        return read_training_job(Folders(base=base))

    return read


@pytest.fixture
def devices(tmp_path: Path) -> Path:
    """A folder that replaces /dev, without GPUs."""
    (tmp_path / "dev").mkdir()
    (tmp_path / "dev" / "nvidiactl").touch()
    return tmp_path / "dev"


def test_a_gpu_host_without_visible_gpus_is_refused_with_a_solution(
    on: Callable[..., TrainingJob], devices: Path
) -> None:
    with pytest.raises(ContractError) as caught:
        refuse_missing_gpus(on("ml.p4d.24xlarge"), {}, devices)
    message = str(caught.value)
    assert message.startswith("algo-1 is ml.p4d.24xlarge, which has GPUs, but the container sees none.")
    assert "NVIDIA_VISIBLE_DEVICES=all" in message
    assert "set the hyperparameter sagemaker_allow_cpu to true" in message
    assert len(message) < 1024, "SageMaker shows no more"


def test_a_visible_gpu_is_accepted(on: Callable[..., TrainingJob], devices: Path) -> None:
    (devices / "nvidia0").touch()
    refuse_missing_gpus(on("ml.p4d.24xlarge"), {}, devices)


def test_a_host_type_without_gpus_requires_none(on: Callable[..., TrainingJob], devices: Path) -> None:
    refuse_missing_gpus(on("ml.m5.large"), {}, devices)


def test_a_hyperparameter_allows_training_on_cpus(on: Callable[..., TrainingJob], devices: Path) -> None:
    refuse_missing_gpus(on("ml.g5.xlarge", sagemaker_allow_cpu="true"), {}, devices)


def test_an_image_for_cpus_allows_training_on_cpus(on: Callable[..., TrainingJob], devices: Path) -> None:
    refuse_missing_gpus(on("ml.g5.xlarge"), {"TRAINGRID_ALLOW_CPU": "1"}, devices)


def test_train_fails_with_the_reason_for_sagemaker(
    on: Callable[..., TrainingJob], monkeypatch: pytest.MonkeyPatch
) -> None:
    job = on("ml.p4d.24xlarge")
    monkeypatch.setenv("SAGEMAKER_BASE_DIR", str(job.folders.base))
    monkeypatch.setattr("training_container.contract.missing_gpus.gpu_count", lambda _: 0)
    monkeypatch.setattr("sys.argv", ["train"])
    monkeypatch.setattr(sys, "excepthook", sys.excepthook)
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO()))
    assert program.main() == 1
    assert "ml.p4d.24xlarge, which has GPUs" in (job.folders.output / "failure").read_text()


def test_a_rank_whose_tensorflow_finds_no_gpu_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda _: [])
    with pytest.raises(RuntimeError, match=r"The host has GPUs, but TensorFlow finds none: the image lacks CUDA"):
        cluster.use_own_device(may_use_cpu=False)
