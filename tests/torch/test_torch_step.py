"""The training step for PyTorch and its parts, on one rank; test_torch_trainer.py covers several ranks."""

import functools
import os
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
import torch
from torch.nn.functional import cross_entropy
from torchvision import models

from tests.torch.one_rank import one_rank
from training_container.contract.launch_options import LaunchOptions
from training_container.contract.stopping import StopRequestedError
from training_container.contract.training_job import Folders, TrainingJob
from training_container.recipe.config import TORCH, Config, HyperparameterError
from training_container.recipe.epoch_length import LockstepError
from training_container.recipe.timing import StepTimes
from training_container.script_api.ranks import Ranks
from training_container.torch_trainer import device
from training_container.torch_trainer.images import Batch
from training_container.torch_trainer.networks import Classifier, head_of
from training_container.torch_trainer.step import TorchStep, is_decayed
from training_container.torch_trainer.validation import validation_metrics

SMALL = {"model": "resnet8", "classes": "10", "image_size": "8", "precision": "float32", "label_smoothing": "0"}
CPU = torch.device("cpu")


@pytest.fixture(autouse=True, scope="module")
def _group() -> Iterator[None]:
    with one_rank():
        yield


def config(**changes: object) -> Config:
    return Config.from_hyperparameters(SMALL | {name: str(value) for name, value in changes.items()}, TORCH)


def step_of(settings: Config, precision: torch.dtype = torch.float32) -> TorchStep:
    torch.manual_seed(1)
    return TorchStep(Classifier(settings), settings, CPU, precision)


def batch(count: int, size: int = 8, seed: int = 0) -> Batch:
    generator = torch.Generator().manual_seed(seed)
    images = torch.randint(0, 256, (count, 3, size, size), generator=generator, dtype=torch.uint8)
    return images, torch.randint(0, 10, (count,), generator=generator)


def test_a_step_in_parts_has_the_same_result_as_a_whole_one() -> None:
    steps = [step_of(config(ema=0.9)) for _ in range(2)]
    for number in range(3):
        halves = [batch(8, seed=number), batch(8, seed=100 + number)]
        first = steps[0](halves, 0.1).read()
        assert first == steps[1].in_parts(halves, 0.1, StepTimes()).read()
    states = [step.network.state_dict() for step in steps]
    assert all(torch.equal(value, states[1][name]) for name, value in states[0].items())


def test_the_first_pass_changes_neither_weights_nor_statistics() -> None:
    step = step_of(config())
    before = {name: value.clone() for name, value in step.network.state_dict().items()}
    step.arrange(batch(8))
    assert all(torch.equal(value, before[name]) for name, value in step.network.state_dict().items())
    assert all(weight.grad is None for weight in step.network.parameters())


def test_weights_are_replaced_by_their_averages_only_for_a_while() -> None:
    step = step_of(config(ema=0.9))
    step([batch(8)], 0.1)
    assert step.averages is not None
    weight, average = step.network.network.fc.weight, step.averages.by_name()["network.fc.weight"]
    last = weight.detach().clone()
    with step.averaged():
        assert torch.equal(weight, average)
    assert torch.equal(weight, last)
    assert not torch.equal(last, average)


def test_a_step_returns_the_stop_and_a_loss_that_is_not_finite() -> None:
    step = step_of(config())
    assert step([batch(4)], 0.0).read()[1] is False
    loss, stop = step([batch(4)], 0.0, stop=True).read()
    assert stop
    assert loss == pytest.approx(loss)
    with torch.no_grad():
        step.network.network.fc.bias[0] = torch.nan
    assert not step.is_finite()
    assert step([batch(4)], 0.0).read()[0] != pytest.approx(loss)


def test_adamw_begins_as_pytorchs_own() -> None:
    """Its state exists before the first step, so that a checkpoint can be loaded into it."""
    settings = config(optimizer="adamw", weight_decay=0.1)
    step, plain = step_of(settings), step_of(settings).network
    groups = [
        {
            "params": [weight for name, weight in plain.named_parameters() if is_decayed(name, weight) is decays],
            "weight_decay": decay,
        }
        for decays, decay in ((True, 0.1), (False, 0.0))
    ]
    own = torch.optim.AdamW(groups, lr=0.01, betas=(0.9, 0.999))
    for number in range(3):
        images, labels = batch(8, seed=number)
        step([(images, labels)], 0.01)
        own.zero_grad()
        cross_entropy(plain(images), labels).backward()
        own.step()
    for weight, expected in zip(step.network.parameters(), plain.parameters(), strict=True):
        assert torch.allclose(weight, expected, atol=1e-6)


def test_weight_decay_applies_to_kernels_only() -> None:
    for name in ("resnet8", "vit_b_16"):
        network = Classifier(config(model=name, image_size=32))
        decayed = {name for name, weight in network.named_parameters() if is_decayed(name, weight)}
        spared = {name for name, _ in network.named_parameters()} - decayed
        assert not [name for name in decayed if name.endswith("bias") or "ln" in name or "embedding" in name]
        assert not [name for name in spared if "conv" in name and name.endswith("weight")]


