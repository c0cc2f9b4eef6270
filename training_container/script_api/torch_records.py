"""Torch records: this rank's records as an IterableDataset of PyTorch.

Example:
    from trainer import records, torch_records

    train = torch_records.TorchRecords(records.open("train"), decode)
    for epoch in range(10):
        train.set_epoch(epoch)
        for batch in torch.utils.data.DataLoader(train, batch_size=32, num_workers=2): ...
"""

from collections.abc import Callable, Iterator
from typing import Any

import torch.utils.data

from training_container.script_api.records import ChannelError, Records


class TorchRecords(torch.utils.data.IterableDataset):
    """A rank's records. Each worker of a DataLoader reads its own range of them, so no byte is read twice.

    The records of all files are counted at the start, by their headers, unless the channel has `_records.json`. With
    `shard_by` "file" or "record", nothing is counted: every worker reads all of the rank's bytes, and yields every n-th
    record.

    Args:
        decode: Converts a record into an example; by default, examples are bytes.
    """

    def __init__(self, records: Records, decode: Callable[[bytes], Any] | None = None) -> None:
        self._records, self._decode = records, decode
        self._epoch = 0
        if records.files and records.reading.shard_by == "auto":
            _ = records.index  # before a DataLoader starts workers, each of which would count

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, which determines the order of the records."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        """Yield the examples of the epoch.

        Raises:
            ChannelError: A stream would be read by several workers.
        """
        worker = torch.utils.data.get_worker_info()
        if worker is not None and self._records.stream:
            raise ChannelError(f"Channel {self._records.name} is a stream, which only num_workers=0 can read.")
        mine = () if worker is None else (worker.id, worker.num_workers)
        records = self._records.records(self._epoch, *mine)
        return records if self._decode is None else map(self._decode, records)
