"""Torch records: this rank's records as an IterableDataset of PyTorch.

Example:
    from trainer import records, torch_records

    train = torch_records.TorchRecords(records.open("train"), decode)
    for epoch in range(10):
        train.set_epoch(epoch)
        for batch in torch.utils.data.DataLoader(train, batch_size=32, num_workers=2): ...
"""

from collections.abc import Callable, Iterator
from itertools import islice
from typing import Any

import torch.utils.data

from training_container.script_api.records import ChannelError, Records


class TorchRecords(torch.utils.data.IterableDataset):
    """A rank's records. With several workers, each one yields every n-th record, and all of them read all bytes.

    Args:
        records: The records of this rank.
        decode: Converts a record into an example; by default, examples are bytes.
    """

    def __init__(self, records: Records, decode: Callable[[bytes], Any] | None = None) -> None:
        self._records, self._decode = records, decode
        self._epoch = 0

    def set_epoch(self, epoch: int) -> None:
        """Set the epoch of the next iteration, which determines the order of the records."""
        self._epoch = epoch

    def __iter__(self) -> Iterator[Any]:
        """Yield the examples of the epoch.

        Raises:
            ChannelError: A stream would be read by several workers.
        """
        worker = torch.utils.data.get_worker_info()
        found = self._records.records(self._epoch)
        if worker is not None:
            if self._records.stream:
                raise ChannelError(f"Channel {self._records.name} is a stream, which only num_workers=0 can read.")
            found = islice(found, worker.id, None, worker.num_workers)
        return found if self._decode is None else map(self._decode, found)