def test_a_vision_transformer_trains_in_bfloat16() -> None:
    settings = config(model="vit_b_16", image_size=32, optimizer="adamw")
    step = step_of(settings, torch.bfloat16)
    losses = [step([batch(4, 32)], 0.0001).read()[0] for _ in range(3)]
    assert losses[-1] < losses[0]
    assert {weight.dtype for weight in step.network.parameters()} == {torch.float32}


@pytest.mark.parametrize("name", ["resnet50", "vit_b_16"])
def test_torchvision_loads_the_exported_weights(name: str) -> None:
    network = Classifier(config(model=name, image_size=32)).network
    options = {"image_size": 32} if name == "vit_b_16" else {}
    models.get_model(name, num_classes=10, **options).load_state_dict(network.state_dict())
    assert head_of(network) == {"resnet50": "fc", "vit_b_16": "heads.head"}[name]


def test_a_compiled_network_has_the_same_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """The default backend takes minutes on processors."""
    monkeypatch.setattr(torch, "compile", functools.partial(torch.compile, backend="aot_eager"))
    losses = []
    for compiles in ("false", "true"):
        step = step_of(config(torch_compile=compiles))
        step.arrange(batch(8))
        outcomes = [step([batch(8), batch(8, seed=1)], 0.05), step.in_parts([batch(8)], 0.05, StepTimes())]
        losses.append([outcome.read() for outcome in outcomes])
    assert losses[0] == losses[1]


def test_torch_compile_without_a_compiler_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    monkeypatch.delenv("CC", raising=False)
    with pytest.raises(HyperparameterError, match=r"'torch_compile' is true, but torch\.compile needs a C compiler"):
        device.require_compiler()


@pytest.mark.parametrize(
    ("mode", "given", "seconds"),
    [
        ("File", {}, 300),
        ("Pipe", {}, 660),
        ("Pipe", {"pipe_timeout_seconds": "1000"}, 1060),
        ("Pipe", {"stall_seconds": "200"}, 200),
        ("Pipe", {"stall_seconds": "0"}, 365 * 24 * 3600),
    ],
)
def test_ranks_wait_for_one_that_waits_for_its_stream(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mode: str, given: dict[str, str], seconds: int
) -> None:
    limits = []
    monkeypatch.setattr(torch.distributed, "init_process_group", lambda *_, timeout, **__: limits.append(timeout))
    monkeypatch.setattr(device, "own_device", lambda *_: CPU)
    folders = Folders(base=tmp_path)
    job = TrainingJob(
        folders=folders,
        hosts=("algo-1",),
        current_host="algo-1",
        network_interface=None,
        channels={"train": folders.data / "train"},
        hyperparameters=SMALL | given,
        launch=LaunchOptions(launcher="torchrun"),
        channel_settings={"train": {"TrainingInputMode": mode}},
    )
    place = Ranks(rank=0, size=1, local_rank=0, local_size=os.cpu_count() or 1, folders=folders)
    device.connected_device(job, config(**given), place)
    assert limits == [timedelta(seconds=seconds)]


def metrics_of(batches: list[Batch], stop: Callable[[], bool] = lambda: False, expected: int = 0) -> dict[str, float]:
    def logits_of(images: torch.Tensor) -> torch.Tensor:
        return torch.arange(10.0).flip(0).expand(len(images), 10)  # class 0 is the most likely, then 1, 2, ...

    return validation_metrics(batches, logits_of, CPU, stop, config(validation_records=expected))


def test_validation_weighs_images_and_counts_top_1_and_top_5() -> None:
    images = torch.zeros(3, 3, 8, 8, dtype=torch.uint8)
    metrics = metrics_of([(images, torch.tensor([0, 4, 5])), (images[:1], torch.tensor([0]))])
    assert (metrics["validation_top1"], metrics["validation_top5"]) == (0.5, 0.75)
    losses = -torch.arange(10.0).flip(0).log_softmax(0)
    assert metrics["validation_loss"] == pytest.approx(((2 * losses[0] + losses[4] + losses[5]) / 4).item(), rel=1e-6)
    with pytest.raises(ValueError, match="'validation' has no records on any rank"):
        metrics_of([])
    with pytest.raises(
        LockstepError, match=r"Channel validation ended after 3 records, .* validation_records requires 4"
    ):
        metrics_of([(images, torch.tensor([0, 4, 5]))], expected=4)


def test_a_rank_without_validation_images_has_the_same_metrics(monkeypatch: pytest.MonkeyPatch) -> None:
    of_other_rank = torch.tensor([3.0, 1.0, 2.0, 4.0, 0.0], dtype=torch.float64)
    monkeypatch.setattr(torch.distributed, "all_reduce", lambda totals: totals.add_(of_other_rank))
    assert metrics_of([]) == {"validation_loss": 0.75, "validation_top1": 0.25, "validation_top5": 0.5}


def test_a_stop_ends_a_validation() -> None:
    with pytest.raises(StopRequestedError):
        metrics_of([batch(4)], stop=lambda: True)
