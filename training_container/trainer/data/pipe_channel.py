"""Pipe channel: reads a channel from a stream, in SageMaker's input mode Pipe."""

from pathlib import Path

import tensorflow as tf

from training_container.trainer.data.file_channel import shuffled
from training_container.trainer.data.read_options import Place, ReadOptions
from training_container.trainer.demux import demultiplexer, record_reader


class PipeChannel:
    """One rank's share of a streamed channel. See channels.Channel.

    Attributes:
        path: The FIFO that was opened last; "" before the first.

    Args:
        name: The channel's name.
        stream: The channel whose FIFO provides the stream: the same name, or with the rank's number.
        folder: The folder in which the FIFOs appear.
        place: The position of this rank.
        reading: The options for shuffling.
        streams: "rank" if this rank has its own stream, "host" if the ranks of this host share it.
    """

    mode = "Pipe"
    count = None
    holds_images = False

    def __init__(  # noqa: PLR0913  # all are keyword-only
        self, name: str, stream: str, folder: Path, place: Place, reading: ReadOptions, *, streams: str
    ) -> None:
        self.name = name
        self.streams = streams
        self._stream = stream
        self._folder = folder
        self._place = place
        self._reading = reading
        self._opened = 0
        self.path = ""

    def records(self, epoch: int) -> tf.data.Dataset:
        """Return this rank's records of an epoch, each a scalar tf.string. The dataset can be iterated only once.

        Every call reads the next FIFO, <channel>_0, <channel>_1, ..., regardless of the epoch: SageMaker restarts
        counting when a training is resumed on another host. The epoch only affects shuffling.
        """
        number, self._opened = self._opened, self._opened + 1
        self.path = self._path(number)
        records = record_reader.fifo_records(
            self.path,
            self._stream,
            tolerate=self._reading.tolerate,
            timeout_seconds=self._reading.timeout_seconds,
        )
        return shuffled(records, self._reading, epoch, self._place.rank)

    def _path(self, number: int) -> str:
        """Return the FIFO to read: the stream, or this rank's part of it if the host's ranks share the stream."""
        if self.streams == "rank":
            return str(self._folder / f"{self._stream}_{number}")
        place, timeout = self._place, self._reading.timeout_seconds
        return demultiplexer.rank_fifo(
            self._folder, self._stream, number, place.local_rank, place.local_size, timeout_seconds=timeout
        )
