"""The end of an epoch, on one rank: checkpoint, validation, and selection of the best epoch."""

import json
import math
import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.training.records import with_
from training_container.contract.launch_options import LaunchOptions
from training_container.contract.stopping import StoppedError
from training_container.contract.training_job import Folders, TrainingJob
from training_container.recipe.config import Config
from training_container.recipe.training_state import DivergedError
from training_container.trainer.cluster import Cluster
from training_container.trainer.loop import Training
from training_container.trainer.weights import weights_digest

pytestmark = [
    pytest.mark.usefixtures("one_rank"),
    # Keras generates its seeds with random.randint(1, 1e9) after a seed was set.
    pytest.mark.filterwarnings("ignore:non-integer arguments to randrange:DeprecationWarning"),
]
EPOCHS = {"epochs": 3, "warmup_epochs": 0.0, "progress_seconds": 0.0, "batch_size": 2, "learning_rate": 0.01}
# The metrics that interruptions must not change; times may differ.
EXACT = re.compile(r"(?:epoch|train_loss|learning_rate|validation_loss|validation_top1)=\S+")


@pytest.fixture
def folders(job: Callable[..., Folders]) -> Folders:
    return job(train=[1, 2, 3, 4], validation=[1, 2, 3, 4, 5])


def never() -> bool:
    return False


def started(
    folders: Folders, stop: Callable[[], bool] = never, weights: list[np.ndarray] | None = None, **settings: object
) -> Training:
    config: Config = with_(**EPOCHS | settings)
    launch = LaunchOptions(processes_per_host=1)
    described = TrainingJob(
        folders=folders,
        hosts=("algo-1",),
        current_host="algo-1",
        network_interface=None,
        channels={},
        hyperparameters={},
        launch=launch,
    )
    ranks = Cluster(rank=0, size=1, local_rank=0, local_size=1, folders=folders)
    training = Training(described, config, ranks, stop)
    if weights:
        training.model.set_weights(weights)
        training.step.averages.restart()
    training.start()
    return training


def lines(output: str) -> list[list[str]]:
    return [EXACT.findall(line) for line in output.splitlines() if line.startswith("epoch=")]


def emptied(folders: Folders) -> Folders:
    """Return the same job without any progress."""
    other = Folders(base=folders.base / "undisturbed")
    other.base.mkdir()
    (other.base / "input").symlink_to(folders.base / "input")
    return other


def scripted(*top1: float, loss: float = 1.0) -> Callable[[Iterable[object]], dict[str, float]]:
    """Return a validation with these results, one per call."""
    results: Iterator[float] = iter(top1)

    def validate(batches: Iterable[object]) -> dict[str, float]:
        list(batches)
        return {"validation_loss": loss, "validation_top1": next(results)}

    return validate


def states(folders: Folders) -> list[dict[str, object]]:
    paths = sorted(folders.checkpoints.glob("*/state.json"))
    return [json.loads(path.read_text()) for path in paths]


@pytest.mark.parametrize("checkpoint_every", [1, 10])
def test_a_stop_during_validation_is_resumed_with_the_validation(
    folders: Folders, capsys: pytest.CaptureFixture[str], checkpoint_every: int
) -> None:
    whole = started(emptied(folders), ema=0.5, checkpoint_every=checkpoint_every)
    weights = whole.model.get_weights()
    whole.run()
    undisturbed = lines(capsys.readouterr().out)
    asked = iter(range(10**6))
    # An epoch has two steps and three batches of validation, so this is in the second validation.
    stopped = started(folders, lambda: next(asked) >= 8, weights, ema=0.5, checkpoint_every=checkpoint_every)
    with pytest.raises(StoppedError, match="Stopped while validating after step 4; the checkpoint is written"):
        stopped.run()
    before = lines(capsys.readouterr().out)
    again = started(folders, ema=0.5, checkpoint_every=checkpoint_every)
    again.run()
    after = capsys.readouterr().out
    assert "Continuing after step 4: epoch 2 is trained and is validated first." in after
    assert (before, before + lines(after)) == (undisturbed[:1], undisturbed)
    assert again.state.progress.step == 6


