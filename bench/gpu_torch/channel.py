"""The files that SageMaker would provide for the measurement: its configuration, and a channel of JPEG records."""

import json
import math
import os
import struct
from pathlib import Path

import torch
from torchvision.io import encode_jpeg

from bench.gpu_torch.settings import Settings
from bench.size import size
from training_container.trainer.demux.framing import masked_crc

CHANNEL = "train"
LABEL_BYTES = 4
"""A record is a label, little endian, and a JPEG."""
JPEG_SIDE = 400
"""Pixels per side; with noise, such a JPEG has about 100 KB. ImageNet's mean is about 110 KB."""
IMAGES = 64
_FILE_RECORDS = size(2048, 32)


def write_job(base: Path, settings: Settings, started: float) -> None:
    """Write a job of one host and one rank, whose script is rank.py, to a folder in place of /opt/ml.

    Args:
        started: The time at which the job starts, in seconds since the epoch.
    """
    hyperparameters = {
        "sagemaker_torch_distributed_enabled": "true",
        "sagemaker_mpi_num_of_processes_per_host": "1",
        "sagemaker_program": "rank.py",
        "sagemaker_submit_directory": str(Path(__file__).parent),
        "settings": settings.text(),
        "started": str(started),
    }
    resources = {"current_host": "localhost", "hosts": ["localhost"], "network_interface_name": "lo"}
    configuration = {"hyperparameters": hyperparameters, "resourceconfig": resources, "inputdataconfig": {CHANNEL: {}}}
    (base / "input/config").mkdir(parents=True)
    for name, content in configuration.items():
        (base / f"input/config/{name}.json").write_text(json.dumps(content))
    (base / "model").mkdir(exist_ok=True)


def write_channel(base: Path, settings: Settings) -> None:
    """Write enough records for a block of steps. The files of the channel are links to one file."""
    folder = base / "input/data" / CHANNEL
    folder.mkdir(parents=True)
    first = folder / "train-00000"
    contents = [record(number, jpeg) for number, jpeg in enumerate(jpegs(IMAGES))]
    with first.open("wb") as file:
        for number in range(_FILE_RECORDS):
            file.write(framed(contents[number % IMAGES]))
    for number in range(1, math.ceil(record_count(settings) / _FILE_RECORDS)):
        os.link(first, folder / f"train-{number:05}")


def record_count(settings: Settings) -> int:
    """Return the records that the longest block may read: those in all queues before and after it, and its own."""
    return (2 * settings.prefetched + 2 * settings.steps) * settings.batch


def record(label: int, jpeg: bytes) -> bytes:
    """Return the content of a record."""
    return label.to_bytes(LABEL_BYTES, "little") + jpeg


def jpegs(count: int) -> list[bytes]:
    """Return JPEGs of noise on a gradient."""
    generator = torch.Generator().manual_seed(1)
    ramp = torch.linspace(0.0, 191.0, JPEG_SIDE)[None, :, None]
    shape = (3, JPEG_SIDE, JPEG_SIDE)
    images = [(ramp + 64 * torch.rand(shape, generator=generator)).to(torch.uint8) for _ in range(count)]
    return [bytes(encode_jpeg(image, quality=94).tolist()) for image in images]


def framed(content: bytes) -> bytes:
    """Return a record in the format of TFRecord files (training_container/trainer/demux/framing.py)."""
    length = struct.pack("<Q", len(content))
    return b"".join([length, struct.pack("<I", masked_crc(length)), content, struct.pack("<I", masked_crc(content))])
