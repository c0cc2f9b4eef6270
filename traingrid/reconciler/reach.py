"""Reach: records errors of single lines and Regions during a pass, so that the rest of the pass continues."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.errors import OutageError, TraingridError
from traingrid.job.backend_traits import DEFAULT_BACKEND, TRAITS

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from traingrid.job.backend_traits import BackendName
    from traingrid.ledger.damage import Damaged
    from traingrid.reconciler.pass_report import PassReport

_PATIENCE = 3
"""The number of refusals after which this pass skips a Region. A single unanswered call has the same effect."""

_SHOWN = 5

_FAILURES = (BotoCoreError, ClientError, TraingridError, ValueError)
"""Errors that do not end a pass. ValueError is raised for data in the format of another version."""


class UnreachedError(TraingridError):
    """A pass could not process all Regions and submissions.

    Args:
        done: The results of the pass, which it completes.
        next_step: The action of a person for the rest.
    """

    def __init__(self, done: PassReport, next_step: str) -> None:
        reasons = [f"{place}: {reason}" for place, reason in done.unreachable.items()]
        more = f"; and {len(reasons) - _SHOWN} more" if len(reasons) > _SHOWN else ""
        super().__init__(f"The pass is incomplete: {'; '.join(reasons[:_SHOWN])}{more}.", next_step)
        self.done = done


class Reach:
    """Records which Regions and submissions a pass cannot reach.

    Args:
        regions: The training Regions of the grid. Lines may be in other Regions that have left the grid.
        done: The pass in which errors are recorded, by Region or submission.
    """

    def __init__(self, regions: Collection[str], done: PassReport) -> None:
        self._regions = regions
        self._done = done
        self._failures: Counter[str] = Counter()
        self._repairs: dict[str, None] = {}

    def is_given_up(self, region: str) -> bool:
        """Return True if this pass makes no more calls in a Region."""
        return self._failures[region] >= _PATIENCE

    @staticmethod
    def label(region: str, backend: BackendName) -> str:
        """Return the name under which errors of a backend are recorded, so that each fails on its own."""
        return region if backend == DEFAULT_BACKEND else f"{region} on {TRAITS[backend].service}"

    @contextmanager
    def record_errors(self, region: str, *, is_whole: bool = False) -> Iterator[None]:
        """Record errors of the block as errors of a Region, and continue after the block.

        Args:
            region: The Region, or a `label` in it.
            is_whole: Whether all other work in the Region depends on the block.
        """
        try:
            yield
        except _FAILURES as error:
            unanswered = isinstance(error, BotoCoreError | OutageError)
            self._failures[region] += _PATIENCE if is_whole or unanswered else 1
            self._note(region, str(error))

    @contextmanager
    def record_submission_errors(self, submission: str) -> Iterator[None]:
        """Record errors of the block as errors of a submission, and continue after the block."""
        try:
            yield
        except _FAILURES as error:
            self._note(f"submission {submission}", str(error))

    def record_damage(self, part: Damaged) -> None:
        """Record a part of the grid's record that cannot be read; the pass continues without it."""
        self._repairs.setdefault(part.next_step)
        self._note(part.place, part.problem)

    def record_unread(self, submissions: int) -> None:
        """Record that there was no time to read some submissions; the next pass begins with others."""
        self._note("the ledger", f"Reading the open submissions took too long; {submissions} were not read")

    def record_slow_list(self, region: str, listed: int) -> None:
        """Record that a Region did not list all its training jobs in time; the pass processes those it listed."""
        self._note(region, f"Listing its training jobs took too long; {listed} training jobs were listed")

    def raise_failures(self) -> None:
        """Raise UnreachedError if a Region or submission could not be reached."""
        if self._done.unreachable:
            raise UnreachedError(self._done, self._next_step())

    def _note(self, place: str, reason: str) -> None:
        self._done.unreachable.setdefault(place, reason.removesuffix("."))

    def _next_step(self) -> str:
        regions = {label.partition(" ")[0] for label in self._failures}
        once_ours = sorted(regions.difference(self._regions))
        if not once_ours:
            return " ".join([*self._repairs, "The next pass retries this."])
        return (
            f"Jobs run in {', '.join(once_ours)}, which is no longer in grid.yaml, so the reconciler has no access to "
            "it: add it again and deploy, and remove it when `traingrid status` shows no unfinished jobs there."
        )
