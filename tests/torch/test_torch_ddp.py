"""The example torch_ddp with PyTorch's own torchrun, Gloo and two hosts of two ranks, through kills and stops."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from examples.torch_ddp import compare_models
from tests.torch.torch_hosts import REPOSITORY, TorchHosts

EPOCHS = 6
SETTINGS = {"epochs": str(EPOCHS)}


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("digits")
    subprocess.run([sys.executable, REPOSITORY / "examples/torch_ddp/write_digits.py", folder], check=True)
    return folder


@pytest.fixture(scope="module")
def uninterrupted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TorchHosts]:
    hosts = TorchHosts(folder=tmp_path_factory.mktemp("uninterrupted"), data=data, hyperparameters=SETTINGS)
    hosts.start()
    try:
        assert hosts.wait() == [0, 0], hosts.log(1) + hosts.log(2)
        yield hosts
    finally:
        hosts.kill()


@pytest.fixture(scope="module")
def interrupted(data: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TorchHosts]:
    """Hosts of which the second was killed in the middle of the training."""
    hosts = TorchHosts(folder=tmp_path_factory.mktemp("interrupted"), data=data, hyperparameters=SETTINGS)
    hosts.start()
    try:
        wait_until(lambda: len(list(hosts.checkpoints.glob("checkpoint-*"))) >= 2, hosts)
        hosts.lose(2)
        hosts.wait()
        yield hosts
    finally:
        hosts.kill()


def wait_until(question: Callable[[], bool], hosts: TorchHosts, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not question():
        assert time.monotonic() < deadline, hosts.log(1)
        assert None in [train.poll() for train in hosts.trains.values()], hosts.log(1)
        time.sleep(0.05)


def results(hosts: TorchHosts) -> list[dict[str, float]]:
    found: list[dict[str, float]] = json.loads((hosts.model / "results.json").read_text())
    return found


def test_four_ranks_on_two_hosts_learn_the_digits(uninterrupted: TorchHosts) -> None:
    last = results(uninterrupted)[-1]
    assert last["epoch"] == EPOCHS
    assert last["validation_top1"] > 0.6
    assert last["train_loss"] < results(uninterrupted)[0]["train_loss"] / 1.5
    assert "ranks=4" in uninterrupted.log(1)


def test_a_killed_host_fails_the_job_on_the_other_host(interrupted: TorchHosts) -> None:
    assert interrupted.trains["127.0.0.1"].returncode == 1
    assert interrupted.failure(1).startswith("Host 127.0.0.2 ended without a report")
    assert not (interrupted.model / "model.pt").exists()


def test_a_job_that_was_killed_and_stopped_ends_with_the_numbers_of_an_uninterrupted_one(
    interrupted: TorchHosts, uninterrupted: TorchHosts, capsys: pytest.CaptureFixture[str]
) -> None:
    interrupted.start()
    before = max(int(path.name.split("-")[1]) for path in interrupted.checkpoints.glob("checkpoint-*"))
    wait_until(lambda: f"epoch={before + 1} " in interrupted.log(1), interrupted)
    time.sleep(0.3)  # so that the stop comes in the middle of an epoch
    for train in interrupted.trains.values():
        train.terminate()
    assert interrupted.wait() == [143, 143], interrupted.log(1) + interrupted.log(2)
    assert "Resuming from checkpoint-" in interrupted.log(1)
    interrupted.start()
    assert interrupted.wait() == [0, 0], interrupted.log(1) + interrupted.log(2)
    assert compare_models.main(uninterrupted.model, interrupted.model) == 0, capsys.readouterr().out


def test_models_that_differ_by_more_than_a_millionth_are_reported(uninterrupted: TorchHosts, tmp_path: Path) -> None:
    weights = torch.load(uninterrupted.model / "model.pt", weights_only=True)
    weights["head.bias"][3] += 2e-6
    torch.save(weights, tmp_path / "model.pt")
    (tmp_path / "results.json").write_text((uninterrupted.model / "results.json").read_text())
    assert compare_models.main(uninterrupted.model, tmp_path) == 1


def test_results_that_differ_are_reported(uninterrupted: TorchHosts, tmp_path: Path) -> None:
    (tmp_path / "model.pt").write_bytes((uninterrupted.model / "model.pt").read_bytes())
    changed = results(uninterrupted)
    changed[1]["train_loss"] += 2e-6
    (tmp_path / "results.json").write_text(json.dumps(changed))
    assert compare_models.main(uninterrupted.model, tmp_path) == 1
    (tmp_path / "results.json").write_text(json.dumps(results(uninterrupted)[:-1]))
    assert compare_models.main(uninterrupted.model, tmp_path) == 1
