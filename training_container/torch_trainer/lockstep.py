"""Lockstep: as many batches in an epoch on every rank, because a rank with more would wait for the others forever.

If records are counted, or steps_per_epoch is given, the number is known before the first epoch. For other streams, the
ranks exchange before each step whether all have a batch, as the trainer for TensorFlow does.
"""

from collections.abc import Iterator
from datetime import timedelta
from typing import TypeVar

import torch
import torch.distributed as dist

from training_container.recipe.config import Config
from training_container.recipe.epoch_length import LockstepError, epoch_of, missing

Batch = TypeVar("Batch")


def counted(batches: Iterator[Batch], numbers: range, channel: str, epoch: int) -> Iterator[Batch]:
    """Yield the batches with these numbers.

    Raises:
        LockstepError: The batches end before.
    """
    for number in numbers:
        batch = next(batches, None)
        if batch is None:
            raise LockstepError(
                f"Channel {channel} ended after {number} of {numbers.stop} batches on rank {dist.get_rank()}, in epoch "
                f"{epoch + 1}. It was truncated, its data changed during training, or steps_per_epoch is too high: "
                f"set it to {number} or less, or replace it by train_records, for as many as every rank has."
            )
        yield batch


class StreamLockstep:
    """The lockstep of a stream of unknown length. All ranks create it together, and call its methods together.

    Args:
        timeout: The time that a rank waits for the others; None for PyTorch's default.
    """

    def __init__(self, channel: str, config: Config, timeout: timedelta | None) -> None:
        self._channel, self._config = channel, config
        # On the hosts' processors: an exchange by the GPUs would wait until they have computed the previous step.
        self._group = dist.new_group(backend="gloo", timeout=timeout)
        self._printed: list[int] = []

    def batches(self, batches: Iterator[Batch]) -> Iterator[Batch]:
        """Yield batches while every rank has one."""
        while True:
            batch = next(batches, None)
            has_batch = torch.tensor(int(batch is not None))
            dist.all_reduce(has_batch, op=dist.ReduceOp.MIN, group=self._group)
            if batch is None or not has_batch:
                return
            yield batch

    def finish(self, records: int, steps: int) -> None:
        """Check the number of records that all ranks have read in an epoch, and print it if it has changed.

        Args:
            records: The number of this rank's records.
            steps: The number of batches.

        Raises:
            LockstepError: They are fewer than the hyperparameter train_records, or a rank has too few for a batch.
        """
        counts: list[int] = [0] * dist.get_world_size()
        dist.all_gather_object(counts, records, group=self._group)
        size = self._config.batch_size
        if sum(counts) < self._config.train_records:
            raise LockstepError(missing(self._channel, sum(counts), self._config.train_records))
        if not steps:
            raise LockstepError(
                f"Channel {self._channel} has too few records for a batch of {size} on every rank: rank "
                f"{counts.index(min(counts))} has {min(counts)}, all ranks have {sum(counts)}. Reduce batch_size, "
                "start fewer ranks, or check the channel's S3 prefix."
            )
        if dist.get_rank() == 0 and counts != self._printed:
            print(epoch_of(self._channel, counts, steps, size))
        self._printed = counts
