"""Subject: the submissions of a report, which are one, or those of a sweep or of rounds."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traingrid.rounds.timeline import RoundView
    from traingrid.submission.series import Series


@dataclass(frozen=True, kw_only=True)
class Subject:
    """The subject of a report.

    Attributes:
        submissions: The ids, at least one.
        series: The sweep or the rounds; None for a submission.
        spec: The part of the specification of the series that never changes.
        rounds: The rounds of the series; none otherwise.
    """

    submissions: Sequence[str]
    series: Series | None = None
    spec: Mapping[str, Any] | None = None
    rounds: Sequence[RoundView] = ()

    @classmethod
    def of(cls, submission: str) -> Subject:
        """Return a submission as the subject."""
        return cls(submissions=(submission,))

    def exclusion(self, submission: str) -> str:
        """Return why jobs of a submission cannot be the best, as a phrase; empty if they can.

        A Region's model is evaluated on other data than the global models.
        """
        if self.rounds and submission not in {view.merge for view in self.rounds}:
            return "a Region's model, evaluated on the data of its Region"
        return ""
