"""Closing lines: writing down what became of one that nobody watches, and ending one of which nothing will become."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.ledger import PENDING, WAITING, epoch_seconds, index_of, is_cancelled, was_seen
from traingrid.ownership import conflict
from traingrid.recording import deleted, record_seen

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Mapping

    from traingrid.backends.base import Backend, Seen
    from traingrid.children import ChildStatus
    from traingrid.dynamodb import Item
    from traingrid.job import Job
    from traingrid.ledger import Ledger
    from traingrid.sweep import Sweep


@dataclass(frozen=True, kw_only=True)
class Line:
    """A line that has not ended, or that no child has opened.

    Attributes:
        submission: Its submission.
        index: Its index.
        region: Where it trains, or would.
        child: The Batch child that answers for it.
        cancels: The recorded cancels of its submission.
        item: What the ledger has of it; None of one that no child has opened.
        job: The job of one that no child has opened.
    """

    submission: str
    index: int
    region: str
    child: ChildStatus
    cancels: Container[str]
    item: Item | None = None
    job: Job | None = None


@dataclass(frozen=True, kw_only=True)
class Closer:
    """Closes lines.

    Attributes:
        grid: The grid's name.
        ledger: The ledger.
        backend: Gives the service of a Region.
        grace_seconds: Nothing is closed that is younger than this.
    """

    grid: str
    ledger: Ledger
    backend: Callable[[str], Backend]
    grace_seconds: float

    def is_worth_a_look(self, item: Item, child: ChildStatus, running: Container[str]) -> bool:
        """Return whether SageMaker may know more of a line than the ledger; DescribeTrainingJob is throttled.

        Args:
            item: The line's item.
            child: The child that answers for it.
            running: The names of all training jobs that run.
        """
        name = names.training_job(self.grid, item["submission"], index_of(item), item["attempt"])
        if item["state"] == WAITING and not child.gone:  # SageMaker has refused it, and the child asks again
            return name in running
        if item["state"] in (PENDING, WAITING):
            return name in running or item.get("training_job") == name or self.is_over(item, child)
        return name not in running

    def look_at(self, line: Line, done: Sweep) -> None:
        """Record what became of a line's training job, or close the line if there is none and never will be.

        While a child watches, what a failure leads to is its decision; once it is gone, a failure is the end.
        """
        if line.item is None:
            self._end_unopened(line, done)
            return
        name = names.training_job(self.grid, line.submission, line.index, line.item["attempt"])
        backend = self.backend(line.region)
        if record_seen(self.grid, self.ledger, backend, name, watched=not line.child.gone):
            done.recorded.append(name)
        elif self.is_over(line.item, line.child):
            seen = backend.describe(name)
            facts = self._conflict(seen, backend.tags(seen), line.item) if seen else _end(line, line.item, name)
            if facts:
                self._close(line.item, line.index, facts, done)

    def is_over(self, item: Item, child: ChildStatus) -> bool:
        """Return whether a child is gone for so long that nothing of it can be on its way any more."""
        return child.gone and time.time() - child.ended_at >= self.grace_seconds and self.is_old(item)

    def is_old(self, item: Item) -> bool:
        """Return whether nobody has written into an item for so long that it must have been forgotten."""
        times = [item.get(key) for key in ("updated_at", "opened_at", "submitted_at", "claimed_at")]
        return time.time() - max(epoch_seconds(at) for at in times if at) >= self.grace_seconds

    def _conflict(self, seen: Seen, tags: Mapping[str, str] | None, item: Item) -> Item | None:
        """Return the end of a line whose child is gone and whose training job's name another one has.

        None if that one is not known any more, or is this line's own, which somebody else has just recorded.
        """
        wanted = item.get("fingerprint")
        if tags is None or (wanted and wanted in (seen.fingerprint, tags.get(names.TAG_FINGERPRINT))):
            return None
        failure, reason = conflict(self.grid, tags, seen, wanted or "")
        return {"state": "Failed", "failure": failure.name, "reason": reason}

    def _end_unopened(self, line: Line, done: Sweep) -> None:
        """End a line that no child has opened, unless one opens it right now."""
        if line.job and self.ledger.end_unopened(line.submission, line.job, line.job.regions, _end(line)):
            done.closed.append(names.training_job(self.grid, line.submission, line.index, 1))

    def _close(self, item: Item, index: int, facts: Item, done: Sweep) -> None:
        """End a line that has no training job of its own, unless somebody has written into it since it was read."""
        submission, attempt = item["submission"], item["attempt"]
        if self.ledger.record_job(submission, index, attempt, facts, as_read=item):
            done.closed.append(names.training_job(self.grid, submission, index, attempt))


def _end(line: Line, item: Item | None = None, training_job: str = "") -> Item:
    """Return the end of a line that has no training job (any more) and will never get one."""
    child, gone = line.child, deleted(training_job) if item and was_seen(item) else None
    if is_cancelled(line.cancels, line.index, line.region):
        reason = gone["reason"] if gone else "It was cancelled before its training job was created."
        return {"state": "Stopped", "reason": reason}
    if gone:
        return gone
    why = (item or {}).get("reason") or child.reason or "it left no reason"
    who = f"Its Batch child {child.id} is {child.status}" if child.id else "It has no Batch child"
    return {"state": "Failed", "reason": f"{who}: {why}"}
