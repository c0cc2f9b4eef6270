"""Trial jobs: the operations of a grid that a sweep needs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from traingrid.submission.journaled_jobs import JournaledJobs

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class TrialJobs(JournaledJobs, Protocol):
    """The operations of a grid that a sweep needs. All can be repeated."""

    def curves(self, submission: str, indexes: Sequence[int], metric: str) -> Mapping[int, Sequence[tuple[int, float]]]:
        """Return epoch and value of a metric in the last attempt of some jobs, by index."""
