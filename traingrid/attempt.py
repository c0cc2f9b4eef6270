"""One attempt at a job: one training job's name, and what a child does with it in ledger and service."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.ledger import is_cancelled
from traingrid.ownership import is_of_grid, tags_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.backends.base import Backend, Seen
    from traingrid.job import Job
    from traingrid.ledger import Item, Ledger
    from traingrid.log_lines import Say


@dataclass(frozen=True, kw_only=True)
class Clock:
    """Time as a child sees it.

    Attributes:
        now: Returns seconds that only ever grow; the wall clock may jump.
        sleep: Waits so many seconds.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt at a job.

    Attributes:
        grid: The grid's name.
        submission: The submission's id.
        number: Which attempt this is, from 1.
        job: What to train, as it is in the attempt's Region.
        batch_child: The Batch child that watches it; empty where none does.
        array_file: The file of that child's array.
        backend: Where to train it.
        ledger: Where to record it.
        say: Takes lines for the person who reads the log.
        clock: Time.
    """

    grid: str
    submission: str
    number: int
    job: Job
    batch_child: str
    array_file: str
    backend: Backend
    ledger: Ledger
    say: Say
    clock: Clock

    @property
    def name(self) -> str:
        """The training job's name."""
        return names.training_job(self.grid, self.submission, self.job.index, self.number)

    @property
    def fingerprint(self) -> str:
        """What tells its training job from a stranger's of the same name."""
        return self.backend.fingerprint(self.name, self.job)

    @property
    def tags(self) -> dict[str, str]:
        """What its training job bears."""
        return tags_of(self.grid, self.submission, self.job.index, self.fingerprint)

    def item(self) -> Item:
        """Return what the ledger knows of the job now, which may be at another attempt."""
        item = self.ledger.job(self.submission, self.job.index)
        if item is None:  # a person has deleted it: nothing is known, so nothing is to be done for it
            raise LookupError(f"the ledger has lost job {self.job.index} of submission {self.submission}")
        return item

    def record(self, facts: Item) -> bool:
        """Record facts of this attempt; False if it has ended, or the job is at another one, or another array's."""
        index, array_file = self.job.index, self.array_file
        return self.ledger.record_job(self.submission, index, self.number, facts, array_file=array_file)

    def cancelled(self) -> bool:
        """Return whether a person has cancelled this job, here."""
        return is_cancelled(self.ledger.cancels(self.submission), self.job.index, self.job.region)

    def stop(self) -> bool:
        """Ask for the training job to be stopped unless it has ended, and record that it will be.

        Returns:
            False if there is none that is known (yet), or it is a stranger's.
        """
        seen = self.backend.describe(self.name)
        if seen is None or not self._is_ours(seen):
            return False
        if not seen.ended and seen.state != "Stopping":
            self.backend.stop(self.name)
            self.say(f"{self.name}: cancelled, and told to stop", event="stopping")
            self.record({"state": "Stopping", "phase": "Stopping"})
        return True

    def _is_ours(self, seen: Seen) -> bool:
        return seen.fingerprint == self.fingerprint or is_of_grid(self.backend.tags(seen), self.grid)
