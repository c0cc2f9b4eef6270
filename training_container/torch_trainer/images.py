"""Images: a rank's share of a channel as batches, decoded by the workers of a DataLoader, as many as every rank has."""

import itertools
import math
import os
import random
from collections.abc import Iterator
from datetime import timedelta

import torch
import torch.distributed as dist
from torch.utils.data import DataLoader, get_worker_info

from training_container.recipe.config import Config
from training_container.recipe.epoch_length import epoch_of, steps_of_epoch
from training_container.script_api import records
from training_container.script_api.ranks import Ranks
from training_container.script_api.torch_records import TorchRecords
from training_container.torch_trainer.decoding import decoded
from training_container.torch_trainer.examples import ExampleError
from training_container.torch_trainer.lockstep import StreamLockstep, counted
from training_container.trainer.data.channels import exists
from training_container.trainer.data.image_folder import is_image
from training_container.trainer.data.shards import check_is_training
from training_container.trainer.demux.framing import StreamError

Batch = tuple[torch.Tensor, torch.Tensor]
"""Images [batch, 3, size, size] uint8, and classes [batch] int64."""
_Chunk = tuple[int, torch.Tensor | None, torch.Tensor | None]
"""The number of records, and their images and classes; None if they are skipped."""
_MAX_WORKERS, _ALL = 16, 2**62


class ImageRecordError(ValueError):
    """A channel cannot be used for training. The text names it and the reason."""


class _Chunks(TorchRecords):
    """A rank's records as decoded chunks of a batch's size. Each worker reads its own range of them."""

    def __init__(self, channel: records.Records, config: Config, *, train: bool) -> None:
        super().__init__(channel)
        self._config, self._train = config, train
        self._chosen, self._repeats = range(0), False

    def set_position(self, epoch: int, chosen: range, *, repeats: bool = False) -> None:
        """Set the next iteration.

        Args:
            chosen: The numbers of the batches that are used; chunks with other numbers are read, but not decoded.
            repeats: If true, begin again at the end of the records.
        """
        self.set_epoch(epoch)
        self._chosen, self._repeats = chosen, repeats

    def __iter__(self) -> Iterator[_Chunk | ImageRecordError | StreamError]:
        """Yield this worker's chunks, or an error: to the text of one that is raised, DataLoader adds the traceback."""
        try:
            yield from self._chunks_of_worker()
        except (ImageRecordError, StreamError) as error:
            yield error

    def _chunks_of_worker(self) -> Iterator[_Chunk]:
        worker = get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        passes = itertools.repeat(self) if self._repeats else [self]
        contents = itertools.chain.from_iterable(map(TorchRecords.__iter__, passes))
        for number in itertools.count(first, step):
            chunk = list(itertools.islice(contents, self._config.batch_size))
            if not chunk:
                return
            yield self._decoded(chunk, number) if number in self._chosen else (len(chunk), None, None)

    def _decoded(self, chunk: list[bytes], number: int) -> _Chunk:
        config, channel = self._config, self._records
        images, classes = [], []
        for place, record in enumerate(chunk):
            seed = f"{config.seed}/{self._epoch}/{channel.place.rank}/{number}/{place}"
            choice = random.Random(seed) if self._train else None  # noqa: S311  # no secret depends on it
            try:
                image, label = decoded(record, config, choice)
            except ExampleError as error:
                raise ImageRecordError(f"Channel {channel.name}: a record {error}.") from error
            images.append(image)
            classes.append(label)
        return len(chunk), torch.stack(images), torch.tensor(classes)


class TrainingImages:
    """One rank's training batches. Every rank has the same number. All ranks create it together.

    Args:
        timeout: The time that ranks wait for each other; None for PyTorch's default.

    Attributes:
        steps: The number of batches in an epoch. For a stream without steps_per_epoch it is that of train_records, and
            an epoch has as many as the rank with the fewest.
        count: The number of records of all ranks; None for a stream.
    """

    def __init__(self, config: Config, place: Ranks, timeout: timedelta | None = None) -> None:
        self._config = config
        self._channel = _opened("train", config, place, train=True)
        if self._channel.files:
            check_is_training(self._channel.files, place.folders.data / "train")
        self._chunks = _Chunks(self._channel, config, train=True)
        self.count, self.steps = _agreed(self._channel, config)
        self._repeats = not self._channel.stream and self.steps * config.batch_size > (self._channel.count or 0)
        self._workers = _workers(self._channel, config)
        is_estimated = self._channel.stream and not config.steps_per_epoch
        self._lockstep = StreamLockstep(self._channel.name, config, timeout) if is_estimated else None

    def epoch(self, epoch: int, skip: int = 0) -> Iterator[Batch]:
        """Yield an epoch's batches, which are the same for the same seed, epoch, and numbers of ranks and workers.

        Args:
            skip: The number of its batches that were trained before.

        Raises:
            ImageRecordError: A record is invalid.
            LockstepError: The records ended early.
        """
        if self._lockstep:
            yield from self._agreed_batches(self._lockstep, epoch, skip)
            return
        is_stream = bool(self._channel.stream)
        # Of files, the last batches may be in chunks with higher numbers, because a worker's last chunk is smaller.
        self._chunks.set_position(epoch, range(skip, self.steps if is_stream else _ALL), repeats=self._repeats)
        chunks = _loaded(self._chunks, self._workers)
        batches = _batches(chunks, self._config.batch_size, skip)
        yield from counted(batches, range(skip, self.steps), self._channel.name, epoch)
        if is_stream:
            for _ in chunks:  # the next stream begins after the end of this one
                pass

    def _agreed_batches(self, lockstep: StreamLockstep, epoch: int, skip: int) -> Iterator[Batch]:
        self._chunks.set_position(epoch, range(skip, _ALL))
        counts: list[int] = []
        chunks = _tallied(_loaded(self._chunks, self._workers), counts)
        steps = skip
        for batch in lockstep.batches(_batches(chunks, self._config.batch_size, skip)):
            steps += 1
            yield batch
        for _ in chunks:  # the next stream begins after the end of this one
            pass
        lockstep.finish(sum(counts), steps)


