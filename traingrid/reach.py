"""What of the grid a sweep reaches: what fails of one line, or in one Region, is written down, and the rest goes on."""

from __future__ import annotations

from collections import Counter
from contextlib import contextmanager
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator

    from traingrid.sweep import Sweep

_PATIENCE = 3
"""After so many refusals a Region is asked no more by this sweep; after one call that it does not answer, at once."""

_SHOWN = 5

_FAILURES = (BotoCoreError, ClientError, TraingridError, ValueError)
"""The last one is raised of what nobody can read, because another version has written it."""


class UnreachedError(TraingridError):
    """Not all could be looked at.

    Args:
        done: What was done nevertheless.
        next_step: What a person can do about the rest.
    """

    def __init__(self, done: Sweep, next_step: str) -> None:
        said = [f"{where}: {why}" for where, why in done.unreachable.items()]
        more = f"; and {len(said) - _SHOWN} more" if len(said) > _SHOWN else ""
        super().__init__(f"Not all could be looked at: {'; '.join(said[:_SHOWN])}{more}.", next_step)
        self.done = done


class Reach:
    """What can be reached, and what cannot.

    Args:
        regions: The training Regions of the grid. Lines may be in others, which it once had.
        done: Where to write down what went wrong, by Region or submission.
    """

    def __init__(self, regions: Collection[str], done: Sweep) -> None:
        self._regions = regions
        self._done = done
        self._failures: Counter[str] = Counter()

    def given_up(self, region: str) -> bool:
        """Return whether a Region is asked no more."""
        return self._failures[region] >= _PATIENCE

    @contextmanager
    def of_region(self, region: str, *, whole: bool = False) -> Iterator[None]:
        """Do something in a Region that may fail.

        Args:
            region: The Region.
            whole: Whether all else in the Region depends on it.
        """
        try:
            yield
        except _FAILURES as error:
            self._failures[region] += _PATIENCE if whole or isinstance(error, BotoCoreError) else 1
            self._note(region, str(error))

    @contextmanager
    def of_submission(self, submission: str) -> Iterator[None]:
        """Do something with a submission that may fail."""
        try:
            yield
        except _FAILURES as error:
            self._note(f"submission {submission}", str(error))

    def too_slow(self, region: str, listed: int) -> None:
        """Write down that a Region has not listed all that runs there; what it has listed is looked after."""
        self._note(region, f"It took too long to list what runs there; {listed} training jobs were seen")

    def raise_failures(self) -> None:
        """Raise UnreachedError if anything could not be reached."""
        if self._done.unreachable:
            raise UnreachedError(self._done, self._next_step())

    def _note(self, where: str, why: str) -> None:
        self._done.unreachable.setdefault(where, why.removesuffix("."))

    def _next_step(self) -> str:
        once_ours = sorted(region for region in self._failures if region not in self._regions)
        if not once_ours:
            return "The next sweep asks again."
        return (
            f"Jobs run in {', '.join(once_ours)}, which grid.yaml no longer has, so nobody may look after them: put it "
            "back and deploy, and take it out again when `traingrid status` shows nothing there that has not ended."
        )
