"""How a channel is read. Imports no TensorFlow."""

from dataclasses import dataclass
from typing import Protocol


class ChannelError(ValueError):
    """A channel cannot be read; the text names it, what is wrong, and what to do."""


class Place(Protocol):
    """This process among all ranks; cluster.Cluster is one."""

    @property
    def rank(self) -> int:
        """This process's number, from 0."""

    @property
    def size(self) -> int:
        """How many ranks there are."""

    @property
    def local_rank(self) -> int:
        """This process's number among the ranks of its host, from 0."""

    @property
    def local_size(self) -> int:
        """How many ranks its host has."""


@dataclass(frozen=True, kw_only=True)
class Reading:
    """How a channel is shuffled and shared out. Results are equal for equal values.

    Attributes:
        seed: of all shuffling.
        shard_by: "file", "record" or "auto" (shards.py); a streamed channel is shared out by what streams it.
        shuffle_files: read files in another order every epoch; a stream is shuffled by SageMaker's ShuffleConfig.
        shuffle_records: how many records are held in memory to be shuffled; 0: none are.
        parallel_reads: how many files are read at once.
        tolerate: how many records of an epoch this rank may skip because their data is corrupt.
        timeout_seconds: how long to wait for a stream to begin, and how long it may be silent.
    """

    seed: int = 0
    shard_by: str = "auto"
    shuffle_files: bool = True
    shuffle_records: int = 2048
    parallel_reads: int = 1
    tolerate: int = 0
    timeout_seconds: float = 600.0
