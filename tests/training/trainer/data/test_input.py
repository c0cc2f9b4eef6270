"""The batches of a training step, on one rank. test_modes.py and test_uneven.py use two ranks."""

import dataclasses
import json
import shutil
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tensorflow as tf

from tests.training.records import SMALL, batches, image_folder, stream_of, with_
from training_container.contract.training_job import Folders
from training_container.trainer.artifacts import export
from training_container.trainer.data.input import training_data, validation_data

pytestmark = pytest.mark.usefixtures("one_rank")
Job = Callable[..., Folders]


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("augmentation", ["none", "affine", "crop_and_flip"])
def test_records_come_back_as_images_with_their_labels(job: Job, augmentation: str, cache: bool) -> None:
    config = with_(batch_size=3, classes=6, first_label=1, cache=cache, augmentation=augmentation, image_size=16)
    data = training_data(config, job(train=[1, 2, 3, 4, 5, 6]))
    assert (data.steps_per_epoch, data.images) == (2, 6)
    read = batches(data, 0)
    labels, images = np.concatenate([labels for _, labels in read]), np.concatenate([images for images, _ in read])
    assert images.shape == (6, 16, 16, 3)
    assert sorted(labels) == list(range(6))
    assert np.max(images, axis=(1, 2, 3)) == pytest.approx(10 * (labels + 1))


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("augmentation", ["affine", "crop_and_flip"])
def test_an_epoch_is_reproducible_and_can_be_continued(job: Job, augmentation: str, cache: bool) -> None:
    config = with_(cache=cache, augmentation=augmentation, shuffle_records=5)
    folders = job(train=[label % 10 for label in range(23)])
    first, again = training_data(config, folders), training_data(config, folders)
    epochs = [batches(first, epoch) for epoch in (0, 1)]
    for whole, rest in ((epochs[1], batches(again, 1)), (epochs[1][2:], batches(again, 1, skip=2))):
        assert len(whole) == len(rest) > 0
        for (images, labels), (other_images, other_labels) in zip(whole, rest, strict=True):
            np.testing.assert_array_equal(images, other_images)
            np.testing.assert_array_equal(labels, other_labels)
    assert not np.array_equal(epochs[0][0][0], epochs[1][0][0])
    other_seed = training_data(dataclasses.replace(config, seed=1), folders)
    assert not np.array_equal(batches(other_seed, 0)[0][0], epochs[0][0][0])


def test_more_steps_than_images_repeat_images(job: Job) -> None:
    data = training_data(with_(steps_per_epoch=5), job(train=[1, 2, 3, 4, 5, 6]))
    labels = np.concatenate([labels for _, labels in batches(data, 0)])
    assert len(labels) == 20
    assert set(labels) == {1, 2, 3, 4, 5, 6}