class ValidationImages:
    """One rank's share of the validation images. Shares may differ in size."""

    def __init__(self, config: Config, place: Ranks) -> None:
        channel = _opened("validation", config, place, train=False)
        self._config, self._workers = config, _workers(channel, config)
        self._chunks = _Chunks(channel, config, train=False)

    def epoch(self, epoch: int) -> Iterator[Batch]:
        """Yield batches, of which some may be smaller; there may be none.

        Raises:
            ImageRecordError: A record is invalid.
        """
        self._chunks.set_position(epoch, range(_ALL))
        yield from _batches(_loaded(self._chunks, self._workers), self._config.batch_size, 0, keeps_rest=True)


def validation_images(config: Config, place: Ranks) -> ValidationImages | None:
    """Return this rank's validation images; None without the channel."""
    if exists("validation", place.folders):
        return ValidationImages(config, place)
    if place.is_main:
        print("The job has no channel validation: it trains without validation.")
    return None


def _opened(name: str, config: Config, place: Ranks, *, train: bool) -> records.Records:
    reading = records.ReadOptions(
        seed=config.seed,
        shard_by=config.shard_by,
        shuffle_files=train and config.shuffle_files,
        shuffle_records=config.shuffle_records if train else 0,
        timeout_seconds=config.pipe_timeout_seconds,
    )
    folder = place.folders.data / name
    if any(is_image(path) for path in itertools.islice(folder.rglob("*.*"), 100)):
        raise ImageRecordError(
            f"Channel {name} is a folder of images, but the trainer for PyTorch reads TFRecords. Write the images into "
            "TFRecords in the ImageNet schema, or use an image with the trainer for TensorFlow, which reads folders."
        )
    return records.open(name, reading=reading, place=place)


def _agreed(channel: records.Records, config: Config) -> tuple[int | None, int]:
    """Return the number of records of all ranks, if it is known, and the number of batches of every rank."""
    ranks = dist.get_world_size()
    if channel.count is None:
        steps = config.steps_per_epoch or config.train_records // (ranks * config.batch_size)
        if not steps:
            raise ImageRecordError(
                f"Channel {channel.name} is a stream, whose length is not known before its end. Set the hyperparameter "
                f"train_records, to at least the {ranks * config.batch_size} images of a step, or steps_per_epoch."
            )
        return None, steps
    counts: list[int] = [0] * ranks
    dist.all_gather_object(counts, channel.count)
    steps = steps_of_epoch(channel.name, counts, config)
    if dist.get_rank() == 0:
        print(epoch_of(channel.name, counts, steps, config.batch_size, is_chosen=bool(config.steps_per_epoch)))
    return sum(counts), steps


def _workers(channel: records.Records, config: Config) -> int:
    """Return the number of processes that read and decode; 0 for a stream, which this process must read.

    Each has at least a record, and on average a batch.
    """
    if channel.count is None:
        return 0
    cores = len(os.sched_getaffinity(0)) // channel.place.local_size
    chosen = config.workers or max(1, min(cores, _MAX_WORKERS))
    return min(chosen, math.ceil(channel.count / config.batch_size))


def _loaded(chunks: _Chunks, workers: int) -> Iterator[_Chunk]:
    """Yield the chunks of all workers in turn."""
    for chunk in DataLoader(chunks, batch_size=None, num_workers=workers, pin_memory=torch.cuda.is_available()):
        if isinstance(chunk, Exception):
            raise chunk
        yield chunk


def _tallied(chunks: Iterator[_Chunk], counts: list[int]) -> Iterator[_Chunk]:
    """Yield the chunks, and append the number of records of each to `counts`."""
    for chunk in chunks:
        counts.append(chunk[0])
        yield chunk


def _batches(chunks: Iterator[_Chunk], size: int, skip: int, *, keeps_rest: bool = False) -> Iterator[Batch]:
    """Cut chunks into batches of `size` images, without the first ones, which may be in chunks that are not decoded.

    Args:
        keeps_rest: If true, the last batch may be smaller.
    """
    skipped = skip * size
    images, labels = torch.empty(0), torch.empty(0)
    for count, chunk_images, chunk_labels in chunks:
        first = min(count, skipped)
        skipped -= first
        if chunk_images is None or chunk_labels is None or first == count:
            continue
        images = torch.cat([images, chunk_images[first:]]) if len(images) else chunk_images[first:]
        labels = torch.cat([labels, chunk_labels[first:]]) if len(labels) else chunk_labels[first:]
        while len(labels) >= size:
            yield images[:size], labels[:size]
            images, labels = images[size:], labels[size:]
    if keeps_rest and len(labels):
        yield images, labels
