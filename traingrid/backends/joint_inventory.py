"""Joint inventory: the training jobs of a Region on several backends."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.backends.found_job import TrainingJob
    from traingrid.backends.inventory import Details, Inventory
    from traingrid.job.job import BackendName
    from traingrid.ledger.items import JobItem


class JointInventory:
    """The training jobs of a Region on several backends.

    Args:
        inventories: The inventory of each backend.
    """

    def __init__(self, inventories: Mapping[BackendName, Inventory]) -> None:
        self._inventories = inventories

    def listed(self, state: str = "", submission: str = "") -> Iterator[TrainingJob]:
        """See `Inventory.listed`."""
        return chain.from_iterable(one.listed(state, submission) for one in self._inventories.values())

    def details(self, job: TrainingJob) -> Details | None:
        """See `Inventory.details`."""
        return self._of(job).details(job)

    def is_ours(self, job: TrainingJob, item: JobItem | None) -> bool:
        """See `Inventory.is_ours`."""
        return self._of(job).is_ours(job, item)

    def has_our_tag(self, job: TrainingJob) -> bool:
        """See `Inventory.has_our_tag`."""
        return self._of(job).has_our_tag(job)

    def stop(self, job: TrainingJob) -> bool:
        """See `Inventory.stop`."""
        return self._of(job).stop(job)

    def complete_stop(self, job: TrainingJob) -> bool:
        """See `Inventory.complete_stop`."""
        return self._of(job).complete_stop(job)

    def ended(self) -> Iterator[TrainingJob]:
        """See `Inventory.ended`."""
        return chain.from_iterable(one.ended() for one in self._inventories.values())

    def release(self, job: TrainingJob) -> bool:
        """See `Inventory.release`."""
        return self._of(job).release(job)

    def _of(self, job: TrainingJob) -> Inventory:
        return self._inventories[job.backend]
