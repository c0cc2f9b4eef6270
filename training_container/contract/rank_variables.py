"""Rank variables: the position of this process among all ranks, from the variables that each launcher sets.

Sources: Open MPI (https://docs.open-mpi.org/en/v5.0.x/tuning-apps/environment-var.html), Horovod 0.28.1
(runner/gloo_run.py), torchrun (https://docs.pytorch.org/docs/stable/elastic/run.html, "Environment Variables").
Without a launcher there is one rank on each host, numbered by the sorted names of the hosts (SM_HOSTS).
"""

from collections.abc import Mapping
from typing import NamedTuple

from training_container import outside_json

MARK_OUTPUT = "TRAINGRID_MARK_OUTPUT"
"""Set for ranks whose launcher neither marks their output nor reports their death, and that end with `train`."""

# The variables of rank, size, local rank and local size.
_OF_LAUNCHERS = (
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE"),
    ("HOROVOD_RANK", "HOROVOD_SIZE", "HOROVOD_LOCAL_RANK", "HOROVOD_LOCAL_SIZE"),
    ("RANK", "WORLD_SIZE", "LOCAL_RANK", "LOCAL_WORLD_SIZE"),
)


class Position(NamedTuple):
    """The position of a process among all ranks; `local_rank` and `local_size` count the ranks of its host."""

    rank: int = 0
    size: int = 1
    local_rank: int = 0
    local_size: int = 1


def position(environment: Mapping[str, str]) -> Position:
    """Return the position of the process with this environment; the only rank if no variable is set."""
    for names in _OF_LAUNCHERS:
        if environment.get(names[0], "").isdecimal():
            texts = [environment.get(name, "") for name in names]
            return Position(*(int(text or default) for text, default in zip(texts, Position(), strict=True)))
    try:
        hosts = sorted(outside_json.loads(environment.get("SM_HOSTS", "[]")))
        return Position(rank=hosts.index(environment.get("SM_CURRENT_HOST")), size=len(hosts))
    except (ValueError, TypeError):
        return Position()
