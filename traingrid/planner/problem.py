"""Assignment problem: jobs, the choices of each job, and the limits that all jobs share, as arrays.

A choice of a job is a pool (a Region, an instance type and a purchase option) with its cost. A pool offers a number of
instance-hours until each of several points in time, the windows; a job must end within its window, so it uses capacity
in its own window and all later ones. A job with several instances uses them at the same time, but the model counts only
their hours: jobs that find no free instances wait.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

UNPLACED = -1
"""The pool of the choice to leave a job unplaced."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PlacementProblem:
    """Jobs with their choices. The first choice of each job leaves it unplaced, at a penalty.

    Attributes:
        starts: For each job the index of its first choice, and at the end the number of choices.
        pool: The pool of each choice, or `UNPLACED`.
        cost: The cost of each choice that is minimised, in dollars; for the unplaced choice the penalty.
        dollars: The dollars of each choice that count towards the budget.
        hours: The instance-hours that each choice uses in its pool.
        accelerator_hours: The accelerator-hours that each choice uses.
        window: The window of each job.
        capacity: The instance-hours of each pool until the end of each window (pools x windows).
        accelerators: The accelerator-hours of all pools until the end of each window; infinite without a limit.
        budget: The budget in dollars; infinite without one.
    """

    starts: NDArray[np.int64]
    pool: NDArray[np.int64]
    cost: NDArray[np.float64]
    dollars: NDArray[np.float64]
    hours: NDArray[np.float64]
    accelerator_hours: NDArray[np.float64]
    window: NDArray[np.int64]
    capacity: NDArray[np.float64]
    accelerators: NDArray[np.float64]
    budget: float

    @property
    def jobs(self) -> int:
        """The number of jobs."""
        return len(self.starts) - 1

    @cached_property
    def job(self) -> NDArray[np.int64]:
        """The job of each choice."""
        return np.repeat(np.arange(self.jobs), np.diff(self.starts))

    @cached_property
    def room(self) -> NDArray[np.float64]:
        """The capacity with a last row for the unplaced choice, which uses none."""
        return np.vstack([self.capacity, np.full(self.capacity.shape[1], np.inf)])

    def usage(self, chosen: NDArray[Any]) -> Usage:
        """Return how much of each limit some choices use together."""
        pool_count, window_count = self.capacity.shape
        pools, windows = self.pool[chosen], self.window[self.job[chosen]]
        # The pool of an unplaced choice is -1, so its hours are added to the last row, which is dropped below.
        hours = np.zeros((pool_count + 1, window_count))
        np.add.at(hours, (pools, windows), self.hours[chosen])
        accelerators = np.bincount(windows, self.accelerator_hours[chosen], window_count)
        # A limit applies until the end of each window, so the hours of earlier windows count, too.
        return Usage(
            hours=np.cumsum(hours, axis=1)[:pool_count],
            accelerators=np.cumsum(accelerators),
            dollars=float(self.dollars[chosen].sum()),
        )

    def allows(self, chosen: NDArray[Any], tolerance: float = 1e-7) -> bool:
        """Return True if the chosen choices keep every limit.

        Args:
            chosen: The index of the choice of each job.
            tolerance: The relative excess that rounding may cause.
        """
        used = self.usage(chosen)
        pairs = ((used.hours, self.capacity), (used.accelerators, self.accelerators), (used.dollars, self.budget))
        return all(bool(np.all(use <= np.multiply(limit, 1 + tolerance) + tolerance)) for use, limit in pairs)


@dataclass(frozen=True, kw_only=True, eq=False)
class Usage:
    """The use of the limits.

    Attributes:
        hours: The instance-hours of each pool until the end of each window.
        accelerators: The accelerator-hours until the end of each window.
    """

    hours: NDArray[np.float64]
    accelerators: NDArray[np.float64]
    dollars: float
