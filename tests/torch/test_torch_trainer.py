"""The trainer for PyTorch on real ranks: its numbers, its stops, and the networks that it exports and begins with."""

import json
import re
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch

from tests.torch.image_records import digits, write_channel
from tests.torch.reference_recipe import Reference
from tests.torch.torch_hosts import TorchHosts
from training_container.recipe.config import TORCH, Config
from training_container.torch_trainer.networks import Classifier

TINY = {
    "model": "resnet8", "classes": "10", "first_label": "0", "image_size": "8", "batch_size": "8", "epochs": "3",
    "learning_rate": "0.02", "augmentation": "affine", "precision": "float32", "workers": "2",
}  # fmt: skip
EXACT = ("train_loss", "learning_rate", "validation_loss", "validation_top1", "validation_top5")
ONE_HOST = ("127.0.0.1",)


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    write_channel(folder / "train", *digits(0, 160))
    write_channel(folder / "validation", *digits(1000, 90))
    return folder


@pytest.fixture
def trained(tmp_path: Path, data: Path) -> Callable[..., TorchHosts]:
    """A function that trains on one host, with the hyperparameters of TINY and others."""

    def train(
        name: str = "ml", statuses: int = 0, ranks: int = 2, channels: Path = data, **settings: str
    ) -> TorchHosts:
        hosts = TorchHosts(folder=tmp_path / name, data=channels, hyperparameters=TINY | settings, source=None)
        hosts.start(ONE_HOST, ranks)
        try:
            assert hosts.wait() == [statuses], hosts.log(1)
        finally:
            hosts.kill()
        return hosts

    return train


def epochs(hosts: TorchHosts) -> dict[int, dict[str, str]]:
    """Return the printed metrics of each epoch that interruptions must not change."""
    lines = [dict(re.findall(r"(\w+)=(\S+)", line)) for line in hosts.log(1).splitlines() if line.startswith("epoch=")]
    return {int(metrics["epoch"]): {name: metrics[name] for name in EXACT} for metrics in lines}


def weights(hosts: TorchHosts) -> dict[str, torch.Tensor]:
    state: dict[str, torch.Tensor] = torch.load(hosts.model / "model.pt", weights_only=True)
    return state


def archive(folder: Path, channel: Path) -> None:
    channel.mkdir(parents=True)
    with tarfile.open(channel / "model.tar.gz", "w:gz") as packed:
        for path in folder.iterdir():
            packed.add(path, path.name)


def network_of(settings: Mapping[str, str]) -> Classifier:
    torch.manual_seed(7)
    return Classifier(Config.from_hyperparameters(settings, TORCH))


def channels_with(model: Path, data: Path, folder: Path) -> Path:
    """Return a folder with the channels of `data`, and a model in the channel `model`."""
    archive(model, folder / "model")
    for channel in data.iterdir():
        (folder / channel.name).symlink_to(channel)
    return folder


def test_two_ranks_have_the_numbers_of_an_independent_implementation(
    trained: Callable[..., TorchHosts], data: Path, tmp_path: Path
) -> None:
    recipe = {
        "augmentation": "none", "shuffle_files": "false", "shuffle_records": "0", "workers": "1",
        "lr_schedule": "cosine", "warmup_epochs": "1", "accumulate_steps": "3", "ema": "0.9",
        "label_smoothing": "0.1", "weight_decay": "0.01", "learning_rate": "0.01", "batch_norm_momentum": "0.8",
    }  # fmt: skip
    start = network_of(TINY | recipe).network.state_dict()
    model = tmp_path / "start"
    model.mkdir()
    torch.save(start, model / "model.pt")
    report = {"framework": "PyTorch", "model": "resnet8", "classes": 10, "exported_epoch": 5}
    (model / "report.json").write_text(json.dumps(report))
    hosts = trained(channels=channels_with(model, data, tmp_path / "channels"), **recipe)
    assert "Beginning with the weights of the initial model, of epoch 5." in hosts.log(1)

    reference = Reference(
        ranks=2, batch=8, accumulated=3, epochs=3, warmup_epochs=1, rate=0.01, momentum=0.9, decay=0.01, smoothing=0.1,
        ema=0.9, norm_momentum=0.8,
    )  # fmt: skip
    expected, losses = reference.trained(start, *digits(0, 160))
    actual = weights(hosts)
    differences = {name: (actual[name].double() - value).abs().max().item() for name, value in expected.items()}
    assert max(differences.values()) < 1e-6, differences
    printed = [float(metrics["train_loss"]) for metrics in epochs(hosts).values()]
    assert printed == pytest.approx(losses, rel=1e-5)
