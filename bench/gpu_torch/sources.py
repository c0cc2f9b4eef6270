"""Sources of batches: one batch in the GPU's memory, and the JPEG records of a channel, read by traingrid."""

import itertools
from collections.abc import Generator, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils.data import DataLoader
from torchvision.io import ImageReadMode, decode_jpeg
from torchvision.transforms import v2

from bench.gpu_torch.channel import CHANNEL, LABEL_BYTES, record_count
from bench.gpu_torch.settings import PREFETCHED, Settings
from training_container.script_api import records, torch_records

CLASSES = 1000
Batch = tuple[torch.Tensor, torch.Tensor]
"""Images [batch, height, width, 3] uint8, and labels [batch] int64, in the device's memory."""


class Synthetic:
    """A random batch in the device's memory, again and again."""

    prefetched = 0

    def __init__(self, settings: Settings, device: torch.device) -> None:
        shape = (settings.batch, settings.image_size, settings.image_size, 3)
        images = torch.randint(0, 256, shape, dtype=torch.uint8, device=device)
        self._batch = images, torch.randint(0, CLASSES, (settings.batch,), device=device)

    def batches(self, _epoch: int) -> Generator[Any, None, None]:
        """Yield the batch."""
        yield from itertools.repeat(self._batch)

    def on_device(self, batch: Any) -> Batch:
        """Return the batch."""
        images, labels = batch
        return images, labels


class Decoder:
    """Decodes a record into a random crop of its image [height, width, 3] uint8 and its label."""

    def __init__(self, image_size: int) -> None:
        self.crop = v2.Compose([v2.RandomResizedCrop(image_size, antialias=True), v2.RandomHorizontalFlip()])

    def __call__(self, content: bytes) -> tuple[torch.Tensor, int]:
        """Decode a record."""
        jpeg = torch.frombuffer(bytearray(content), dtype=torch.uint8, offset=LABEL_BYTES)
        image = self.crop(decode_jpeg(jpeg, mode=ImageReadMode.RGB))
        return image.permute(1, 2, 0).contiguous(), int.from_bytes(content[:LABEL_BYTES], "little")


class FromRecords:
    """The channel's records through a DataLoader, whose workers decode them.

    Attributes:
        prefetched: The batches that may be ready before a block begins, which would falsify its time.
    """

    collate: Any = None
    decode: Any

    def __init__(self, settings: Settings, device: torch.device) -> None:
        self.decode = self.decoder = Decoder(settings.image_size)
        self.prefetched = settings.prefetched
        self._settings, self.device = settings, device

    def batches(self, epoch: int) -> Generator[Any, None, None]:
        """Yield the batches of an epoch. The workers end when the iterator is closed."""
        yield from DataLoader(
            self.dataset(epoch),
            batch_size=self._settings.batch,
            num_workers=self._settings.workers,
            prefetch_factor=PREFETCHED,
            pin_memory=self.device.type == "cuda",
            collate_fn=self.collate,
        )

    def dataset(self, epoch: int) -> Any:
        """Return the dataset of an epoch."""
        dataset = torch_records.TorchRecords(records.open(CHANNEL), self.decode)
        dataset.set_epoch(epoch)
        return dataset

    def on_device(self, batch: Any) -> Batch:
        """Copy a batch while the host continues."""
        images, labels = batch
        return images.to(self.device, non_blocking=True), labels.to(self.device, non_blocking=True)


class FromMemory(FromRecords):
    """The same DataLoader with records in memory in place of traingrid's: the limit of any reader."""

    def __init__(self, settings: Settings, device: torch.device, contents: Sequence[bytes]) -> None:
        super().__init__(settings, device)
        self._contents = contents

    def dataset(self, _epoch: int) -> Any:
        """Return a dataset that decodes one record after the other, as long as the channel."""
        return Repeated(self._contents, self.decoder, record_count(self._settings))


@dataclass(frozen=True)
class Repeated:
    """A dataset of PyTorch with an index: records in memory, decoded, again and again."""

    contents: Sequence[bytes]
    decoder: Decoder
    count: int

    def __len__(self) -> int:
        """Return the number of records."""
        return self.count

    def __getitem__(self, index: int) -> tuple[torch.Tensor, int]:
        """Return a decoded record."""
        return self.decoder(self.contents[index % len(self.contents)])


class DecodedOnDevice(FromRecords):
    """The same as FromRecords with workers that only read, and nvJPEG on the GPU as the decoder."""

    def __init__(self, settings: Settings, device: torch.device) -> None:
        super().__init__(settings, device)
        self.decode, self.collate = None, joined
        self._stream: Any = torch.cuda.Stream(device) if device.type == "cuda" else None

    def on_device(self, batch: Any) -> Batch:
        """Decode and crop a batch, image by image as they have different sizes in general."""
        content, lengths = batch
        parts = content.split(lengths)
        labels = torch.stack([part[:LABEL_BYTES] for part in parts]).view(torch.int32).squeeze(1).long()
        # nvJPEG writes at once, also into memory that the work in the stream's queue still reads. A training whose
        # stream it shared diverged. With its own, empty stream it also decodes while the network computes
        # (https://github.com/pytorch/vision/pull/9606, https://github.com/meta-pytorch/torchcodec/pull/1634).
        current = torch.cuda.current_stream(self.device)
        self._stream.synchronize()
        with torch.cuda.stream(self._stream):
            jpegs = [part[LABEL_BYTES:] for part in parts]
            images = decode_jpeg(jpegs, mode=ImageReadMode.RGB, device=self.device)
            crops = torch.stack([self.decoder.crop(image) for image in images])
        current.wait_stream(self._stream)
        crops.record_stream(current)
        return crops.permute(0, 2, 3, 1), labels.to(self.device, non_blocking=True)


def joined(contents: Sequence[bytes]) -> tuple[torch.Tensor, list[int]]:
    """Return the bytes of all records, which are one object of shared memory, and their lengths."""
    return torch.frombuffer(bytearray(b"".join(contents)), dtype=torch.uint8), [len(content) for content in contents]
