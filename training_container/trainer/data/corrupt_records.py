"""Corrupt records: the one interface that decides about invalid records.

It skips and counts as many as `tolerate_corrupt_records` allows, and fails with an explanation of the next one.

A record is corrupt if its CRC does not match, or if its image cannot be decoded. The readers in demux/record_reader.py
skip and count the first kind.
"""

import threading
from collections.abc import Callable, Iterator

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.recipe.config import Config
from training_container.trainer.data import diagnosis
from training_container.trainer.data.lockstep import Batch
from training_container.trainer.data.record_datasets import FileChannel, PipeChannel
from training_container.trainer.demux.framing import corrupt_records_seen

_lock = threading.Lock()
_undecodable = 0


class RecordError(ValueError):
    """A record is invalid for training. The text names the channel, the record if known, and the reason."""


def corrupt_records_of_all_ranks() -> int:
    """Return the number of records that all ranks have skipped. All ranks must call this together."""
    return int(hvd.allreduce(tf.constant(_skipped_count(), tf.int64), op=hvd.Sum, name="corrupt_records"))


class CorruptRecords:
    """Decides about one rank's invalid records in a channel.

    Attributes:
        tolerated: The number of records that may be skipped in an epoch.

    Args:
        channel: The channel that the records are read from.
        config: The hyperparameters, which define valid labels, and the number of records that may be skipped.
    """

    def __init__(self, channel: FileChannel | PipeChannel, config: Config) -> None:
        self.tolerated = config.tolerate_corrupt_records
        self._channel = channel
        self._config = config
        self.restart()

    def restart(self) -> None:
        """Reset the count at the beginning of an epoch."""
        self._before = _skipped_count()

    @property
    def count(self) -> int:
        """The number of records that this epoch has skipped so far."""
        return _skipped_count() - self._before

    def checked(self, batches: Iterator[Batch], *, epoch: int, first: int, size: int) -> Iterator[Batch]:
        """Yield a rank's batches until a record is invalid, or the epoch has skipped too many.

        Args:
            batches: The batches, of `size` images each.
            epoch: The epoch's number for the channel.
            first: The number of the first batch in the epoch.
            size: Images per batch.

        Raises:
            RecordError: A record is invalid. The text names the file and the record if they can be found.
        """
        for number in range(first, 2**62):
            try:
                batch = next(batches)
            except StopIteration:
                break
            except (tf.errors.InvalidArgumentError, tf.errors.DataLossError, UnicodeDecodeError) as error:
                records = range(number * size, (number + 1) * size)
                raise RecordError(diagnosis.explained(error, self._channel, self._config, epoch, records)) from error
            self._check()
            yield batch
        self._check()

    def explain(self, record: bytes) -> int:
        """Raise the error of an invalid record, for a function of TensorFlow that returns its label.

        Raises:
            RecordError: Always.
        """
        raise RecordError(f"Channel {self._channel.name}: {diagnosis.problem(record, self._config)}")

    def images(
        self, examples: tf.data.Dataset, decode: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], size: int
    ) -> tf.data.Dataset:
        """Return (image, label) of the examples that can be decoded, in order.

        Args:
            examples: Elements (number, (encoded image, label)).
            decode: A function from number and encoded image to the image.
            size: The image's height and width.
        """
        nothing = tf.data.Dataset.from_tensors((tf.zeros([size, size, 3], tf.uint8), tf.constant(-1, tf.int64)))

        def image_or_nothing(number: tf.Tensor, example: tuple[tf.Tensor, tf.Tensor]) -> tf.data.Dataset:
            # One dataset for each image, because ignore_errors ignores the errors of all preceding transformations.
            single = tf.data.Dataset.from_tensors((number, *example))
            image = single.map(lambda number, encoded, label: (decode(number, encoded), label))
            return image.ignore_errors().concatenate(nothing).take(1)

        def is_image(_image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
            return tf.cond(label >= 0, lambda: True, lambda: tf.numpy_function(_count_undecodable, [], tf.bool))

        images = examples.interleave(image_or_nothing, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE)
        return images.filter(tf.autograph.experimental.do_not_convert(is_image))

    def report(self, epoch: int) -> None:
        """Print the number of records that this rank has skipped in the epoch, if any."""
        if self.count:
            print(
                f"Channel {self._channel.name}: rank {hvd.rank()} left out {self.count} corrupt record(s) of epoch "
                f"{epoch + 1}; tolerate_corrupt_records allows {self.tolerated}."
            )

    def _check(self) -> None:
        if self.count > self.tolerated:
            raise RecordError(
                f"Channel {self._channel.name}: {self.count} records are corrupt or have an image that cannot be "
                f"decoded, but tolerate_corrupt_records allows {self.tolerated} per epoch and rank. Rewrite the "
                "objects."
            )


def _skipped_count() -> int:
    """Return the number of records that this process has skipped, in all channels and epochs."""
    return corrupt_records_seen() + _undecodable


def _count_undecodable() -> bool:
    global _undecodable  # noqa: PLW0603  # a single count for the process, like corrupt_records_seen
    with _lock:
        _undecodable += 1
    return False
