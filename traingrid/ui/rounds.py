"""Rounds: the rounds of a name, from their journal and the jobs that the page shows already."""

from __future__ import annotations

import shlex
import threading
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from traingrid.api.rounds_timeline import PricedJobs
from traingrid.job.state import JobState
from traingrid.rounds.journal import rounds_journal
from traingrid.rounds.state import state_of
from traingrid.rounds.timeline import best_round, data_of, model_commands, round_views
from traingrid.submission.series import Series
from traingrid.submission.status import JobStatus
from traingrid.ui.rows import key_of

if TYPE_CHECKING:
    from pathlib import Path

    from traingrid.api.control_plane import ControlPlane
    from traingrid.rounds.journal import Entry
    from traingrid.submission.journal import Journal
    from traingrid.ui.feed import Feed

READ_SECONDS = 10
"""The time between two reads of a journal whose rounds have not ended."""


class PageRounds:
    """Reads the journals of rounds. Each read requests only the new entries, and no job: the feed has them."""

    def __init__(self, plane: ControlPlane, feed: Feed, grid_file: Path) -> None:
        self._feed, self._lock = feed, threading.Lock()
        self._command = f"traingrid --grid {shlex.quote(str(grid_file))}"
        self.use(plane)

    def use(self, plane: ControlPlane) -> None:
        """Use another control plane of the same grid from the next read on."""
        with self._lock:
            self._plane, self._jobs = plane, PricedJobs(plane, self._status_of)
            self._journals: dict[str, Journal[Entry]] = {}

    def read(self, name: str) -> dict[str, Any]:
        """Return rounds as values that can be written as JSON.

        Returns:
            `rounds`, as `RoundView` has them; `best`, the number of the best round, or None, and `commands` for its
            model; `data`, on which the global models are evaluated; and `again_seconds`, when to read again.

        Raises:
            UsageError: There are none of this name.
        """
        with self._lock:  # a journal keeps its position, so only one thread may read it
            bucket = self._plane.deployment.manifest_bucket
            journal = self._journals.get(name) or rounds_journal(self._plane.storage, bucket, name)
            entries = journal.refresh()
            Series("rounds", name).check_begun(entries)
            self._journals[name] = journal
            views = round_views(state_of(entries), self._jobs)
        best = best_round(views)
        return {
            "rounds": [asdict(view) for view in views],
            "best": best.number if best else None,
            "data": data_of(views),
            "commands": model_commands(name, best, self._command) if best else [],
            "again_seconds": READ_SECONDS,
        }

    def _status_of(self, submission: str, index: int) -> JobStatus | None:
        """Return the status of a job as the page shows it; None if the page does not have it."""
        row = self._feed.row(key_of(submission, index))
        if row is None:
            return None
        return JobStatus(
            index=index,
            region=row["region"],
            name=row["name"],
            state=JobState(row["state"]),
            started_at=row["started"],
            seconds=row["seconds"],
            metrics=row["metrics"],
            dollars=row["dollars"],
        )
