"""Shared index: the ranks count a channel's records together, or read the counts of an earlier job."""

from collections import ChainMap
from collections.abc import Mapping
from pathlib import Path

import horovod.tensorflow as hvd

from training_container.trainer.data.file_channel import Count
from training_container.trainer.data.read_options import Place
from training_container.trainer.data.record_index import WITH_THE_DATA, Index, Part, record_index, store, stored


def count_together(name: str, folder: Path, checkpoints: Path, place: Place, *, among_local: bool) -> Count:
    """Return a function that counts a channel's records, on all ranks together if Horovod has started as many.

    Args:
        name: The channel's name.
        folder: The channel's folder, which may have an index beside the data.
        checkpoints: The folder of checkpoints, where rank 0 stores the index if it exists, for a job that is resumed.
        place: The position of this rank.
        among_local: If true, each host has other files.
    """
    together = hvd.is_initialized() and hvd.size() == place.size > 1
    kept = checkpoints / f"records-{name}.json"

    def exchange(part: Part) -> list[Part]:
        parts: list[Part] = hvd.allgather_object(part, name=f"record_counts_of_{name}")
        return parts

    def known_counts() -> Index:
        reads = not together or (place.local_rank if among_local else place.rank) == 0
        known = stored(kept) | stored(folder / WITH_THE_DATA) if reads else {}
        if not together:
            return known
        if among_local:  # the index with the data is an object, too, which only one host has
            return dict(ChainMap(*hvd.allgather_object(known, name=f"known_counts_of_{name}")))
        return dict(hvd.broadcast_object(known, root_rank=0, name=f"known_counts_of_{name}"))

    def count(files: Mapping[str, Path], rank: int, ranks: int) -> Index:
        known = known_counts()
        if not together:
            return record_index(name, files, known=known)
        index = record_index(
            name, files, rank=rank, ranks=ranks, known=known, exchange=exchange, among_local=among_local
        )
        if place.rank == 0 and checkpoints.is_dir() and index != known:
            store(kept, index)
        return index

    return count
