"""Image streams: channels of small images, as files and as streams, and the batches that ranks make of them."""

import os
import threading
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path

import torch

from examples.torch_recipe.write_digits import example, framed
from training_container.contract.training_job import Folders
from training_container.recipe.config import TORCH, Config
from training_container.script_api.ranks import Ranks
from training_container.torch_trainer.images import Batch, TrainingImages

SMALL = {
    "model": "resnet8", "classes": "200", "first_label": "0", "image_size": "8", "batch_size": "4",
    "augmentation": "none", "workers": "3",
}  # fmt: skip


def config(**changes: object) -> Config:
    return Config.from_hyperparameters(SMALL | {name: str(value) for name, value in changes.items()}, TORCH)


def shades(count: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Return images of one shade of grey each, which is also their label."""
    numbers = torch.arange(count)
    return numbers.to(torch.uint8)[:, None, None, None].expand(-1, 3, 8, 8).contiguous(), numbers


def numbers(batches: Iterator[Batch]) -> list[list[int]]:
    """Return the labels of batches, after a comparison with their images."""
    found = list(batches)
    assert all(torch.equal(images[:, 0, 0, 0].long(), labels) for images, labels in found)
    return [labels.tolist() for _, labels in found]


PIPE = '{"TrainingInputMode": "Pipe"}'


def stream(place: Ranks, count: int, epochs: int) -> None:
    """Stream a number of images to this rank in each epoch, as SageMaker does."""
    content = b"".join(framed(example(image, int(label))) for image, label in zip(*shades(count), strict=True))
    fifos = [place.folders.data / f"train_{place.rank}_{epoch}" for epoch in range(epochs)]
    for fifo in fifos:
        os.mkfifo(fifo)
    threading.Thread(target=lambda: [fifo.write_bytes(content) for fifo in fifos], daemon=True).start()


def labels_of_host(folder: Path, rank: int, count: int, **changes: object) -> list[list[list[int]]]:
    """Return the labels of both epochs' batches on one of two hosts, whose stream has a number of records."""
    folders = Folders(base=folder / str(rank))
    folders.config.mkdir(parents=True)
    folders.data.mkdir()
    (folders.config / "inputdataconfig.json").write_text(f'{{"train_0": {PIPE}, "train_1": {PIPE}}}')
    here = Ranks(rank=rank, size=2, local_rank=0, local_size=1, folders=folders)
    store = torch.distributed.FileStore(str(folder / "store"), 2)
    torch.distributed.init_process_group("gloo", store=store, rank=rank, world_size=2)
    try:
        stream(here, count, epochs=2)
        images = TrainingImages(config(shuffle_records=0, **changes), here, timedelta(seconds=100))
        return [numbers(images.epoch(0)), numbers(images.epoch(1, skip=1))]
    finally:
        torch.distributed.destroy_process_group()
