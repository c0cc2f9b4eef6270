"""What reaches a training step: batches, on one rank. Two ranks are in test_modes.py and test_uneven.py."""

import dataclasses
import json
import re
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import horovod.tensorflow as hvd
import numpy as np
import pytest
import tensorflow as tf

from examples.digits.write_campaigns import example, write
from training_container.contract import Folders
from training_container.trainer.channels import ChannelError
from training_container.trainer.config import Config
from training_container.trainer.examples import RecordError
from training_container.trainer.image_folder import ImageFolderError
from training_container.trainer.input import TrainingData, training_data, validation_data
from training_container.trainer.lockstep import LockstepError

SMALL = Config(model="resnet8", image_size=8, batch_size=4, classes=10, first_label=0, augmentation="none")
Job = Callable[..., Folders]


@pytest.fixture(scope="module", autouse=True)
def one_rank() -> Iterator[None]:
    hvd.init()
    yield
    hvd.shutdown()


@pytest.fixture
def job(tmp_path: Path) -> Job:
    """A job whose channels have these labels; every image is all of one grey, ten times its label."""

    def make(**labels: list[int]) -> Folders:
        folders = Folders(base=tmp_path)
        folders.config.mkdir(parents=True)
        (folders.config / "inputdataconfig.json").write_text(json.dumps({name: {} for name in labels}))
        for name, values in labels.items():
            images = np.stack([np.full((8, 8, 1), 10 * label % 256, np.uint8) for label in values])
            (folders.data / name).mkdir(parents=True)
            write(folders.data / name, name, images, np.array(values), files=2)
        return folders

    return make


def with_(**values: object) -> Config:
    return dataclasses.replace(SMALL, **values)  # type: ignore[arg-type]


def batches(data: TrainingData, epoch: int, skip: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(images.numpy(), labels.numpy()) for images, labels in data.epoch(epoch, skip)]


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
def test_an_epoch_is_the_same_again_and_goes_on_where_it_was_left(job: Job, augmentation: str, cache: bool) -> None:
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


def test_more_steps_than_images_go_round(job: Job) -> None:
    data = training_data(with_(steps_per_epoch=5), job(train=[1, 2, 3, 4, 5, 6]))
    labels = np.concatenate([labels for _, labels in batches(data, 0)])
    assert len(labels) == 20
    assert set(labels) == {1, 2, 3, 4, 5, 6}


@pytest.mark.parametrize("cache", [False, True])
def test_validation_reads_every_record_once(job: Job, cache: bool) -> None:
    data = validation_data(with_(cache=cache), job(train=[0], validation=list(range(7))))
    assert data is not None
    for epoch in range(2):
        read = list(data.epoch(epoch))
        # Of two files, into which the records were dealt in turn.
        assert [label for _, labels, _ in read for label in labels.numpy()] == [0, 2, 4, 6, 1, 3, 5]
        assert [weights.numpy().tolist() for _, _, weights in read] == [[1.0] * 4, [1.0] * 3]


def test_without_a_validation_channel_there_is_nothing_to_validate(job: Job) -> None:
    assert validation_data(SMALL, job(train=[0])) is None


@pytest.mark.parametrize("cache", [False, True])
@pytest.mark.parametrize("label", [0, 11])
def test_a_label_out_of_range_is_named_with_its_record(job: Job, label: int, cache: bool) -> None:
    config = with_(classes=10, first_label=1, cache=cache)
    words = rf"Channel train: record 1 of train-00001-of-00002.*label is outside 1 to 10.*: {label}\."
    with pytest.raises(RecordError, match=words):
        batches(training_data(config, job(train=[1, 2, 3, label])), 0)


def write_records(path: Path, *records: bytes) -> None:
    with tf.io.TFRecordWriter(str(path)) as writer:
        for record in records:
            writer.write(record)


def feature(value: object) -> tf.train.Feature:
    if isinstance(value, int):
        return tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))


def serialised(**values: object) -> bytes:
    features = {name.replace("__", "/"): feature(value) for name, value in values.items()}
    return tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString()


GOOD = example(np.zeros((8, 8, 1), np.uint8), 1)


@pytest.mark.parametrize(
    ("record", "words"),
    [
        (serialised(image=b"x", label=1), "no feature 'image/encoded'; it has: image, label"),
        (serialised(image__encoded=b"x"), "no feature 'image/class/label'; it has: image/encoded"),
        (serialised(image__encoded=b"x", image__class__label=b"cat"), "'image/class/label'.*one value of a int64_list"),
        (b"\xff\xff not a protocol buffer", "no tf.train.Example"),
        (
            serialised(image__encoded=b"\xff\xd8\xff cut off", image__class__label=1),
            "image of 11 bytes does not decode",
        ),
    ],
)
def test_a_record_that_cannot_be_trained_on_is_named(job: Job, record: bytes, words: str) -> None:
    folders = job(train=[1])
    write_records(folders.data / "train" / "z.tfrecord", *[GOOD] * 6, record, GOOD)
    data = training_data(with_(batch_size=3, shuffle_records=4), folders)
    with pytest.raises(RecordError, match=rf"Channel train: record 6 of z\.tfrecord: .*{words}"):
        batches(data, 0)