def test_records_that_an_epoch_leaves_out_are_reported(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    folders = job(train=[1] * 7)
    assert training_data(with_(batch_size=4), folders).images_per_epoch == 4
    assert capsys.readouterr().out == (
        "Channel train: 7 records make 1 batches of 4 on each of 1 rank(s); 3 records are left out of an epoch. "
        "WARNING: that is 43% of the data, which is not trained on. Reduce batch_size, or start fewer ranks.\n"
    )
    training_data(with_(batch_size=4, steps_per_epoch=1), folders)  # the user has requested this number of steps
    training_data(with_(batch_size=7), folders)
    assert "WARNING" not in (output := capsys.readouterr().out)
    assert output.endswith("on each of 1 rank(s); 0 records are left out of an epoch.\n")


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("augmentation", ["crop_and_flip", "affine", "none"])
def test_batches_are_bytes_until_they_reach_the_device(job: Job, cache: bool, augmentation: str) -> None:
    config = with_(cache=cache, augmentation=augmentation)
    folders = job(train=[1] * 4, validation=[1] * 4)
    images, _ = next(iter(training_data(config, folders).epoch(0)))
    validation = validation_data(config, folders)
    assert validation is not None
    validated, _, _ = next(iter(validation.epoch(0)))
    assert (images.dtype, validated.dtype) == (tf.uint8, tf.uint8)
    assert images.numpy().max() > 1


def test_a_share_smaller_than_a_batch_is_repeated(job: Job) -> None:
    assert [len(labels) for _, labels in batches(training_data(SMALL, job(train=[1, 2])), 0)] == [4]


@pytest.mark.parametrize("cache", [False, True])
def test_validation_reads_every_record_once(job: Job, cache: bool) -> None:
    data = validation_data(with_(cache=cache), job(train=[0], validation=list(range(7))))
    assert data is not None
    for epoch in range(2):
        read = list(data.epoch(epoch))
        # The records alternate between two files.
        assert [label for _, labels, _ in read for label in labels.numpy()] == [0, 2, 4, 6, 1, 3, 5]
        assert [weights.numpy().tolist() for _, _, weights in read] == [[1.0] * 4, [1.0] * 3]


def test_without_a_validation_channel_there_is_no_validation_data(job: Job, capsys: pytest.CaptureFixture[str]) -> None:
    assert validation_data(SMALL, job(train=[0])) is None
    assert capsys.readouterr().out == "The job has no channel validation: it trains without validation.\n"


def test_a_stream_continues_from_its_position(streamed: Callable[..., Folders], tmp_path: Path) -> None:
    """SageMaker restarts the numbers of FIFOs at 0 for a training that is resumed in epoch 1."""
    content = stream_of(tmp_path / "object", *(label % 10 for label in range(18)))
    folders = streamed(content, content, content)
    config = with_(shuffle_records=6, augmentation="affine")
    data = training_data(config, folders)
    assert data.steps_per_epoch is None
    whole = [batches(data, epoch) for epoch in (0, 1)]
    assert (len(whole[0]), data.steps_per_epoch, data.images) == (4, 4, 18)
    rest = batches(training_data(config, streamed_again(folders)), 1, skip=3)
    assert len(rest) == 1
    np.testing.assert_array_equal(whole[1][3][0], rest[0][0])
    np.testing.assert_array_equal(whole[1][3][1], rest[0][1])


def streamed_again(folders: Folders) -> Folders:
    """Make the third stream the first one, as for a restarted process."""
    while not (folders.data / "train_2").exists():
        time.sleep(0.01)
    for number in (0, 1):
        (folders.data / f"train_{number}").unlink()
    (folders.data / "train_2").rename(folders.data / "train_0")
    return folders


@pytest.mark.parametrize("cache", [False, True])
def test_images_are_labelled_by_their_folders(job: Job, cache: bool) -> None:
    folders = job()
    (folders.config / "inputdataconfig.json").write_text('{"train": {}, "validation": {}}')
    image_folder(folders.data / "train", ant=3, bee=4, cow=1)
    for name in ("bee", "cow"):
        shutil.copytree(folders.data / "train" / name, folders.data / "validation" / name)
    config = with_(classes=3, first_label=0, cache=cache)
    data = training_data(config, folders)
    validation = validation_data(config, folders, classes=data.classes)
    assert (data.classes, data.images, data.steps_per_epoch) == (("ant", "bee", "cow"), 8, 2)
    read = batches(data, 0)
    images, labels = np.concatenate([images for images, _ in read]), np.concatenate([labels for _, labels in read])
    assert sorted(labels) == [0, 0, 0, 1, 1, 1, 1, 2]
    assert images.mean(axis=(1, 2, 3)) == pytest.approx(10.0 * (labels + 1))
    assert validation is not None
    assert [label for _, labels, _ in validation.epoch(0) for label in labels.numpy()] == [1, 1, 1, 1, 2]


def test_validation_images_have_the_classes_of_the_training_images(job: Job, tmp_path: Path) -> None:
    folders = job()
    (folders.config / "inputdataconfig.json").write_text('{"train": {}, "validation": {}}')
    image_folder(folders.data / "train", ant=1)
    image_folder(tmp_path / "own", ant=1, bee=1, cow=1)
    image_folder(folders.data / "validation", cow=2)
    config = with_(classes=3, batch_size=1, data_dir=str(tmp_path / "own"))
    validation = validation_data(config, folders, classes=training_data(config, folders).classes)
    assert validation is not None
    assert [int(labels[0]) for _, labels, _ in validation.epoch(0)] == [2, 2]


def test_the_exported_network_has_the_names_of_its_classes(tmp_path: Path) -> None:
    images = tf.keras.Input([8, 8, 3])
    model = tf.keras.Model(images, tf.keras.layers.Dense(2)(tf.keras.layers.Flatten()(images)))
    export(model, with_(classes=2, first_label=1), tmp_path, {"class_names": ("ant", "bee")})
    assert json.loads((tmp_path / "labels.json").read_text()) == {"1": "ant", "2": "bee"}


@pytest.mark.parametrize("augmentation", ["crop_and_flip", "none"])
def test_the_exported_network_preprocesses_images_as_in_validation(job: Job, tmp_path: Path, augmentation: str) -> None:
    folders = job()
    (folders.config / "inputdataconfig.json").write_text('{"train": {}, "validation": {}}')
    scan = np.random.default_rng(1).integers(0, 256, [40, 64, 3], np.uint8)
    scan[:2] = scan[:, :8] = 255  # a frame outside the central square
    for channel in ("train", "validation"):
        for name in ("ant", "bee"):
            (folders.data / channel / name).mkdir(parents=True)
            tf.io.write_file(str(folders.data / channel / name / "1.png"), tf.io.encode_png(scan))
    config = with_(classes=2, first_label=0, image_size=8, batch_size=1, cache=False, augmentation=augmentation)
    images = tf.keras.Input([8, 8, 3])
    means = tf.keras.layers.Lambda(lambda batch: tf.reduce_mean(batch, axis=[1, 2])[:, :2] / 20)(images)
    model = tf.keras.Model(images, means)
    export(model, config, tmp_path, {})
    validation = validation_data(config, folders, classes=training_data(config, folders).classes)
    assert validation is not None
    validated, _, _ = next(iter(validation.epoch(0)))
    served = tf.saved_model.load(str(tmp_path / "1")).signatures["serving_default"]
    answer = served(images=tf.cast(scan[None], tf.float32))["probabilities"].numpy()
    assert answer == pytest.approx(tf.nn.softmax(model(validated)).numpy(), abs=1e-5)
