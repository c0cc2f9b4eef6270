"""Writes scikit-learn's handwritten digits as four campaigns of TFRecord files, in the ImageNet schema.

    python examples/digits/write_campaigns.py OUT

The 1,797 scans of 8 x 8 pixels (UCI "Optical Recognition of Handwritten Digits", part of scikit-learn) become PNG
images. A fifth is held out and is in every campaign as `validation`; the rest is distributed over the four campaigns
without overlap. The ten digits are equally frequent in every part, and every run writes the same bytes.

    OUT/campaign-1/train/train-00000-of-00004.tfrecord ...
    OUT/campaign-1/validation/validation-00000-of-00002.tfrecord ...

Train on a campaign with the hyperparameters of the demo's grid.yaml: labels count from 0 (first_label=0).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import tensorflow as tf
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split

CAMPAIGNS = 4
HELD_OUT = 0.2
TRAIN_FILES, VALIDATION_FILES = 4, 2
SEED = 20170717


def main(out: Path) -> None:
    """Write all campaigns into the folder `out`."""
    images, labels = load_digits(return_X_y=True)
    images = np.rint(images.reshape(-1, 8, 8, 1) * (255 / 16)).astype(np.uint8)
    parts, held_out = split(labels)
    for number, part in enumerate(parts, start=1):
        folder = out / f"campaign-{number}"
        write(folder / "train", "train", images[part], labels[part], TRAIN_FILES)
        write(folder / "validation", "validation", images[held_out], labels[held_out], VALIDATION_FILES)
        print(f"{folder}: {len(part)} scans to train on, {len(held_out)} held out")


def split(labels: np.ndarray) -> tuple[list[np.ndarray], np.ndarray]:
    """Return the indices of each campaign's scans, and those of the held-out part; each scan is in exactly one."""
    rest, held_out = train_test_split(
        np.arange(len(labels)), test_size=HELD_OUT, random_state=SEED, shuffle=True, stratify=labels
    )
    # Sorting by digit and taking every fourth scan gives every campaign about as many of each digit.
    dealt = rest[np.argsort(labels[rest], kind="stable")]
    shuffled = np.random.default_rng(SEED)
    return [shuffled.permutation(dealt[first::CAMPAIGNS]) for first in range(CAMPAIGNS)], held_out


def write(folder: Path, name: str, images: np.ndarray, labels: np.ndarray, files: int) -> None:
    """Write images and labels as `files` TFRecord files of similar length."""
    folder.mkdir(parents=True, exist_ok=True)
    for number in range(files):
        path = folder / f"{name}-{number:05d}-of-{files:05d}.tfrecord"
        with tf.io.TFRecordWriter(str(path)) as writer:
            for image, label in zip(images[number::files], labels[number::files], strict=True):
                writer.write(example(image, int(label)))


def example(image: np.ndarray, label: int) -> bytes:
    """Return one record. Source of the schema: TensorFlow's models/research/inception/build_imagenet_data.py."""
    features = {
        "image/encoded": _bytes([tf.io.encode_png(image).numpy()]),
        "image/format": _bytes([b"PNG"]),
        "image/height": _integers([image.shape[0]]),
        "image/width": _integers([image.shape[1]]),
        "image/class/label": _integers([label]),
        "image/class/text": _bytes([str(label).encode()]),
    }
    record: bytes = tf.train.Example(features=tf.train.Features(feature=features)).SerializeToString(deterministic=True)
    return record


def _bytes(values: Sequence[bytes]) -> tf.train.Feature:
    return tf.train.Feature(bytes_list=tf.train.BytesList(value=values))


def _integers(values: Sequence[int]) -> tf.train.Feature:
    return tf.train.Feature(int64_list=tf.train.Int64List(value=values))


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python examples/digits/write_campaigns.py OUT")
    main(Path(sys.argv[1]))
