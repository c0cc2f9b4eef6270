"""Active jobs: lists the active training jobs of Regions, as far as there is time and a Region answers."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.backends.inventory import ACTIVE_STATES, ListingTimeoutError, Window
from traingrid.backends.joint_inventory import PartlyListedError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable

    from traingrid.backends.inventory import Inventory
    from traingrid.backends.training_job import TrainingJob
    from traingrid.reconciler.reach import Reach


@dataclass(frozen=True, kw_only=True)
class ActiveJobs:
    """The active training jobs of a grid.

    Attributes:
        map_regions: Calls a function for each Region.
        reach: Records Regions that do not answer, or not in time.
        since: The time from which training jobs are listed.
        deadline: The time at which listing stops.
    """

    inventory: Callable[[str], Inventory]
    map_regions: Callable[[Callable[[str], Any], Collection[str]], Iterable[Any]]
    reach: Reach
    since: float
    deadline: float

    def list_jobs(self, regions: Collection[str]) -> list[TrainingJob]:
        """Return the active training jobs of the Regions that answer, in the order of the Regions."""
        self._create_clients(regions)
        reached_regions = [region for region in regions if not self.reach.is_given_up(region)]
        return [
            job for jobs_of_region in self.map_regions(self._list_region, reached_regions) for job in jobs_of_region
        ]

    def _create_clients(self, regions: Collection[str]) -> None:
        """Create the clients of the Regions one after the other, because boto3 cannot do that in several threads."""
        for region in regions:
            with self.reach.record_errors(region, is_whole=True):
                self.inventory(region)

    def _list_region(self, region: str) -> list[TrainingJob]:
        training_jobs: list[TrainingJob] = []
        with self.reach.record_errors(region, is_whole=True):
            for state in ACTIVE_STATES:
                try:
                    for job in self.inventory(region).listed(
                        state, window=Window(since=self.since, deadline=self.deadline)
                    ):
                        training_jobs.append(job)
                        if job.damaged:
                            self.reach.record_damage(job.damaged)
                        if time.time() >= self.deadline:
                            self.reach.record_slow_list(region, len(training_jobs))
                            return training_jobs
                except ListingTimeoutError:
                    self.reach.record_slow_list(region, len(training_jobs))
                    return training_jobs
                except PartlyListedError as error:
                    with self.reach.record_errors(self.reach.label(region, error.backend), is_whole=True):
                        raise
        return training_jobs
