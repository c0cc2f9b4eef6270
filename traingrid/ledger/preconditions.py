"""Preconditions of a write to a job's item, as a condition of DynamoDB."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from traingrid.job.state import JobState

if TYPE_CHECKING:
    from traingrid.ledger.items import JobItem


@dataclass(frozen=True, kw_only=True)
class Precondition:
    """The conditions of a write to a job's item, beyond those that every write has.

    Attributes:
        fingerprint: The child that claimed the attempt must have recorded this fingerprint. Empty for a caller that
            has checked that.
        array_file: The attempt must not be assigned to another array than the one with this file. Empty for a caller
            that is no child.
        unless_watched: No child may watch the job (`batch_child` is empty).
        as_read: The item must not have changed since the caller read it.
        stopped_for: The child must have stopped the training job for this failure class (`JobItem.stopped_for`), or
            for none if it is empty; None for a caller to which this makes no difference.
        unless_stopping: The recorded state must not be Stopping, and no stop may be decided.
    """

    fingerprint: str = ""
    array_file: str = ""
    unless_watched: bool = False
    as_read: JobItem | None = None
    stopped_for: str | None = None
    unless_stopping: bool = False

    def condition(self) -> tuple[str, dict[str, Any]]:
        """Return the further conditions, each with " AND " before it, and the values of their placeholders."""
        condition, values = "", dict[str, Any]()
        if self.fingerprint:
            condition += " AND #fingerprint = :fingerprint"
            values |= {":fingerprint": self.fingerprint}
        if self.array_file:
            condition += " AND ( attribute_not_exists(array_file) OR array_file = :array_file )"
            values |= {":array_file": self.array_file}
        if self.unless_watched:
            condition += " AND ( attribute_not_exists(batch_child) OR batch_child = :unwatched )"
            values |= {":unwatched": ""}
        if self.stopped_for is not None:
            is_stopped_for = "stopped_for = :stopped_for" if self.stopped_for else "attribute_not_exists(stopped_for)"
            condition += f" AND {is_stopped_for}"
            if self.stopped_for:
                values[":stopped_for"] = self.stopped_for
        if self.unless_stopping:
            condition += " AND NOT #state IN (:stopping) AND attribute_not_exists(stopped_for)"
            values |= {":stopping": JobState.STOPPING}
        if self.as_read:
            read = self.as_read
            condition += " AND #state = :read_state AND "
            values[":read_state"] = read.state
            if read.updated_at:
                condition += "#updated_at = :read_at"
                values[":read_at"] = read.updated_at
            else:
                condition += "attribute_not_exists(updated_at)"
        return condition, values


NO_FURTHER_CONDITIONS = Precondition()
