"""A training that begins with the model that another training exported."""

import json
import shutil
import tarfile
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.training.records import with_
from tests.training.trainer.test_epoch_end import started
from training_container.contract.training_job import Folders
from training_container.recipe.exported_model import InitialModelError
from training_container.trainer.artifacts import export
from training_container.trainer.models import build_model

pytestmark = [
    pytest.mark.usefixtures("one_rank"),
    pytest.mark.filterwarnings("ignore:non-integer arguments to randrange:DeprecationWarning"),
]


@pytest.fixture
def folders(job: Callable[..., Folders]) -> Folders:
    return job(train=[1, 2, 3, 4], validation=[1, 2, 3, 4, 5])


def archived(folders: Folders, report: Mapping[str, object] | None = None, **settings: object) -> list[np.ndarray]:
    """Export a network with random weights as the initial model of a job, and return the weights."""
    origin = report or {"exported_epoch": 5}
    config = with_(**settings)
    model = build_model(config)
    random = np.random.default_rng(7)
    weights = [random.normal(size=weight.shape).astype(np.float32) for weight in model.get_weights()]
    model.set_weights(weights)
    folder = folders.base / "earlier"
    folder.mkdir()
    export(model, config, folder, {"model": config.model, "classes": config.classes, **origin})
    archive(folder, folders)
    return weights


def archive(folder: Path, folders: Folders) -> None:
    channel = folders.data / "model"
    channel.mkdir()
    with tarfile.open(channel / "model.tar.gz", "w:gz") as packed:
        for path in folder.iterdir():
            packed.add(path, path.name)


def equal(weights: list[np.ndarray], others: list[np.ndarray]) -> list[bool]:
    return [bool(np.array_equal(one, other)) for one, other in zip(weights, others, strict=True)]


def test_the_training_begins_with_the_weights_of_the_model(
    folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = archived(folders)
    training = started(folders)
    assert all(equal(training.model.get_weights(), weights))
    assert "Beginning with the weights of the initial model, of epoch 5." in capsys.readouterr().out


def test_moving_averages_begin_with_the_weights_too(folders: Folders) -> None:
    archived(folders)
    training = started(folders, ema=0.9)
    averages = training.step.averages
    assert averages is not None
    current = [*training.model.trainable_variables, *training.model.non_trainable_variables]
    assert all(equal([average.numpy() for average in averages.averages], [weight.numpy() for weight in current]))


def test_a_checkpoint_of_the_job_itself_wins(folders: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    first = started(folders)
    first.train_epoch()
    first.finish_epoch()
    trained = first.model.get_weights()
    archived(folders)
    again = started(folders)
    assert all(equal(again.model.get_weights(), trained))
    assert "initial model" not in capsys.readouterr().out


def test_another_number_of_classes_is_refused_in_one_sentence(folders: Folders) -> None:
    archived(folders, classes=7)
    with pytest.raises(InitialModelError) as error:
        started(folders)
    assert str(error.value) == (
        "The initial model has 7 classes, but the hyperparameter classes is 10. Set it to 7, or set new_head to true "
        "to begin with a new last layer."
    )


def test_a_new_head_keeps_its_own_weights_and_takes_all_others(
    folders: Folders, capsys: pytest.CaptureFixture[str]
) -> None:
    weights = archived(folders, classes=7)
    training = started(folders, new_head=True)
    assert all(equal(training.model.get_weights()[:-2], weights[:-2]))
    assert [weight.shape for weight in training.model.get_weights()[-2:]] == [(64, 10), (10,)]
    assert "with a new last layer" in capsys.readouterr().out
    training.train_epoch()


def test_another_network_is_refused(folders: Folders) -> None:
    archived(folders, model="resnet20")
    with pytest.raises(InitialModelError, match="The initial model is a resnet20, but the hyperparameter model is"):
        started(folders)


def test_the_model_of_another_program_is_refused(folders: Folders) -> None:
    folder = folders.base / "earlier"
    folder.mkdir()
    (folder / "model.pt").write_bytes(b"weights")
    archive(folder, folders)
    with pytest.raises(InitialModelError, match=r"was not exported by this trainer: .* but model\.pt\."):
        started(folders)


def test_a_model_that_the_trainer_exported_can_be_the_next_initial_model(folders: Folders) -> None:
    first = started(folders, epochs=1)
    first.run()
    exported = first.model.get_weights()
    shutil.rmtree(folders.checkpoints)
    assert json.loads((folders.model / "report.json").read_text())["exported_epoch"] == 1
    archive(folders.model, folders)
    again = started(folders)
    assert all(equal(again.model.get_weights(), exported))
    assert tf.io.gfile.exists(str(folders.base / "initial_model" / "1" / "saved_model.pb"))


def test_the_log_names_an_average(folders: Folders, capsys: pytest.CaptureFixture[str]) -> None:
    weights = archived(folders, {"merge_method": "average", "merged_from": [{"index": 0}, {"index": 1}]})
    training = started(folders)
    assert all(equal(training.model.get_weights(), weights))
    assert "Beginning with the weights of the initial model, the average of 2 models." in capsys.readouterr().out


def test_an_ensemble_is_refused_in_one_sentence(folders: Folders) -> None:
    archived(folders, {"merge_method": "ensemble", "merged_from": [{"index": 0}, {"index": 1}]})
    with pytest.raises(InitialModelError, match="The initial model is a merge with the method ensemble, but"):
        started(folders)
