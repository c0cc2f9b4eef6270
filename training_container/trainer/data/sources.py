"""Sources: the decoded images of one rank's share of a channel, read in every epoch or cached in memory."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import tensorflow as tf
from numpy.typing import NDArray

from training_container.trainer.config import Config
from training_container.trainer.data import augment
from training_container.trainer.data.corrupt_records import CorruptRecords
from training_container.trainer.data.examples import Step, parsed
from training_container.trainer.data.file_channel import FileChannel
from training_container.trainer.data.image_folder import labels_of
from training_container.trainer.data.pipe_channel import PipeChannel

Channel = FileChannel | PipeChannel


class Source(Protocol):
    """One rank's images of a channel."""

    @property
    def count(self) -> int | None:
        """The number of images; None if it is known only at the end."""

    def images(self, epoch: int, first: int, *, repeat: bool, train: bool) -> tf.data.Dataset:
        """Return an epoch's (image [size, size, 3] uint8, label int64), starting at image number `first`."""


@dataclass(kw_only=True)
class Passing:
    """Images that are read and decoded in every epoch. Encoded records are shuffled, which needs a tenth of the memory.

    Attributes:
        channel: The channel that provides the records, in order.
        config: The hyperparameters for size and augmentation.
        rank: The rank of this process, because augmentation differs between ranks.
        corrupt: The counter of images that cannot be decoded, if some are tolerated.
        classes: The names of the classes, if the channel is a folder of images.
    """

    channel: Channel
    config: Config
    rank: int
    corrupt: CorruptRecords
    classes: tuple[str, ...] = ()

    @property
    def count(self) -> int | None:
        """The number of records in this rank's share; None for a stream."""
        return self.channel.count

    def images(self, epoch: int, first: int, *, repeat: bool, train: bool) -> tf.data.Dataset:
        """Return an epoch's images; see Source."""
        elements, parse = self._elements(epoch)
        if repeat:
            elements = elements.repeat()
        seed = augment.mixed_seed(self.config.seed, epoch, self.rank, 1)
        bring = _bring_to_size(self.config, seed, train=train)
        if self.corrupt.tolerated:
            # Images that are left out do not count towards `first`, so the images before it must be decoded, too.
            numbered = elements.map(_plain(parse), num_parallel_calls=tf.data.AUTOTUNE).enumerate()
            return self.corrupt.of(numbered, bring, self.config.image_size).skip(first)

        def image(number: tf.Tensor, *element: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            encoded, label = parse(*element)
            return bring(number, encoded), label

        numbered = elements.skip(first).enumerate(start=first)
        if self.channel.holds_images:
            return numbered.map(_plain(lambda n, e: image(n, *e)), num_parallel_calls=tf.data.AUTOTUNE)
        return numbered.map(_plain(image), num_parallel_calls=tf.data.AUTOTUNE)

    def _elements(self, epoch: int) -> tuple[tf.data.Dataset, Step]:
        """Return the elements to read, and a function from an element to (encoded image, class)."""
        channel = self.channel
        if isinstance(channel, PipeChannel) or not channel.holds_images:
            return channel.records(epoch), parsed(channel.name, self.config)
        files = channel.image_files(epoch)
        labels = labels_of(channel.name, channel.folder, files, self.classes)
        names = tf.constant([str(path) for path in files], tf.string, shape=[len(files)])
        pairs = tf.data.Dataset.from_tensor_slices((names, tf.constant(labels, tf.int64, shape=[len(files)])))
        return pairs, lambda path, label: (tf.io.read_file(path), label)


class Kept:
    """Images that were decoded once and are cached in memory. An epoch shuffles all of them.

    Args:
        batches: The images of the share, in batches of (images, labels).
        config: The hyperparameters for seed, size and augmentation.
        rank: The rank of this process.
    """

    def __init__(self, batches: Iterable[tuple[tf.Tensor, tf.Tensor]], config: Config, rank: int) -> None:
        parts = [(images.numpy(), labels.numpy()) for images, labels in batches]
        empty: NDArray[np.uint8] = np.zeros([0, config.image_size, config.image_size, 3], np.uint8)
        with tf.device("CPU"):
            self._images = tf.constant(np.concatenate([empty, *(images for images, _ in parts)]))
            self._labels = tf.constant(np.concatenate([np.zeros([0], np.int64), *(labels for _, labels in parts)]))
        self._config = config
        self._rank = rank

    @property
    def count(self) -> int:
        """The number of images."""
        return int(self._labels.shape[0])

    def images(self, epoch: int, first: int, *, repeat: bool, train: bool) -> tf.data.Dataset:
        """Return an epoch's images; see Source."""
        places = np.arange(self.count)
        if train:
            places = np.random.default_rng([self._config.seed, epoch, self._rank]).permutation(self.count)
        order = tf.data.Dataset.from_tensor_slices(places)
        if repeat:
            order = order.repeat()
        return order.skip(first).map(
            _plain(lambda place: (tf.gather(self._images, place), tf.gather(self._labels, place)))
        )


def _bring_to_size(config: Config, seed: int, *, train: bool) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Return a function from (number in the epoch, encoded image) to an image [size, size, 3] uint8."""

    def part(number: tf.Tensor, encoded: tf.Tensor) -> tf.Tensor:
        if not augment.crops(config):
            return augment.decoded(encoded)
        if train:
            return augment.random_part(encoded, tf.stack([seed, number]))
        return augment.middle_part(augment.decoded(encoded))

    def bring(number: tf.Tensor, encoded: tf.Tensor) -> tf.Tensor:
        image = tf.image.resize(part(number, encoded), [config.image_size, config.image_size])
        return tf.ensure_shape(augment.in_bytes(image), [config.image_size, config.image_size, 3])

    return bring


def _plain(step: Step) -> Step:
    """Prevent AutoGraph from converting a function without Python control flow: that took most of the start-up time."""
    converted: Step = tf.autograph.experimental.do_not_convert(step)
    return converted
