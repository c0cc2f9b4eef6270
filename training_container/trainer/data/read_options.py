"""Read options: the options for reading a channel. Does not import TensorFlow."""

from dataclasses import dataclass
from typing import Protocol


class ChannelError(ValueError):
    """A channel cannot be read. The text names it and the reason, and suggests a solution."""


class Place(Protocol):
    """The position of this process among all ranks; cluster.Cluster implements it."""

    @property
    def rank(self) -> int:
        """This process's number, from 0."""

    @property
    def size(self) -> int:
        """The number of ranks."""

    @property
    def local_rank(self) -> int:
        """This process's number among the ranks of its host, from 0."""

    @property
    def local_size(self) -> int:
        """The number of ranks on its host."""


@dataclass(frozen=True, kw_only=True)
class ReadOptions:
    """The options for shuffling and sharding a channel. Equal options produce equal results.

    Attributes:
        seed: The seed of all shuffling.
        shard_by: The share of a rank: "auto" is a range of records, "file" whole files, "record" every n-th record
            (shards.py). For a stream, SageMaker or the demultiplexer does it.
        shuffle_files: If true, read files in a different order in every epoch. SageMaker's ShuffleConfig does this for
            a stream.
        shuffle_records: The number of records in the shuffle buffer; 0 disables shuffling.
        parallel_reads: The number of files that are read at once; 0: 8 in FastFile mode, otherwise 1.
        tolerate: The number of corrupt records that this rank may skip in an epoch.
        timeout_seconds: The maximum time until a stream begins, and the maximum time without data.
    """

    seed: int = 0
    shard_by: str = "auto"
    shuffle_files: bool = True
    shuffle_records: int = 2048
    parallel_reads: int = 0
    tolerate: int = 0
    timeout_seconds: float = 600.0
