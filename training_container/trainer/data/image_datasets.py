"""Image datasets: one rank's decoded images of a channel, read again in every epoch or cached in memory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import numpy as np
import tensorflow as tf

from training_container.trainer.data import augment
from training_container.trainer.data.image_folder import labels_of
from training_container.trainer.data.record_datasets import FileChannel, PipeChannel

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from training_container.recipe.config import Config
    from training_container.trainer.data.corrupt_records import CorruptRecords

    Step = Callable[..., tuple[tf.Tensor, ...]]

# Source: the ImageNet schema of TensorFlow's TFRecord builder, models/research/inception/build_imagenet_data.py.
IMAGE, LABEL = "image/encoded", "image/class/label"
_NO_LABEL = -(2**62)
_FEATURES = {
    IMAGE: tf.io.FixedLenFeature([], tf.string, default_value=""),
    LABEL: tf.io.FixedLenFeature([], tf.int64, default_value=_NO_LABEL),
}


class ImageDataset(Protocol):
    """One rank's images of a channel."""

    @property
    def count(self) -> int | None:
        """The number of images; None if it is known only at the end."""

    def images(self, epoch: int, first: int, *, repeat: bool, train: bool) -> tf.data.Dataset:
        """Return an epoch's (image [size, size, 3] uint8, label int64), starting at image number `first`."""


class StreamingDataset:
    """Images that are read and decoded in every epoch. Encoded records are shuffled, which needs a tenth of the memory.

    Args:
        channel: The channel that provides the records, in order.
        config: The hyperparameters for size and augmentation.
        rank: The rank of this process, because augmentation differs between ranks.
        corrupt: Decides about invalid records.
        classes: The names of the classes, if the channel is a folder of images.
    """

    def __init__(
        self,
        channel: FileChannel | PipeChannel,
        config: Config,
        rank: int,
        corrupt: CorruptRecords,
        classes: tuple[str, ...] = (),
    ) -> None:
        self._channel = channel
        self._config = config
        self._rank = rank
        self._corrupt = corrupt
        self._classes = classes

    @property
    def count(self) -> int | None:
        """The number of records in this rank's share; None for a stream."""
        return self._channel.count

    def images(self, epoch: int, first: int, *, repeat: bool, train: bool) -> tf.data.Dataset:
        """Return an epoch's images; see ImageDataset."""
        elements, parse = self._elements(epoch)
        if repeat:
            elements = elements.repeat()
        seed = augment.mixed_seed(self._config.seed, epoch, self._rank, 1)
        decode = _decode_and_resize(self._config, seed, train=train)
        if self._corrupt.tolerated:
            # Skipped images do not count towards `first`, so the images before it must be decoded, too.
            numbered_elements = elements.map(_no_autograph(parse), num_parallel_calls=tf.data.AUTOTUNE).enumerate()
            return self._corrupt.images(numbered_elements, decode, self._config.image_size).skip(first)

        def image(number: tf.Tensor, *element: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            encoded, label = parse(*element)
            return decode(number, encoded), label

        numbered_elements = elements.skip(first).enumerate(start=first)
        if self._channel.holds_images:
            return numbered_elements.map(_no_autograph(lambda n, e: image(n, *e)), num_parallel_calls=tf.data.AUTOTUNE)
        return numbered_elements.map(_no_autograph(image), num_parallel_calls=tf.data.AUTOTUNE)

    def _elements(self, epoch: int) -> tuple[tf.data.Dataset, Step]:
        """Return the elements to read, and a function from an element to (encoded image, class)."""
        channel = self._channel
        if isinstance(channel, PipeChannel) or not channel.holds_images:
            return channel.records(epoch), self._parse
        files = channel.image_files(epoch)
        labels = labels_of(channel.name, channel.folder, files, self._classes)
        names = tf.constant([str(path) for path in files], tf.string, shape=[len(files)])
        pairs = tf.data.Dataset.from_tensor_slices((names, tf.constant(labels, tf.int64, shape=[len(files)])))
        return pairs, lambda path, label: (tf.io.read_file(path), label)

    def _parse(self, record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
        """Return the encoded image of a record, and its class counted from 0. An invalid record is explained."""
        example = tf.io.parse_single_example(record, _FEATURES)
        encoded = example[IMAGE]
        label = example[LABEL] - self._config.first_label
        valid = (label >= 0) & (label < self._config.classes) & (encoded != "")
        # Python is called only for an invalid record.
        label = tf.cond(valid, lambda: label, lambda: tf.numpy_function(self._corrupt.explain, [record], tf.int64))
        with tf.control_dependencies([label]):  # an invalid label is reported before an invalid image
            return tf.identity(encoded), tf.ensure_shape(label, [])


class CachedDataset:
    """Images that were decoded once and are cached in memory. An epoch shuffles all of them.

    Args:
        batches: The images of the share, in batches of (images, labels).
        config: The hyperparameters for seed, size and augmentation.
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
        """Return an epoch's images; see ImageDataset."""
        indices = np.arange(self.count)
        if train:
            indices = np.random.default_rng([self._config.seed, epoch, self._rank]).permutation(self.count)
        order = tf.data.Dataset.from_tensor_slices(indices)
        if repeat:
            order = order.repeat()
        return order.skip(first).map(
            _no_autograph(lambda index: (tf.gather(self._images, index), tf.gather(self._labels, index)))
        )


def _decode_and_resize(config: Config, seed: int, *, train: bool) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Return a function from (number in the epoch, encoded image) to an image [size, size, 3] uint8."""

    def cropped(number: tf.Tensor, encoded: tf.Tensor) -> tf.Tensor:
        if not augment.crops(config):
            return augment.decode_image(encoded)
        if train:
            return augment.decode_random_crop(encoded, tf.stack([seed, number]))
        return augment.crop_middle(augment.decode_image(encoded))

    def decode(number: tf.Tensor, encoded: tf.Tensor) -> tf.Tensor:
        image = tf.image.resize(cropped(number, encoded), [config.image_size, config.image_size])
        return tf.ensure_shape(augment.round_to_bytes(image), [config.image_size, config.image_size, 3])

    return decode


def _no_autograph(step: Step) -> Step:
    """Prevent AutoGraph from converting a function without Python control flow: that took most of the start-up time."""
    converted: Step = tf.autograph.experimental.do_not_convert(step)
    return converted
