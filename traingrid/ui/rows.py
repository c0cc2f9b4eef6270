"""Rows: the jobs of the ledger as the page shows them."""

import math
from collections.abc import Mapping
from typing import Any

from traingrid.job.candidates import place
from traingrid.job.job import Job
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.damage import Damaged
from traingrid.ledger.items import JobItem, RecordedAttempt
from traingrid.ledger.spending import ended_dollars, is_running
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.ledger.user_requests import Cancel, cancel_of
from traingrid.metrics.ranking import RankedJob
from traingrid.submission.status import UNREADABLE

Row = dict[str, Any]
"""A job: a value that can be written as JSON."""
_LONGEST_REASON = 2000


def key_of(submission: str, index: int) -> str:
    """Return the key of a job on the page."""
    return f"{submission}/{index}"


def recorded_row(item: JobItem, cancels: Mapping[str, Cancel]) -> Row:
    """Return the row of a job that a child has opened.

    Args:
        cancels: The recorded cancels of its submission, by scope.
    """
    cancel = cancel_of(cancels, item.index, item.region)
    reason = cancel.reason_of(item.state, item.reason) if cancel else item.reason
    ranked = RankedJob(state=item.state, has_model=bool(item.model), reason=reason)
    if item.state == JobState.COMPLETED:
        reason = reason or ranked.exclusion
    hourly = (item.hourly_dollars if item.on_demand else item.running_hourly_dollars) if is_running(item) else 0.0
    return {
        "submission": item.submission,
        "index": item.index,
        "name": item.name,
        "region": item.region,
        "place": place(*item.candidate),
        "state": item.state,
        "phase": item.phase,
        "attempt": item.attempt,
        "ranks": item.ranks,
        "failure": item.failure,
        "reason": reason[:_LONGEST_REASON],
        "tier": ranked.tier,
        "requested": _seconds(item.requested_at),
        "started": item.training_started_at,
        "ended": item.changed_at if item.state in FINAL_STATES else 0,
        "earlier": [_earlier(previous) for previous in item.tried],
        "epochs": item.epochs,
        "epoch_seconds": round(item.epoch_seconds, 3),
        "seconds": item.training_seconds,
        "metrics": finite({**item.progress, **item.metrics}),
        "dollars": round(ended_dollars(item), 4),
        "hourly": round(hourly, 4),
        "cancelled": cancel is not None,
    }


def unopened_row(submission: str, job: Job, cancels: Mapping[str, Cancel]) -> Row:
    """Return the row of a job that no child has opened.

    Args:
        cancels: The recorded cancels of its submission, by scope.
    """
    return _pending(submission, job.index) | {
        "name": job.name,
        "region": job.region,
        "place": place(job.region, job.backends[0]),
        "ranks": job.ranks,
        "cancelled": cancel_of(cancels, job.index, job.region) is not None,
    }


def unknown_row(submission: str, index: int) -> Row:
    """Return the row of a job of which only the index is known."""
    return _pending(submission, index) | {"name": f"job {index}"}


def unreadable_row(submission: str, index: int, part: Damaged) -> Row:
    """Return the row of a job whose item of the ledger cannot be read."""
    return unknown_row(submission, index) | {"phase": UNREADABLE, "reason": part.sentence[:_LONGEST_REASON]}


def finite(metrics: Mapping[str, float]) -> dict[str, float]:
    """Return the metrics that JSON can represent."""
    return {name: float(value) for name, value in metrics.items() if math.isfinite(value)}


def _earlier(attempt: RecordedAttempt) -> list[str | int]:
    """Return the place, state and failure of an earlier attempt, the time of its end, and its billable seconds."""
    ended, seconds = _seconds(attempt.ended_at), attempt.billable_seconds or 0
    return [place(*attempt.candidate), attempt.state, attempt.failure, ended, seconds]


def _seconds(timestamp: str) -> int:
    """Return a recorded time in seconds since 1970; 0 if it is empty."""
    return epoch_seconds(timestamp) if timestamp else 0


def _pending(submission: str, index: int) -> Row:
    return {
        "submission": submission,
        "index": index,
        "name": "",
        "region": "",
        "place": "",
        "state": JobState.PENDING,
        "phase": "",
        "attempt": 1,
        "ranks": 0,
        "failure": "",
        "reason": "",
        "tier": RankedJob(state=JobState.PENDING, has_model=False).tier,
        "requested": 0,
        "started": 0,
        "ended": 0,
        "earlier": [],
        "epochs": 0,
        "epoch_seconds": 0.0,
        "seconds": 0,
        "metrics": {},
        "dollars": 0.0,
        "hourly": 0.0,
        "cancelled": False,
    }
