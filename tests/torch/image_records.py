"""Image records: the digits as TFRecords in the ImageNet schema, written without TensorFlow."""

import struct
from collections.abc import Sequence
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torchvision.io import encode_png

from training_container.trainer.demux.framing import masked_crc


def digits(first: int, count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images [count, 3, 8, 8] uint8, and their digits."""
    data = load_digits()
    images = torch.tensor(data.images[first : first + count]).mul(255 / 16).round().to(torch.uint8)
    return images[:, None].expand(-1, 3, -1, -1).contiguous(), torch.tensor(data.target[first : first + count])


def write_channel(folder: Path, images: torch.Tensor, labels: torch.Tensor, files: int = 2) -> None:
    """Write images and labels as files of similar length, one part after the other."""
    folder.mkdir(parents=True)
    parts = torch.arange(len(images)).tensor_split(files)
    for number, part in enumerate(parts):
        contents = [example(images[index], int(labels[index])) for index in part]
        write_file(folder / f"{folder.name}-{number:05d}-of-{files:05d}", contents)


def write_file(path: Path, contents: Sequence[bytes]) -> None:
    path.write_bytes(b"".join(framed(content) for content in contents))


def framed(content: bytes) -> bytes:
    length = struct.pack("<Q", len(content))
    return b"".join([length, struct.pack("<I", masked_crc(length)), content, struct.pack("<I", masked_crc(content))])


def example(image: torch.Tensor, label: int) -> bytes:
    """Return a record, a tf.train.Example."""
    features = {"image/encoded": part(1, part(1, encode_png(image).numpy().tobytes()))}
    features["image/class/label"] = part(3, part(1, varint(label)))
    entries = [part(1, part(1, name.encode()) + part(2, feature)) for name, feature in features.items()]
    return part(1, b"".join(entries))


def part(number: int, content: bytes) -> bytes:
    return varint(number << 3 | 2) + varint(len(content)) + content


def varint(number: int) -> bytes:
    return bytes([number]) if number < 128 else bytes([number & 127 | 128]) + varint(number >> 7)
