"""Corrupt records: skips and counts corrupt records, if `tolerate_corrupt_records` allows some."""

import threading
from collections.abc import Callable, Iterator

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.trainer.data.examples import RecordError
from training_container.trainer.data.lockstep import Batch
from training_container.trainer.demux.framing import corrupt_records_seen

_lock = threading.Lock()
_undecodable = 0


def _seen() -> int:
    """Return the number of records that this process has left out, in all channels and epochs."""
    return corrupt_records_seen() + _undecodable


def corrupt_records_of_all_ranks() -> int:
    """Return the number of records that all ranks have left out. All ranks must call this together."""
    return int(hvd.allreduce(tf.constant(_seen(), tf.int64), op=hvd.Sum, name="corrupt_records"))


class CorruptRecords:
    """Counts one rank's corrupt records in a channel's epoch: the CRC does not match, or the image does not decode.

    Args:
        channel: The channel's name, for messages.
        tolerated: The number of records that may be left out of an epoch.
    """

    def __init__(self, channel: str, tolerated: int) -> None:
        self.tolerated = tolerated
        self._channel = channel
        self.restart()

    def restart(self) -> None:
        """Reset the count at the beginning of an epoch."""
        self._before = _seen()

    @property
    def count(self) -> int:
        """The number of records that this epoch has left out so far."""
        return _seen() - self._before

    def checked(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches until the epoch has left out too many records.

        Raises:
            RecordError: The epoch has left out more records than tolerated.
        """
        for batch in batches:
            self._check()
            yield batch
        self._check()

    def report(self, epoch: int) -> None:
        """Print the number of records that this rank has left out of the epoch, if any."""
        if self.count:
            print(
                f"Channel {self._channel}: rank {hvd.rank()} left out {self.count} corrupt record(s) of epoch "
                f"{epoch + 1}; tolerate_corrupt_records allows {self.tolerated}."
            )

    def _check(self) -> None:
        if self.count > self.tolerated:
            raise RecordError(
                f"Channel {self._channel}: {self.count} records are corrupt or have an image that cannot be decoded, "
                f"but tolerate_corrupt_records allows {self.tolerated} per epoch and rank. Rewrite the objects."
            )

    def of(
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
            one = tf.data.Dataset.from_tensors((number, *example))
            image = one.map(lambda number, encoded, label: (decode(number, encoded), label))
            return image.ignore_errors().concatenate(nothing).take(1)

        def is_image(_image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
            return tf.cond(label >= 0, lambda: True, lambda: tf.numpy_function(_count_undecodable, [], tf.bool))

        images = examples.interleave(image_or_nothing, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE)
        return images.filter(tf.autograph.experimental.do_not_convert(is_image))


def _count_undecodable() -> bool:
    global _undecodable  # noqa: PLW0603  # a single count for the process, like corrupt_records_seen
    with _lock:
        _undecodable += 1
    return False
