"""Ranks that agree on how many batches make an epoch: one that had more would wait for the others for ever."""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import horovod.tensorflow as hvd
import tensorflow as tf

Batch: TypeAlias = tuple[tf.Tensor, tf.Tensor]  # images [batch, size, size, 3] float32 and labels [batch] int64
MUCH = 0.03
"""The share of a channel's records that an epoch may leave out without a warning."""


class LockstepError(ValueError):
    """A channel's epoch has not the batches or records that it must have; the text says which and on which rank."""


class Lockstep:
    """How many batches an epoch has on every rank, and iterators that keep to it.

    Where records were counted, the number is known before. Where they come as a stream, ranks ask one another at each
    step of the first epoch whether all have a batch (an allreduce of one number), and remember the number; a later
    epoch that is shorter fails, because its stream was cut.

    Args:
        channel: its name, for messages.
        batch_size: records per batch and rank.
        steps: batches per epoch of every rank, or None where that is not known.
        images: records of all ranks, or None where that is not known.
        expected: how many records there must be at least.
        exact: no record may be left out; else one that is corrupt may shorten an epoch.
        same: a rank has the same records in every epoch; else, as where they are not exact, ranks ask in all epochs.
    """

    def __init__(  # noqa: PLR0913
        self,
        channel: str,
        batch_size: int,
        *,
        steps: int | None,
        images: int | None = None,
        expected: int = 0,
        exact: bool = True,
        same: bool = True,
    ) -> None:
        self.steps = steps
        self.images = images
        self._channel = channel
        self._batch_size = batch_size
        self._expected = expected
        self._exact = exact
        self._ask_always = not (exact and same) and steps is None

    def epoch(self, batches: Iterator[Batch], epoch: int, skip: int = 0) -> Iterator[Batch]:
        """Yield as many batches as every other rank.

        Args:
            batches: this rank's, the first `skip` left out already; a short one may come last.
            epoch: its number from 0, for messages.
            skip: how many batches of the epoch were trained before.

        Raises:
            LockstepError: the batches end before they should, or no rank has one, or records are missing.
        """
        if self.steps is None or self._ask_always:
            yield from self._asked(batches, skip)
        else:
            yield from self._counted(batches, epoch, skip, self.steps)

    def _counted(self, batches: Iterator[Batch], epoch: int, skip: int, steps: int) -> Iterator[Batch]:
        for step in range(skip, steps):
            batch = next(batches, None)
            if batch is None or not self._is_full(batch):
                raise LockstepError(
                    f"The stream of channel {self._channel} ended after {step} of {steps} batches on rank "
                    f"{hvd.rank()}, in epoch {epoch + 1}. It was cut, or its data changed while training."
                )
            yield batch

    def _asked(self, batches: Iterator[Batch], skip: int) -> Iterator[Batch]:
        step = skip
        while True:
            batch = next(batches, None)
            if not all_ranks(self._is_full(batch)) or batch is None:
                break
            step += 1
            yield batch
        left_out = _records(batch) + sum(_records(more) for more in batches)
        self._remember(step, left_out)

    def _remember(self, steps: int, left_out: int) -> None:
        """Exchange what every rank has read, and keep the number of steps."""
        left = hvd.allgather(tf.constant([left_out], tf.int64), name="records_left_out").numpy().tolist()
        read = [steps * self._batch_size + records for records in left]
        if steps == 0:
            raise LockstepError(
                f"Channel {self._channel} has not a batch of {self._batch_size} records for every rank: rank "
                f"{read.index(min(read))} has {min(read)}, all ranks have {sum(read)}. Lower batch_size, start fewer "
                "ranks, or check the channel's S3 prefix."
            )
        if sum(read) < self._expected and self._exact:
            raise LockstepError(missing(self._channel, sum(read), self._expected))
        changed = (steps, sum(read)) != (self.steps, self.images)
        self.steps, self.images = steps, sum(read)
        if hvd.rank() == 0 and changed:
            print(epoch_of(self._channel, read, steps, self._batch_size))

    def _is_full(self, batch: Batch | None) -> bool:
        return batch is not None and _records(batch) == self._batch_size


def epoch_of(channel: str, counts: Sequence[int], steps: int, batch_size: int, *, wanted: bool = False) -> str:
    """Return the sentence that says what an epoch leaves out; where that is much, why and what to do about it.

    Args:
        channel: its name.
        counts: the records of each rank.
        steps: batches per epoch of every rank.
        batch_size: records per batch and rank.
        wanted: the number of steps is what somebody asked for.
    """
    left = sum(max(count - steps * batch_size, 0) for count in counts)
    told = (
        f"Channel {channel}: {sum(counts):,} records make {steps} batches of {batch_size} on each of {len(counts)} "
        f"rank(s); {left:,} records are left out of an epoch."
    )
    if wanted or left <= MUCH * sum(counts):
        return told
    uneven = sum(counts) - len(counts) * min(counts)
    way_out = (
        f"Ranks have from {min(counts):,} to {max(counts):,} records: let shard_by be record (in File and FastFile "
        "mode), or give the channel files of one size, several for each rank."
        if 2 * uneven > left
        else "Lower batch_size, or start fewer ranks."
    )
    return f"{told} WARNING: that is {left / sum(counts):.0%} of the data, which is not trained on. {way_out}"


def check_total(channel: str, read: int, expected: int) -> None:
    """Check that all ranks together have read as many records as they should; they must ask together.

    Raises:
        LockstepError: they have not.
    """
    total = int(hvd.allreduce(tf.constant(read, tf.int64), op=hvd.Sum, name=f"records_of_{channel}"))
    if total < expected:
        raise LockstepError(missing(channel, total, expected))


def missing(channel: str, read: int, expected: int) -> str:
    """Return the sentence for a channel that has fewer records than expected."""
    return (
        f"Channel {channel} ended after {read:,} records, but hyperparameter {channel}_records says {expected:,}: a "
        "part of it is missing."
    )


def all_ranks(flag: bool) -> bool:
    """Return whether the flag is set on every rank: all get the same answer, and must ask together."""
    return bool(hvd.allreduce(tf.constant(int(flag)), op=hvd.Min, name="all_ranks"))


def _records(batch: Batch | None) -> int:
    return 0 if batch is None else int(batch[1].shape[0])
