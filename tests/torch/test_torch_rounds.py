"""Rounds of the example script with PyTorch: two Regions, each with other digits, train one model in two rounds."""

import json
import re
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import torch

from tests.torch.torch_hosts import REPOSITORY, TorchHosts

SOURCE = REPOSITORY / "examples/rounds/torch"
OUTER = {"merge_outer_learning_rate": "0.7", "merge_outer_momentum": "0.6", "merge_weight_by": "records"}


@pytest.fixture(scope="module")
def regions(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The data of two Regions: the digits 0 to 4, and 5 to 9; the validation data has all."""
    folder = tmp_path_factory.mktemp("digits")
    subprocess.run([sys.executable, REPOSITORY / "examples/torch_ddp/write_digits.py", folder], check=True)
    tensors = torch.load(folder / "train/digits.pt", weights_only=True)
    for region, selected in (("a", tensors["labels"] < 5), ("b", tensors["labels"] >= 5)):
        (folder / region / "train").mkdir(parents=True)
        part = {name: tensor[selected] for name, tensor in tensors.items()}
        torch.save(part, folder / region / "train/digits.pt")
        (folder / region / "validation").symlink_to(folder / "validation")
    return [folder / "a", folder / "b"]


def archived(folder: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    with tarfile.open(target, "w:gz") as archive:
        archive.add(folder, ".")


def trained(folder: Path, data: Path, start: Path | None) -> TorchHosts:
    """Train the script in a Region, on one rank, and return its host."""
    channels = folder / "data"
    channels.mkdir(parents=True)
    for name in ("train", "validation"):
        (channels / name).symlink_to(data / name)
    if start:
        archived(start, channels / "model/model.tar.gz")
    hosts = TorchHosts(folder=folder, data=channels, hyperparameters={"epochs": "2", "seed": "7"}, source=SOURCE)
    hosts.start(["127.0.0.1"], processes=1)
    try:
        assert hosts.wait() == [0], hosts.log(1)
    finally:
        hosts.kill()
    return hosts


def merged(folder: Path, models: list[Path], number: int, start: Path | None, velocity: Path | None) -> Path:
    """Merge models with the image's `train`, and return the folder of the job."""
    base, channel = folder / "merge", folder / "merge/input/data/models"
    for position, model in enumerate(models):
        archived(model, channel / f"part-{position:03d}-0a1b2c3d-{position}.tar.gz")
    if start and velocity:
        archived(start, channel / "start.tar.gz")
        archived(velocity, channel / "velocity.tar.gz")
    program = {"sagemaker_image_program": "merge", "sagemaker_launcher": "none", "merge_method": "weights"}
    options = {**program, **OUTER, "merge_count": str(len(models)), "merge_outer_round": str(number)}
    config = base / "input/config"
    config.mkdir(parents=True)
    (config / "hyperparameters.json").write_text(json.dumps(options))
    resources = {"current_host": "127.0.0.1", "hosts": ["127.0.0.1"], "network_interface_name": "lo"}
    (config / "resourceconfig.json").write_text(json.dumps(resources))
    (config / "inputdataconfig.json").write_text(json.dumps({"models": {}}))
    environment = {"PYTHON": sys.executable, "SAGEMAKER_BASE_DIR": str(base), "PATH": "/usr/bin:/bin"}
    command = [REPOSITORY / "training_container/train"]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
    assert f"Outer step {number}: learning rate 0.7, momentum 0.6." in run.stdout
    return base


def global_accuracy(hosts: TorchHosts) -> float:
    return float(re.findall(r"global_validation_top1=(\S+)", hosts.log(1))[0])


def test_two_rounds_learn_the_digits_of_both_regions(regions: list[Path], tmp_path: Path) -> None:
    first = [trained(tmp_path / f"1-{region.name}", region, None) for region in regions]
    merge = merged(tmp_path / "1", [hosts.model for hosts in first], 1, None, None)
    files = sorted(path.name for path in (merge / "model").iterdir())
    assert files == ["report.json", "weights.safetensors"]
    records = [part["weight"] for part in json.loads((merge / "model/report.json").read_text())["merged_from"]]
    assert records == [720, 717]
    second = [trained(tmp_path / f"2-{region.name}", region, merge / "model") for region in regions]
    local = [float(re.findall(r" validation_top1=(\S+)", hosts.log(1))[-1]) for hosts in first]
    after_one = {global_accuracy(hosts) for hosts in second}
    assert len(after_one) == 1  # both begin with the same weights
    models = [hosts.model for hosts in second]
    last = merged(tmp_path / "2", models, 2, merge / "model", merge / "output/data")
    third = trained(tmp_path / "3", regions[0], last / "model")
    assert global_accuracy(third) > max(after_one) > max(local)
    assert not (second[0].model / "start.safetensors").exists()


def test_another_network_is_refused_before_it_trains(regions: list[Path], tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    code = "from training_container import weights_file as w; import numpy, pathlib, sys;"
    code += "w.write(pathlib.Path(sys.argv[1]), w.WeightsFile({'other': w.Tensor.of(numpy.zeros(3))}))"
    subprocess.run([sys.executable, "-c", code, model / "weights.safetensors"], check=True, cwd=REPOSITORY)
    with pytest.raises(AssertionError, match=r"Only the script's network has the weight 1\.bias: it is another"):
        trained(tmp_path / "hosts", regions[0], model)


def test_the_library_of_the_format_reads_the_weights_and_writes_them(tmp_path: Path) -> None:
    code = """
import sys, torch
from pathlib import Path
from safetensors.torch import load_file, save_file
from training_container.contract.training_job import Folders
from training_container.script_api import round_weights
from training_container import weights_file
folders = Folders(base=Path(sys.argv[1]))
kinds = torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int64, torch.bool
weights = {str(kind): torch.arange(6).reshape(2, 3).to(kind) for kind in kinds}
started = round_weights.begin(weights, folders)
path = round_weights.save(started, records=3, folders=folders)
loaded = load_file(path)
assert all(torch.equal(loaded[name], value) and loaded[name].dtype == value.dtype for name, value in weights.items())
save_file(weights, folders.base / "theirs", metadata={"records": "3"})
theirs = weights_file.read(folders.base / "theirs")
assert weights_file.digest(theirs.tensors) == weights_file.digest(weights_file.read(path).tensors)
assert theirs.metadata == {"records": "3"}
"""
    subprocess.run([sys.executable, "-c", code, tmp_path], check=True, cwd=REPOSITORY)