def test_a_resumed_training_records_the_weights_with_which_it_began(folders: Folders) -> None:
    asked = iter(range(10**6))
    stopped = started(folders, lambda: next(asked) >= 2)
    began = weights_digest(stopped.model.variables)
    with pytest.raises(StoppedError):
        stopped.run()
    again = started(folders, epochs=1)
    assert weights_digest(again.model.variables) != began
    again.run()
    assert json.loads((folders.model / "report.json").read_text())["initial_weights"] == began


def test_an_epoch_is_saved_once_before_its_validation(folders: Folders) -> None:
    training, seen = started(folders), []

    def validate(batches: Iterable[object]) -> dict[str, float]:
        training.checkpoints.finish()
        seen.append(states(folders)[-1]["progress"])
        return scripted(0.5)(batches)

    training.validate = validate  # type: ignore[assignment]  # replaced for the test
    training.run()
    assert [(done["step"], done["epoch"], done["awaits_validation"]) for done in seen] == [
        (2, 0, True),
        (4, 1, True),
        (6, 2, True),
    ]
    judged = states(folders)
    assert [state["progress"]["awaits_validation"] for state in judged] == [False] * 3
    assert [state["best"] for state in judged] == [True, False, False]


def test_the_best_epoch_is_always_saved_and_exported_by_early_stopping(
    folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = {"epochs": 9, "checkpoint_every": 4, "keep_checkpoints": 1, "early_stop_epochs": 3}
    training = started(folders, **settings)
    weights = {}

    def validate(batches: Iterable[object]) -> dict[str, float]:
        list(batches)
        epoch = training.state.progress.epoch + 1
        weights.setdefault(epoch, training.model.get_weights())
        top1 = {1: 0.5, 2: 0.7, 3: 0.1, 4: 0.2, 5: 0.3}.get(epoch, 0.7)
        return {"validation_loss": 1.0, "validation_top1": top1}

    training.validate = validate  # type: ignore[assignment]  # replaced for the test
    training.run()
    assert "The network of epoch 2 is exported, because its top-1 is better than that of epoch 5." in (
        capsys.readouterr().out
    )
    assert [(state["best"], state["progress"]["epoch"]) for state in states(folders)] == [(True, 2), (False, 5)]
    for ours, best in zip(training.model.get_weights(), weights[2], strict=True):
        np.testing.assert_array_equal(ours, best)
    report = json.loads((folders.model / "report.json").read_text())
    assert (report["epochs_trained"], report["exported_epoch"], report["top1"]) == (5, 2, 0.7)


def test_without_early_stop_the_last_network_is_exported(folders: Folders) -> None:
    training = started(folders)
    training.validate = scripted(0.7, 0.1, 0.2)  # type: ignore[assignment]  # replaced for the test
    training.run()
    report = json.loads((folders.model / "report.json").read_text())
    assert (report["exported_epoch"], report["top1"]) == (3, 0.2)


def test_weights_that_are_not_finite_are_neither_saved_nor_exported(folders: Folders) -> None:
    """The loss of the last step was computed with the weights before that step."""
    training = started(folders, epochs=2)
    whole_step = training.train_step

    def overflows(batches: list[tuple[tf.Tensor, tf.Tensor]]) -> object:
        outcome = whole_step(batches)
        if training.state.progress.step == 3:
            training.model.trainable_variables[0].assign_add(tf.fill([3, 3, 3, 16], np.inf))
        return outcome

    training.train_step = overflows  # type: ignore[assignment, method-assign]  # replaced for the test
    words = r"A weight is not finite after step 4 \(epoch 2\): training diverged. The last good .* of step 2\."
    with pytest.raises(DivergedError, match=words):
        training.run()
    assert [path.name for path in folders.checkpoints.iterdir()] == ["checkpoint-000001-step-000000002"]
    assert not Path(folders.model).exists()


def test_a_validation_loss_of_nan_ends_the_job_and_keeps_the_last_checkpoint(folders: Folders) -> None:
    training = started(folders)

    def validate(batches: Iterable[object]) -> dict[str, float]:
        return scripted(0.5, loss=math.nan if training.state.progress.epoch else 1.0)(batches)

    training.validate = validate  # type: ignore[assignment]  # replaced for the test
    words = r"The validation loss is nan after step 4 \(epoch 2\): training diverged. The last good .* of step 2\."
    with pytest.raises(DivergedError, match=words):
        training.run()
    assert [path.name for path in folders.checkpoints.iterdir()] == ["checkpoint-000001-step-000000002"]
