"""Epoch length: the number of batches that every rank has in an epoch, and messages about the records left out."""

from collections.abc import Sequence

from training_container.recipe.config import Config

WARN_ABOVE = 0.03
"""The share of a channel's records that an epoch may leave out without a warning."""


class LockstepError(ValueError):
    """A channel's epoch lacks batches or records. The text names the channel and the rank."""


def steps_of_epoch(channel: str, counts: Sequence[int], config: Config) -> int:
    """Return the number of batches of the channel `train` in an epoch, on every rank.

    Args:
        counts: The number of records of each rank.

    Raises:
        LockstepError: A rank has no record, or there are fewer than the hyperparameter train_records.
    """
    if min(counts) == 0:
        raise LockstepError(
            f"Channel {channel} has {sum(counts)} records, but rank {counts.index(0)} of {len(counts)} would have "
            "none. Start fewer ranks, check the channel's S3 prefix, or set shard_by to auto."
        )
    if sum(counts) < config.train_records:
        raise LockstepError(missing(channel, sum(counts), config.train_records))
    return config.steps_per_epoch or max(min(counts) // config.batch_size, 1)


def epoch_of(channel: str, counts: Sequence[int], steps: int, batch_size: int, *, is_chosen: bool = False) -> str:
    """Return a message about the records that an epoch leaves out, with a reason and a solution if they are many.

    Args:
        counts: The number of records of each rank.
        steps: The batches in an epoch on every rank.
        batch_size: Records per batch and rank.
        is_chosen: True if the user has set the number of steps.
    """
    unread_records = sum(max(count - steps * batch_size, 0) for count in counts)
    message = (
        f"Channel {channel}: {sum(counts):,} records make {steps} batches of {batch_size} on each of {len(counts)} "
        f"rank(s); {unread_records:,} records are left out of an epoch."
    )
    if is_chosen or unread_records <= WARN_ABOVE * sum(counts):
        return message
    uneven = sum(counts) - len(counts) * min(counts)
    way_out = (
        f"Ranks have from {min(counts):,} to {max(counts):,} records: set shard_by to auto (in File and FastFile "
        "mode), or use several files of equal size for each rank."
        if 2 * uneven > unread_records
        else "Reduce batch_size, or start fewer ranks."
    )
    return (
        f"{message} WARNING: that is {unread_records / sum(counts):.0%} of the data, which is not trained on. {way_out}"
    )


def missing(channel: str, read: int, expected: int) -> str:
    """Return the message for a channel with fewer records than expected."""
    return (
        f"Channel {channel} ended after {read:,} records, but hyperparameter {channel}_records requires "
        f"{expected:,}: part of the data is missing."
    )
