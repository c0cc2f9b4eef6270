from collections.abc import Iterator
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

from examples.digits.write_campaigns import example, write
from training_container.trainer.augment import moved, shifted_and_flipped
from training_container.trainer.config import Config
from training_container.trainer.input import training_data, validation_batches
from training_container.trainer.models import build_model


@pytest.fixture(scope="module", autouse=True)
def one_rank() -> Iterator[None]:
    hvd.init()
    yield
    hvd.shutdown()


def grey(value: int) -> np.ndarray:
    return np.full((8, 8, 1), value, np.uint8)


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("augmentation", ["none", "affine", "crop_and_flip"])
def test_records_come_back_as_images_with_their_labels(tmp_path: Path, augmentation: str, cache: bool) -> None:
    write(tmp_path, "train", np.stack([grey(10 * label) for label in range(1, 7)]), np.arange(1, 7), files=2)
    config = Config(
        image_size=16, batch_size=3, classes=6, first_label=1, cache=cache, augmentation=augmentation, model="resnet8"
    )
    data = training_data(tmp_path, config)
    assert (data.steps_per_epoch, data.images) == (2, 6)
    batches = list(data.batches.take(2).as_numpy_iterator())
    labels = np.concatenate([labels for _, labels in batches])
    images = np.concatenate([images for images, _ in batches])
    assert images.shape == (6, 16, 16, 3)
    assert sorted(labels) == list(range(6))
    assert np.max(images, axis=(1, 2, 3)) == pytest.approx(10 * (labels + 1))


def test_validation_reads_every_record_once(tmp_path: Path) -> None:
    write(tmp_path, "validation", np.stack([grey(label) for label in range(7)]), np.arange(7), files=2)
    batches = validation_batches(tmp_path, Config(image_size=8, batch_size=4, classes=7, first_label=0))
    labels = [labels for _, labels in batches.as_numpy_iterator()]
    assert sorted(np.concatenate(labels)) == list(range(7))
    assert [len(batch) for batch in labels] == [4, 3]


@pytest.mark.parametrize("label", [0, 11])
def test_a_label_out_of_range_is_explained(tmp_path: Path, label: int) -> None:
    (tmp_path / "x.tfrecord").touch()
    with tf.io.TFRecordWriter(str(tmp_path / "x.tfrecord")) as writer:
        writer.write(example(grey(1), label))
    batches = validation_batches(tmp_path, Config(classes=10, first_label=1, image_size=8))
    with pytest.raises(tf.errors.InvalidArgumentError, match="outside 1 to 10"):
        list(batches)


def test_moving_changes_every_image_differently_and_keeps_its_middle() -> None:
    image = np.zeros((16, 16, 3), np.float32)
    image[6:10, 6:10] = 200.0
    images = moved(tf.constant(np.stack([image] * 8))).numpy()
    assert images.shape == (8, 16, 16, 3)
    assert len({picture.tobytes() for picture in images}) == 8
    for picture in images:
        where = np.argwhere(picture[..., 0] > 50)
        assert np.all(np.abs(where.mean(axis=0) - 7.5) <= 3.0)


def test_small_images_are_shifted_by_an_eighth_at_most() -> None:
    image = np.zeros((16, 16, 3), np.float32)
    image[8, 8] = 1.0
    rows, columns, _ = np.nonzero(shifted_and_flipped(tf.constant(image)).numpy())
    assert abs(int(rows[0]) - 8) <= 2
    assert min(abs(int(columns[0]) - 8), abs(int(columns[0]) - 7)) <= 2


def test_resnet50_has_the_papers_size() -> None:
    """25.6 million parameters (He et al. 2015; torchvision counts 25,557,032)."""
    model = build_model(Config())
    trainable = sum(int(np.prod(variable.shape)) for variable in model.trainable_variables)
    assert trainable == 25_557_032
