"""Records: valid and invalid records and images for tests."""

import dataclasses
from pathlib import Path

import numpy as np
import tensorflow as tf

from examples.digits.write_campaigns import example
from training_container.recipe.config import Config
from training_container.trainer.data.input import TrainingData

SMALL = Config(model="resnet8", image_size=8, batch_size=4, classes=10, first_label=0, augmentation="none")


def with_(**values: object) -> Config:
    return dataclasses.replace(SMALL, **values)  # type: ignore[arg-type]  # the fields' types are the caller's


def batches(data: TrainingData, epoch: int, skip: int = 0) -> list[tuple[np.ndarray, np.ndarray]]:
    return [(images.numpy(), labels.numpy()) for images, labels in data.epoch(epoch, skip)]


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


def stream_of(path: Path, *labels: int) -> bytes:
    write_records(path, *(example(np.full((8, 8, 1), 10 * label, np.uint8), label) for label in labels))
    return path.read_bytes()


def image_folder(folder: Path, **images: int) -> None:
    """Write this number of images of each class, in one shade of grey: ten times the number of the class."""
    for number, (name, count) in enumerate(images.items(), start=1):
        (folder / name).mkdir(parents=True)
        for index in range(count):
            png = tf.io.encode_png(np.full((9, 11, 3), 10 * number, np.uint8))
            (folder / name / f"{index}.PNG").write_bytes(png.numpy())
