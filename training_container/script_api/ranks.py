"""Ranks: the position of this process among all ranks, with any launcher, and requests to stop.

Example:
    from trainer import ranks

    here = ranks.current()
    for step in range(steps):
        ...
        if here.stop_requested():       # with torch.distributed, all ranks call this together
            break
"""

import os
import sys
from dataclasses import dataclass
from typing import Any

from training_container.contract.rank_variables import position
from training_container.contract.stopping import ask_for_stop
from training_container.contract.training_job import Folders


@dataclass(frozen=True, kw_only=True)
class Ranks:
    """The position of this process among all ranks.

    Attributes:
        rank: This process's number, from 0.
        local_rank: This process's number among the ranks of its host, from 0.
        local_size: The number of ranks on its host.
        folders: The folders of this host (/opt/ml).
    """

    rank: int
    size: int
    local_rank: int
    local_size: int
    folders: Folders

    @property
    def is_main(self) -> bool:
        """True for rank 0."""
        return self.rank == 0

    def stop_requested(self) -> bool:
        """Return True if the training was asked to stop, for example before SageMaker reclaims a Spot Instance.

        If torch.distributed is initialized, all ranks must call this together, and get the same result. Otherwise
        each rank only knows about its own host. The script should then write its checkpoint and end. A host whose ranks
        call this sends them no SIGTERM.
        """
        requested = ask_for_stop()
        # A script that uses torch.distributed has imported it; this module must not import PyTorch.
        distributed = sys.modules.get("torch.distributed")
        if distributed is None or not (distributed.is_available() and distributed.is_initialized()):
            return requested
        return _any_rank(distributed, requested)


def current() -> Ranks:
    """Return the position of this process; the only rank if no launcher has started it."""
    return Ranks(**position(os.environ)._asdict(), folders=Folders.from_environment(os.environ))


def _any_rank(distributed: Any, requested: bool) -> bool:  # private
    """Return True if any rank has a request."""
    torch = sys.modules["torch"]
    device = "cuda" if distributed.get_backend() == "nccl" else "cpu"
    flag = torch.tensor(int(requested), device=device)
    distributed.all_reduce(flag, op=distributed.ReduceOp.MAX)
    return bool(flag.item())