def test_a_corrupt_record_is_named(job: Job) -> None:
    folders = job(train=[1] * 8)
    path = folders.data / "train" / "train-00001-of-00002.tfrecord"
    content = bytearray(path.read_bytes())
    content[len(content) // 4 + 40] ^= 1  # within the second of four
    path.write_bytes(content)
    words = rf"Channel train: the record at byte {len(content) // 4} of {re.escape(path.name)} is corrupt"
    with pytest.raises(RecordError, match=words):
        batches(training_data(SMALL, folders), 0)


@pytest.mark.parametrize("cache", [False, True])
def test_corrupt_records_and_images_are_left_out_up_to_a_number_and_told(
    job: Job, capsys: pytest.CaptureFixture[str], cache: bool
) -> None:
    folders = job(train=[1, 2, 3, 4, 5, 6])
    bad = folders.data / "train" / "z.tfrecord"
    write_records(bad, serialised(image__encoded=b"no image", image__class__label=1), GOOD)
    content = bytearray(bad.read_bytes())
    content[-10] ^= 1
    bad.write_bytes(content)
    data = training_data(with_(batch_size=2, tolerate_corrupt_records=2, cache=cache), folders)
    for epoch in range(2):
        labels = np.concatenate([labels for _, labels in batches(data, epoch)])
        assert sorted(labels) == [1, 2, 3, 4, 5, 6]
    assert (
        "rank 0 left out 2 corrupt record(s) of epoch 1; tolerate_corrupt_records allows 2" in capsys.readouterr().out
    )
    with pytest.raises(RecordError, match=r"2 records are corrupt.*allows 1"):
        batches(training_data(with_(batch_size=2, tolerate_corrupt_records=1, cache=cache), folders), 0)


def test_records_that_are_missing_are_noticed(job: Job) -> None:
    with pytest.raises(LockstepError, match=r"Channel train.* 5 records, .*train_records says 6"):
        batches(training_data(with_(train_records=6, batch_size=2), job(train=[1] * 5)), 0)


def test_a_share_smaller_than_a_batch_is_gone_round(job: Job) -> None:
    assert [len(labels) for _, labels in batches(training_data(SMALL, job(train=[1, 2])), 0)] == [4]


def test_a_missing_channel_is_named(job: Job) -> None:
    with pytest.raises(ChannelError, match=r"no channel train .*validation"):
        training_data(SMALL, job(validation=[1]))


def image_folder(folder: Path, **images: int) -> None:
    """Write so many images of each class, all of one grey: ten times the number of the class."""
    for number, (name, count) in enumerate(images.items(), start=1):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            png = tf.io.encode_png(np.full((9, 11, 3), 10 * number, np.uint8))
            (folder / name / f"{index}.PNG").write_bytes(png.numpy())


@pytest.mark.parametrize("cache", [False, True])
def test_a_folder_of_images_has_its_labels_from_its_folders(job: Job, cache: bool) -> None:
    folders = job()
    (folders.config / "inputdataconfig.json").write_text('{"train": {}, "validation": {}}')
    image_folder(folders.data / "train", ant=3, bee=4, cow=1)
    for name in ("bee", "cow"):
        shutil.copytree(folders.data / "train" / name, folders.data / "validation" / name)
    config = with_(classes=3, first_label=0, cache=cache)
    data, validation = training_data(config, folders), validation_data(config, folders)
    assert (data.classes, data.images, data.steps_per_epoch) == (("ant", "bee", "cow"), 8, 2)
    read = batches(data, 0)
    images, labels = np.concatenate([images for images, _ in read]), np.concatenate([labels for _, labels in read])
    assert sorted(labels) == [0, 0, 0, 1, 1, 1, 1, 2]
    assert images.mean(axis=(1, 2, 3)) == pytest.approx(10.0 * (labels + 1))
    assert validation is not None
    assert [label for _, labels, _ in validation.epoch(0) for label in labels.numpy()] == [1, 1, 1, 1, 2]


def test_another_number_of_class_folders_is_explained(job: Job) -> None:
    folders = job()
    (folders.config / "inputdataconfig.json").write_text('{"train": {}}')
    image_folder(folders.data / "train", ant=1, bee=1)
    with pytest.raises(ImageFolderError, match=r"2 folder\(s\) of classes, but hyperparameter classes is 10"):
        training_data(SMALL, folders)


def test_an_image_file_that_does_not_decode_is_named(job: Job) -> None:
    folders = job()
    (folders.config / "inputdataconfig.json").write_text('{"train": {}}')
    image_folder(folders.data / "train", ant=3, bee=3)
    (folders.data / "train" / "bee" / "1.PNG").write_bytes(b"no image")
    with pytest.raises(RecordError, match=r"Channel train: bee/1\.PNG: an image of 8 bytes does not decode"):
        batches(training_data(with_(classes=2, batch_size=2), folders), 0)
