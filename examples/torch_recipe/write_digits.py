"""Writes scikit-learn's handwritten digits as TFRecord files in the ImageNet schema, without TensorFlow.

python examples/torch_recipe/write_digits.py OUT

OUT/train has four files, OUT/validation two, with PNG images of 8 x 8 pixels and labels from 0. A fifth of the digits
is held out.
"""

import struct
import sys
from collections.abc import Sequence
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from sklearn.model_selection import train_test_split
from torchvision.io import encode_png

from training_container.trainer.demux.framing import masked_crc

HELD_OUT, SEED = 0.2, 20170717


def main(out: Path) -> None:
    images, labels = load_digits(return_X_y=True)
    parts = train_test_split(torch.arange(len(labels)), test_size=HELD_OUT, random_state=SEED, stratify=labels)
    for name, part, files in zip(("train", "validation"), parts, (4, 2), strict=True):
        write_channel(out / name, grey(torch.tensor(images[part])), torch.tensor(labels[part]), files)


def grey(scans: torch.Tensor) -> torch.Tensor:
    """Return scans of 64 numbers in 0..16 as images [count, 3, 8, 8] uint8."""
    pixels = scans.reshape(-1, 1, 8, 8).mul(255 / 16).round().to(torch.uint8)
    return pixels.expand(-1, 3, -1, -1).contiguous()


def write_channel(folder: Path, images: torch.Tensor, labels: torch.Tensor, files: int = 2) -> None:
    """Write images and labels as files of similar length, one part after the other."""
    folder.mkdir(parents=True, exist_ok=True)
    for number, part in enumerate(torch.arange(len(images)).tensor_split(files)):
        contents = [example(images[index], int(labels[index])) for index in part]
        write_file(folder / f"{folder.name}-{number:05d}-of-{files:05d}", contents)


def write_file(path: Path, contents: Sequence[bytes]) -> None:
    path.write_bytes(b"".join(framed(content) for content in contents))


def framed(content: bytes) -> bytes:
    """Return a record of a TFRecord file (https://www.tensorflow.org/tutorials/load_data/tfrecord)."""
    length = struct.pack("<Q", len(content))
    return b"".join([length, struct.pack("<I", masked_crc(length)), content, struct.pack("<I", masked_crc(content))])


def example(image: torch.Tensor, label: int) -> bytes:
    """Return a tf.train.Example, in the encoding of https://protobuf.dev/programming-guides/encoding/."""
    features = {"image/encoded": part_of(1, part_of(1, encode_png(image).numpy().tobytes()))}
    features["image/class/label"] = part_of(3, part_of(1, varint(label)))
    entries = [part_of(1, part_of(1, name.encode()) + part_of(2, feature)) for name, feature in features.items()]
    return part_of(1, b"".join(entries))


def part_of(number: int, content: bytes) -> bytes:
    """Return a field of a message, whose content is bytes."""
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit("Usage: python examples/torch_recipe/write_digits.py OUT")
    main(Path(sys.argv[1]))
