"""Joint inventory: the training jobs of a Region on several backends."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.backends.inventory import ALL, ListingTimeoutError, Window
from traingrid.errors import TraingridError
from traingrid.job.backend_traits import DEFAULT_BACKEND, TRAITS

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.backends.inventory import Details, Inventory
    from traingrid.backends.training_job import TrainingJob
    from traingrid.job.backend_traits import BackendName


class PartlyListedError(TraingridError):
    """The training jobs of one backend could not be listed; the training jobs of the backends before it were."""

    def __init__(self, backend: BackendName, error: Exception) -> None:
        super().__init__(f"The training jobs on {TRAITS[backend].service} cannot be listed: {error}")
        self.backend = backend


class JointInventory:
    """The training jobs of a Region on several backends.

    Args:
        inventories: The inventory of each backend, in the order in which they are listed.
    """

    def __init__(self, inventories: Mapping[BackendName, Inventory]) -> None:
        self._inventories = inventories

    def listed(self, state: str = "", submission: str = "", window: Window = ALL) -> Iterator[TrainingJob]:
        """See `Inventory.listed`.

        Raises:
            PartlyListedError: A backend other than the default one failed.
            ListingTimeoutError: The list of a backend is incomplete; the lists of the others are complete.
        """
        timeout: ListingTimeoutError | None = None
        for backend, inventory in self._inventories.items():
            try:
                yield from inventory.listed(state, submission, window)
            except ListingTimeoutError as error:
                timeout = error
            except (BotoCoreError, ClientError, TraingridError, ValueError) as error:
                if backend == DEFAULT_BACKEND:
                    raise
                raise PartlyListedError(backend, error) from error
        if timeout:
            raise timeout

    def details(self, job: TrainingJob) -> Details | None:
        """See `Inventory.details`."""
        return self._inventory_of(job).details(job)

    def has_our_tag(self, job: TrainingJob) -> bool:
        """See `Inventory.has_our_tag`."""
        return self._inventory_of(job).has_our_tag(job)

    def stop(self, job: TrainingJob) -> bool:
        """See `Inventory.stop`."""
        return self._inventory_of(job).stop(job)

    def complete_stop(self, job: TrainingJob) -> bool:
        """See `Inventory.complete_stop`."""
        return self._inventory_of(job).complete_stop(job)

    def ended(self) -> Iterator[TrainingJob]:
        """See `Inventory.ended`."""
        return chain.from_iterable(inventory.ended() for inventory in self._inventories.values())

    def release(self, job: TrainingJob) -> bool:
        """See `Inventory.release`."""
        return self._inventory_of(job).release(job)

    def _inventory_of(self, job: TrainingJob) -> Inventory:
        return self._inventories[job.backend]
