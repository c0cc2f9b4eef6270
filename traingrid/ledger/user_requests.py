"""Ledger items of cancels, as frozen values; see `traingrid.ledger.items`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

from traingrid.job.state import JobState
from traingrid.ledger.errors import errors_with_next_step
from traingrid.ledger.field_types import TEXT, TIME, check_types
from traingrid.ledger.items import job_item

if TYPE_CHECKING:
    from collections.abc import Container, Mapping

CANCEL_ALL = "all"
"""The scope of a cancel of all jobs of a submission."""
CANCEL_PREFIX = "cancel#"
"""The prefix of the sort keys of cancels."""
_CANCEL_AGAIN = "Run the same `traingrid cancel` again, which writes the item again."
_TYPES = {"at": TIME, "by": TEXT, "reason": TEXT}


@dataclass(frozen=True, kw_only=True, slots=True)
class Cancel:
    """A recorded cancel.

    Attributes:
        scope: The jobs that it includes (`is_cancelled`).
        at: The time at which it was recorded; empty if its item is damaged.
        by: The user who cancelled.
    """

    submission: str
    scope: str
    at: str
    by: str = ""
    reason: str = ""

    @property
    def sentence(self) -> str:
        """Who cancelled, and why."""
        by = f" by {self.by}" if self.by else ""
        return f"Cancelled{by}: {self.reason}" if self.reason else f"Cancelled{by}"

    @property
    def while_stopping(self) -> str:
        """The reason of a job whose training job is stopped for this cancel. It replaces the reason of a wait."""
        return self.sentence

    @property
    def before_creation(self) -> str:
        """The reason of a job that has no training job."""
        text = "It was cancelled before its training job was created."
        return f"{text} {self.sentence}." if self.reason else text

    def reason_of(self, state: str, recorded: str) -> str:
        """Return the reason of a job that this cancel includes.

        An event can record that a training job is stopped before the process that stopped it has recorded the reason,
        and the item of an ended attempt does not change any more.

        Args:
            recorded: The reason in the job's item; empty if it has none.
        """
        stopped = state in (JobState.STOPPING, JobState.STOPPED)
        return recorded or (self.while_stopping if stopped else "")

    @classmethod
    def from_item(cls, item: Mapping[str, Any]) -> Self:
        """Return the cancel of a stored item.

        Raises:
            ItemError: A required field is missing, or a field has another type.
        """
        with errors_with_next_step(_CANCEL_AGAIN):
            check_types(item, _TYPES, required=("submission", "item", "at"))
        scope = item["item"].removeprefix(CANCEL_PREFIX)
        return cls(
            submission=item["submission"],
            scope=scope,
            at=item["at"],
            by=item.get("by", ""),
            reason=item.get("reason", ""),
        )

    @classmethod
    def of_key(cls, item: Mapping[str, Any]) -> Self:
        """Return the cancel of a damaged item: its key is in force, although time, user and reason are lost."""
        return cls(submission=item["submission"], scope=item["item"].removeprefix(CANCEL_PREFIX), at="")


def cancel_of_region(region: str) -> str:
    """Return the scope of a cancel of a submission's jobs in one Region."""
    return f"region#{region}"


def cancel_of_job(index: int) -> str:
    """Return the scope of a cancel of one job."""
    return job_item(index)


def is_cancelled(cancels: Container[str], index: int, region: str) -> bool:
    """Return True if a recorded cancel includes a job that runs, or would run next, in a Region."""
    return any(scope in cancels for scope in _scopes(index, region))


def cancel_of(cancels: Mapping[str, Cancel], index: int, region: str) -> Cancel | None:
    """Return the recorded cancel that includes a job, or None."""
    return next((cancels[scope] for scope in _scopes(index, region) if scope in cancels), None)


def _scopes(index: int, region: str) -> tuple[str, ...]:
    return CANCEL_ALL, cancel_of_region(region), cancel_of_job(index)
