"""Lockstep: ranks agree on the number of batches in an epoch, because a rank with more would wait forever."""

from collections.abc import Iterator
from typing import TypeAlias

import horovod.tensorflow as hvd
import tensorflow as tf

from training_container.recipe.epoch_length import LockstepError, epoch_of, missing

Batch: TypeAlias = tuple[tf.Tensor, tf.Tensor]  # images [batch, size, size, 3] uint8 and labels [batch] int64


class Lockstep:
    """The number of batches in an epoch, the same on every rank, and iterators that enforce it.

    If records were counted, the number is known in advance. For streams, ranks exchange at each step of the first epoch
    whether all have a batch (an allreduce of one number), and remember the result. A later epoch that is shorter fails,
    because its stream was truncated.

    Args:
        channel: The channel's name, for messages.
        batch_size: Records per batch and rank.
        steps: The batches in an epoch on every rank; None if unknown.
        images: The records of all ranks; None if unknown.
        min_images: The minimum number of records of all ranks.
        exact: If true, no record may be left out; otherwise corrupt records may shorten an epoch.
        same: If true, a rank has the same records in every epoch. If not, or if not `exact`, ranks exchange in all
            epochs.
    """

    def __init__(  # noqa: PLR0913  # all are keyword-only
        self,
        channel: str,
        batch_size: int,
        *,
        steps: int | None,
        images: int | None = None,
        min_images: int = 0,
        exact: bool = True,
        same: bool = True,
    ) -> None:
        self.steps = steps
        self.images = images
        self._channel = channel
        self._batch_size = batch_size
        self._min_images = min_images
        self._exact = exact
        self._ask_always = steps is None and not (exact and same)

    def epoch(self, batches: Iterator[Batch], epoch: int, skip: int = 0) -> Iterator[Batch]:
        """Yield as many batches as every other rank.

        Args:
            batches: This rank's batches after the first `skip`; the last may be smaller.
            epoch: The epoch's number, from 0, for messages.
            skip: The number of the epoch's batches that were trained before.

        Raises:
            LockstepError: The batches end early, no rank has one, or records are missing.
        """
        if self.steps is None or self._ask_always:
            yield from self._agreed_batches(batches, skip)
        else:
            yield from self._counted_batches(batches, epoch, skip, self.steps)

    def _counted_batches(self, batches: Iterator[Batch], epoch: int, skip: int, steps: int) -> Iterator[Batch]:
        for step in range(skip, steps):
            batch = next(batches, None)
            if batch is None or not self._is_full(batch):
                raise LockstepError(
                    f"The stream of channel {self._channel} ended after {step} of {steps} batches on rank "
                    f"{hvd.rank()}, in epoch {epoch + 1}. It was truncated, its data changed during training, or the "
                    "index of its records (_records.json) is of other files."
                )
            yield batch

    def _agreed_batches(self, batches: Iterator[Batch], skip: int) -> Iterator[Batch]:
        step = skip
        while True:
            batch = next(batches, None)
            if not all_ranks(self._is_full(batch)) or batch is None:
                break
            step += 1
            yield batch
        remainder = _records(batch) + sum(_records(batch_of_rest) for batch_of_rest in batches)
        self._remember(step, remainder)

    def _remember(self, steps: int, remainder: int) -> None:
        """Exchange the number of records that every rank has read, and store the number of steps."""
        remainders = hvd.allgather(tf.constant([remainder], tf.int64), name="remainder_of_records").numpy().tolist()
        records_by_rank = [steps * self._batch_size + records for records in remainders]
        fewest, total = min(records_by_rank), sum(records_by_rank)
        if steps == 0:
            raise LockstepError(
                f"Channel {self._channel} has too few records for a batch of {self._batch_size} on every rank: rank "
                f"{records_by_rank.index(fewest)} has {fewest}, all ranks have {total}. Reduce batch_size, start fewer "
                "ranks, or check the channel's S3 prefix."
            )
        if total < self._min_images and self._exact:
            raise LockstepError(missing(self._channel, total, self._min_images))
        has_changed = (steps, sum(records_by_rank)) != (self.steps, self.images)
        self.steps, self.images = steps, sum(records_by_rank)
        if hvd.rank() == 0 and has_changed:
            print(epoch_of(self._channel, records_by_rank, steps, self._batch_size))

    def _is_full(self, batch: Batch | None) -> bool:
        return batch is not None and _records(batch) == self._batch_size


def check_total(channel: str, read: int, expected: int) -> None:
    """Check that all ranks together have read the expected number of records. All ranks must call this together.

    Raises:
        LockstepError: They have read fewer.
    """
    total = int(hvd.allreduce(tf.constant(read, tf.int64), op=hvd.Sum, name=f"records_of_{channel}"))
    if total < expected:
        raise LockstepError(missing(channel, total, expected))


def all_ranks(flag: bool) -> bool:
    """Return True if the flag is set on every rank. All ranks must call this together."""
    return bool(hvd.allreduce(tf.constant(int(flag)), op=hvd.Min, name="all_ranks"))


def _records(batch: Batch | None) -> int:
    return 0 if batch is None else int(batch[1].shape[0])
