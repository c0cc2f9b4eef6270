"""Records that are left out because they are corrupt, where `tolerate_corrupt_records` allows some."""

import threading
from collections.abc import Callable, Iterator

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.trainer.block_reader import corrupt_records_seen
from training_container.trainer.examples import RecordError
from training_container.trainer.lockstep import Batch

_lock = threading.Lock()
_undecodable = 0


def left_out_so_far() -> int:
    """Return how many records this process has left out, of all channels and epochs."""
    return corrupt_records_seen() + _undecodable


def left_out_by_all_ranks() -> int:
    """Return how many records all ranks have left out so far; they must ask together."""
    return int(hvd.allreduce(tf.constant(left_out_so_far(), tf.int64), op=hvd.Sum, name="corrupt_records"))


class LeftOut:
    """Counts one rank's records of a channel's epoch that have a wrong CRC or whose image does not decode.

    Args:
        channel: for messages.
        tolerated: how many an epoch may leave out.
    """

    def __init__(self, channel: str, tolerated: int) -> None:
        self.tolerated = tolerated
        self._channel = channel
        self.begin()

    def begin(self) -> None:
        """Count afresh, as an epoch begins."""
        self._before = left_out_so_far()

    @property
    def count(self) -> int:
        """How many this epoch has left out so far."""
        return left_out_so_far() - self._before

    def checked(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches until the epoch has left out more than it may.

        Raises:
            RecordError: it has.
        """
        for batch in batches:
            self._check()
            yield batch
        self._check()

    def tell(self, epoch: int) -> None:
        """Print how many records the epoch has left out on this rank, if any."""
        if self.count:
            print(
                f"Channel {self._channel}: rank {hvd.rank()} left out {self.count} corrupt record(s) of epoch "
                f"{epoch + 1}; tolerate_corrupt_records allows {self.tolerated}."
            )

    def _check(self) -> None:
        if self.count > self.tolerated:
            raise RecordError(
                f"Channel {self._channel}: {self.count} records are corrupt or hold an image that does not decode, but "
                f"tolerate_corrupt_records allows {self.tolerated} of an epoch and rank. Write the objects again."
            )

    def of(
        self, examples: tf.data.Dataset, decode: Callable[[tf.Tensor, tf.Tensor], tf.Tensor], size: int
    ) -> tf.data.Dataset:
        """Return (image, label) of the examples that decode, in order.

        Args:
            examples: of (number, (encoded image, label)).
            decode: the step from number and encoded image to the image.
            size: the image's height and width.
        """
        nothing = tf.data.Dataset.from_tensors((tf.zeros([size, size, 3]), tf.constant(-1, tf.int64)))

        def image_or_nothing(number: tf.Tensor, example: tuple[tf.Tensor, tf.Tensor]) -> tf.data.Dataset:
            # A data set of its own for every image, because ignore_errors ignores those of all that is before it.
            one = tf.data.Dataset.from_tensors((number, *example))
            image = one.map(lambda number, encoded, label: (decode(number, encoded), label))
            return image.ignore_errors().concatenate(nothing).take(1)

        def is_image(_image: tf.Tensor, label: tf.Tensor) -> tf.Tensor:
            return tf.cond(label >= 0, lambda: True, lambda: tf.numpy_function(_leave_out, [], tf.bool))

        images = examples.interleave(image_or_nothing, cycle_length=16, num_parallel_calls=tf.data.AUTOTUNE)
        return images.filter(tf.autograph.experimental.do_not_convert(is_image))


def _leave_out() -> bool:
    global _undecodable  # noqa: PLW0603  # as of corrupt_records_seen: one figure for the process is what is asked for
    with _lock:
        _undecodable += 1
    return False
