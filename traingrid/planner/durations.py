"""Durations: the hours that a job is expected to train, and the source of the expectation."""

from __future__ import annotations

from dataclasses import dataclass
from statistics import median
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.planner.facts import PastRun

_SECONDS = 3600.0
PAST_RUNS, LINE, MAX_RUNTIME, GUESS = "past runs", "the line", "its max_runtime", "a guess"


@dataclass(frozen=True, kw_only=True)
class Duration:
    """An expected duration.

    Attributes:
        source: `PAST_RUNS`, `LINE` (estimated_runtime), `MAX_RUNTIME` of the line, or `GUESS`: the grid's max_runtime.
        runs: The number of past runs.
    """

    hours: float
    source: str
    runs: int = 0


class Durations:
    """The durations of past runs."""

    def __init__(self, runs: Iterable[PastRun]) -> None:
        self._runs: dict[tuple[str, str], list[PastRun]] = {}
        for run in runs:
            self._runs.setdefault((run.recipe, run.instance_type), []).append(run)

    def of_past_runs(self, recipe: str, instance_type: str, size: int | None) -> Duration | None:
        """Return the duration of a job from past runs of its recipe on an instance type; None without any.

        The seconds of a run are scaled with the bytes of the data if both sizes are known. Of several runs, the median
        counts.
        """
        runs = self._runs.get((recipe, instance_type), [])
        scaled = [run.seconds * size / run.size for run in runs if size and run.size]
        seconds = scaled or [float(run.seconds) for run in runs]
        if not seconds:
            return None
        return Duration(hours=median(seconds) / _SECONDS, source=PAST_RUNS, runs=len(seconds))
