"""Worlds: a consistent world of one submission with two lines, and functions that change it."""

from typing import Any

from traingrid import names
from traingrid.audit.snapshot import World
from traingrid.backends.training_job import TrainingJob
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.ledger.user_requests import Cancel

GRID, SUBMISSION = "traingrid", "0123abcd"
CLAIMED = "2026-11-20T10:00:00Z"
NOON = epoch_seconds("2026-11-20T12:00:00Z")
ROLES = {region: f"role-{region}" for region in ("us-east-1", "eu-west-1")}


def a_cancel(scope: str, at: str) -> dict[str, dict[str, Cancel]]:
    """Return the cancels of a world with one cancel."""
    return {SUBMISSION: {scope: Cancel(submission=SUBMISSION, scope=scope, at=at)}}


def a_line(index: int, state: str = "Completed", **changes: Any) -> dict[str, Any]:
    item: dict[str, Any] = {
        "submission": SUBMISSION,
        "item": f"job#{index:05d}",
        "attempt": 1,
        "state": state,
        "name": "x",
    }
    item |= {"region": "us-east-1", "regions": ["us-east-1", "eu-west-1"], "opened_at": CLAIMED, "updated_at": CLAIMED}
    return item | {"training_job": f"{GRID}-{SUBMISSION}-{index}-1"} | changes


def a_job(index: int, state: str = "Completed", attempt: int = 1, **changes: Any) -> TrainingJob:
    name = names.training_job(GRID, changes.pop("submission", SUBMISSION), index, attempt)
    identity = names.parse_training_job(GRID, name)
    assert identity
    facts: dict[str, Any] = {"region": "us-east-1", "state": JobState(state), "created_at": NOON - 3600 + attempt}
    facts |= {} if state in ("InProgress", "Stopping") else {"ended_at": facts["created_at"] + 0.5}
    return TrainingJob(name=name, identity=identity, **{**facts, **changes})


def a_world(lines: list[dict[str, Any]], jobs: list[TrainingJob], **changes: Any) -> World:
    head = {"submission": SUBMISSION, "item": "submission", "state": "Submitted", "jobs": len(lines), "manifest": "x"}
    head |= {"claimed_at": CLAIMED, "submitted_at": CLAIMED, "batch_job": "array"}
    facts: dict[str, Any] = {
        "grid": GRID,
        "regions": list(ROLES),
        "submissions": {SUBMISSION: SubmissionItem.from_item(head)},
        "lines": {(SUBMISSION, index): JobItem.from_item(line) for index, line in enumerate(lines) if line},
        "cancels": {},
        "training_jobs": jobs,
        "children": {},
        "roles": ROLES,
        "read_at": NOON,
    }
    return World(**{**facts, **changes})
