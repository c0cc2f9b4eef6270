"""The trainer for PyTorch on real ranks: its numbers, its stops, and the networks that it exports and begins with."""

import json
import re
import tarfile
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest
import torch
from sklearn.datasets import load_digits

from examples.torch_recipe.write_digits import grey, write_channel
from tests.torch.reference_recipe import Reference
from tests.torch.torch_hosts import TorchHosts
from training_container.contract.training_job import Folders
from training_container.recipe.config import TORCH, Config
from training_container.recipe.exported_model import InitialModelError
from training_container.torch_trainer.exports import begin_with_initial_model
from training_container.torch_trainer.networks import Classifier

TINY = {
    "model": "resnet8", "classes": "10", "first_label": "0", "image_size": "8", "batch_size": "8", "epochs": "3",
    "learning_rate": "0.02", "augmentation": "affine", "precision": "float32", "workers": "2",
}  # fmt: skip


def digits(first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images [count, 3, 8, 8] uint8, and their digits."""
    chosen, data = slice(first, first + count), load_digits()
    return grey(torch.tensor(data.data[chosen])), torch.tensor(data.target[chosen])


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


LONG = {
    "epochs": "4",
    "checkpoint_every_steps": "3",
    "checkpoint_every": "10",
    "progress_seconds": "0.000001",
    "ema": "0.9",
}


def follow_to_step(hosts: TorchHosts, step: int, seconds: float = 240) -> None:
    """Wait until the training has completed a step."""
    deadline = time.monotonic() + seconds
    while not any(int(done) >= step for done in re.findall(r"\bstep=(\d+)", hosts.log(1))):
        assert time.monotonic() < deadline, hosts.log(1)
        assert None in [train.poll() for train in hosts.trains.values()], hosts.log(1)
        time.sleep(0.02)


def equal(first: Mapping[str, torch.Tensor], second: Mapping[str, torch.Tensor]) -> bool:
    return first.keys() == second.keys() and all(torch.equal(value, second[name]) for name, value in first.items())


def test_a_training_that_loses_its_host_and_is_stopped_has_the_same_weights_to_the_last_bit(
    trained: Callable[..., TorchHosts], tmp_path: Path, data: Path
) -> None:
    undisturbed = trained("undisturbed", **LONG)
    hosts = TorchHosts(folder=tmp_path / "disturbed", data=data, hyperparameters=TINY | LONG, source=None)
    try:
        hosts.start(ONE_HOST)
        follow_to_step(hosts, 14)
        hosts.lose(1)
        hosts.wait()
        hosts.start(ONE_HOST)
        follow_to_step(hosts, 25)
        hosts.trains["127.0.0.1"].terminate()
        assert hosts.wait() == [143], hosts.log(1)
        (stopped,) = re.findall(r"Stopped after step (\d+); the checkpoint is written.", hosts.log(1))
        assert "Continuing after step" in hosts.log(1)
        hosts.start(ONE_HOST)
        assert hosts.wait() == [0], hosts.log(1)
    finally:
        hosts.kill()
    assert f"Continuing after step {stopped}, in epoch 3." in hosts.log(1)
    expected = epochs(undisturbed)
    assert epochs(hosts) == {epoch: expected[epoch] for epoch in epochs(hosts)}
    assert equal(weights(hosts), weights(undisturbed))


def test_another_number_of_ranks_continues_with_the_same_weights(
    trained: Callable[..., TorchHosts], data: Path
) -> None:
    hosts = trained(ema="0.9")
    of_two = weights(hosts)
    hosts.start(ONE_HOST, processes=1)
    assert hosts.wait() == [0], hosts.log(1)
    assert "epoch 3 is trained and is validated first. The checkpoint is of 2 ranks with 8 images each" in hosts.log(1)
    assert equal(weights(hosts), of_two)
    longer = TorchHosts(
        folder=hosts.folder, data=data, hyperparameters=TINY | {"epochs": "4", "ema": "0.9"}, source=None
    )
    longer.start(ONE_HOST, processes=1)
    assert longer.wait() == [0], longer.log(1)
    assert list(epochs(longer)) == [3, 4]
    assert not equal(weights(longer), of_two)


def test_the_exported_program_has_the_validated_accuracy(trained: Callable[..., TorchHosts]) -> None:
    hosts = trained(first_label="0", classes="10")
    report = json.loads((hosts.model / "report.json").read_text())
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PyTorch's own
        program = torch.export.load(hosts.model / "model.pt2").module()
    images, labels = digits(1000, 90)
    probabilities, classes = program(images.float())
    assert (classes == labels).double().mean().item() == pytest.approx(report["top1"])
    assert torch.allclose(probabilities.sum(1), torch.ones(90))
    network = network_of(TINY).network.eval()
    network.load_state_dict(weights(hosts))
    assert torch.allclose(network(images / 127.5 - 1).softmax(1), probabilities, atol=1e-6)
    assert (report["framework"], report["ranks"], report["training_images"]) == ("PyTorch", 2, 160)


def test_early_stopping_exports_the_best_epoch(trained: Callable[..., TorchHosts]) -> None:
    """With a rate of almost zero after the first epoch, later epochs are not better."""
    hosts = trained(epochs="6", early_stop_epochs="2", learning_rate="0.000001", warmup_epochs="0", seed="3")
    report = json.loads((hosts.model / "report.json").read_text())
    tops = {epoch: float(metrics["validation_top1"]) for epoch, metrics in epochs(hosts).items()}
    best = max(tops, key=lambda epoch: tops[epoch])
    assert report["epochs_trained"] == best + 2
    assert report["exported_epoch"] == best
    assert f"The network of epoch {best} is exported, because its top-1 is better" in hosts.log(1)
    assert report["top1"] == pytest.approx(tops[best], rel=1e-5)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"xla": "true"}, "Hyperparameter 'xla' is one of the trainer for TensorFlow, but this image has the trainer "),
        ({"sagemaker_torch_distributed_enabled": "false"}, "The launcher is mpi, which starts ranks of Horovod, but "),
        ({"first_label": "1"}, "Rank 0 on 127.0.0.1 failed: ImageRecordError: Channel train: a record has the label 0"),
        ({"learning_rate": "90"}, "Rank 0 on 127.0.0.1 failed: DivergedError: "),
    ],
)
def test_bad_input_is_refused_in_one_sentence(
    trained: Callable[..., TorchHosts], settings: dict[str, str], sentence: str
) -> None:
    hosts = trained(statuses=1, ranks=1, **settings)
    assert hosts.failure(1).startswith(sentence)
    assert not (hosts.model / "model.pt").exists()


@pytest.mark.parametrize(
    ("report", "sentence"),
    [
        ({"model": "resnet8", "classes": 10}, "The initial model was trained with TensorFlow, but this image has the "),
        ({"framework": "PyTorch", "model": "resnet8", "classes": 7}, "The initial model has 7 classes, but the "),
    ],
)
def test_another_initial_model_is_refused_in_one_sentence(
    tmp_path: Path, report: dict[str, object], sentence: str
) -> None:
    (tmp_path / "start").mkdir()
    (tmp_path / "start/report.json").write_text(json.dumps(report))
    archive(tmp_path / "start", tmp_path / "input/data/model")
    with pytest.raises(InitialModelError, match=sentence):
        begin_with_initial_model(network_of(TINY), Config.from_hyperparameters(TINY, TORCH), Folders(base=tmp_path))


def test_a_new_last_layer_keeps_its_random_weights(tmp_path: Path) -> None:
    start = network_of(TINY | {"classes": "7", "seed": "2"}).network.state_dict()
    (tmp_path / "start").mkdir()
    torch.save(start, tmp_path / "start/model.pt")
    report = {"framework": "PyTorch", "model": "resnet8", "classes": 7, "exported_epoch": 4}
    (tmp_path / "start/report.json").write_text(json.dumps(report))
    archive(tmp_path / "start", tmp_path / "input/data/model")
    torch.manual_seed(99)
    config = Config.from_hyperparameters(TINY | {"new_head": "true"}, TORCH)
    network = Classifier(config)
    before = {name: value.clone() for name, value in network.network.state_dict().items()}
    text = begin_with_initial_model(network, config, Folders(base=tmp_path))
    assert text.endswith("of epoch 4, with a new last layer.")
    for name, value in network.network.state_dict().items():
        assert torch.equal(value, (before if name.startswith("fc.") else start)[name])
