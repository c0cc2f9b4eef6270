"""Damage: complete items of each kind, the same with each field damaged, and every reader of the ledger."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tests.support.local_page import SUBMISSION, LocalGrid
from tests.support.reconciler_world import World, a_reconciler
from traingrid.audit import read_snapshot
from traingrid.audit.audit import audit
from traingrid.audit.snapshot import World as Snapshot
from traingrid.deploy.open_lines import OpenLines
from traingrid.job.state import JobState
from traingrid.ledger.damage import Damaged, readable
from traingrid.reconciler.reach import UnreachedError
from traingrid.report.content import read_content
from traingrid.report.document import document
from traingrid.report.subject import Subject
from traingrid.submission.batch_children import ChildStatus
from traingrid.submission.cancel import Canceller, CancelReport, CancelTarget
from traingrid.submission.folders_in_use import FolderFinder
from traingrid.submission.overview import submission_overview
from traingrid.submission.retry_plan import RetryPlan
from traingrid.submission.status import submission_status
from traingrid.ui.view import LedgerView

OTHER = "ffffffff"
AT, LATER = "2026-11-20T10:00:00Z", "2026-11-20T11:00:00Z"
JOB: dict[str, Any] = {
    "attempt": 2,
    "state": "Failed",
    "name": "cats",
    "region": "us-east-1",
    "regions": ["us-east-1"],
    "line": 3,
    "opened_at": AT,
    "updated_at": LATER,
    "backend": "sagemaker",
    "ranks": 8,
    "array_file": "jobs",
    "batch_child": "b",
    "phase": "Training",
    "phase_at": 1_790_000_000,
    "training_job": "t",
    "training_job_arn": "arn",
    "on_demand": True,
    "service_job": "s",
    "fingerprint": "f",
    "requested_at": AT,
    "open_requests": {"r"},
    "residency": ["us-east-1"],
    "failure": "algorithm",
    "reason": "none",
    "stopped_for": "",
    "next_region": "",
    "artifact": "s3://b/m",
    "has_no_model": False,
    "progress": {"loss": 1.5},
    "metrics": {"loss": 1},
    "epochs": 3,
    "epoch": 2,
    "training_started_at": 1_790_000_000,
    "epoch_seconds": 2.5,
    "training_seconds": 7,
    "billable_seconds": 7,
    "hourly_dollars": 1.5,
    "running_hourly_dollars": 1.5,
    "reopened": "",
    "ended_at": "2026-11-20T10:30:00Z",
    "checkpoint_from": "eu-west-1",
    "checkpoint_bytes": 7,
    "checkpoint_dollars": 0.5,
    "checkpoint_note": "none",
    "tried": [
        {
            "attempt": 1,
            "region": "us-east-1",
            "state": "Failed",
            "failure": "capacity",
            "reason": "none",
            "training_job": "t",
            "training_job_arn": "arn",
            "reopened": "",
            "ended_at": "2026-11-20T10:30:00Z",
            "artifact": "s3://b/m",
            "billable_seconds": 1,
            "epoch": 2,
            "epoch_seconds": 2.5,
            "on_demand": False,
            "backend": "sagemaker",
            "checkpoint_from": "eu-west-1",
            "checkpoint_bytes": 7,
            "checkpoint_dollars": 0.5,
            "checkpoint_note": "none",
            "residency": ["us-east-1"],
        }
    ],
}
REQUIRED = {"attempt", "state", "name", "region", "opened_at", "requested_at"}
"""A job with open requests has the time of the last one."""
_NOTICE = {"occurrence": 0, "claimed_at": 1, "published": True}
SUBMITTED: dict[str, Any] = {
    "state": "Submitted",
    "manifest": "s3://b/manifests/a.csv",
    "jobs": 3,
    "claimed_at": AT,
    "version": "1",
    "sha256": "0",
    "owner": "request",
    "claim_ends_at": 1,
    "failed_tries": 1,
    "uploaded_at": AT,
    "submitted_at": AT,
    "updated_at": AT,
    "batch_job": "array",
    "ended": {"Completed": 2, "Failed": 1},
    "budget_dollars": 500.5,
    "arrays": [{"batch_job": "array", "file": "jobs.jsonl", "count": 3, "version": "1"}],
    **dict.fromkeys(("notice_end", "notice_budget", "notice_first_failure"), _NOTICE),
}
REQUIRED_OF_SUBMISSION = {"state", "manifest", "jobs", "claimed_at"}
CANCELLED: dict[str, Any] = {"at": AT, "by": "Ada", "reason": "the bill"}
PAUSED: dict[str, Any] = {"allowed": False, "at": AT, "by": "Ada", "reason": "the bill"}
PASSED: dict[str, Any] = {
    "began_at": 1_790_000_000,
    "completed_at": 1_790_000_000,
    "after": {"submission": SUBMISSION, "item": "submission"},
    "pages": 1,
    "added": 0,
    "listed": {"us-east-1": 1_790_000_000},
}
SHORT: dict[str, Any] = {
    "until": int(time.time()),
    "since": 1_790_000_000,
    "failed_at": 1_790_000_000,
    "failures": 1,
    "training_job": "t",
    "probe": "",
}
COPIED: dict[str, Any] = {
    "source": "s3://a/x",
    "region": "eu-west-1",
    "from_region": "us-east-1",
    "is_object": False,
    "state": "copied",
    "owner": "b",
    "job": f"{OTHER}/0",
    "updated_at": AT,
    "began_at": AT,
    "existed": 1,
    "objects": 3,
    "bytes": 100,
    "missing_bytes": 80,
    "earlier": {f"{OTHER}/1": 20},
    "copied_objects": 3,
    "copied_bytes": 100,
    "verified": {"checksum": 3},
    "source_digest": "d",
    "target_digest": "d",
    "revision": 2,
}
REQUIRED_OF_COPY = {"source", "region", "from_region", "job", "updated_at", "began_at"}
"""A copy into a folder that had objects has the time at which it began."""
REGISTERED: dict[str, Any] = {
    "bytes": 100,
    "objects": 3,
    "campaign": "c",
    "format": "tfrecord",
    "attributes": "{}",
    "created_at": "2026-11-20T10:00:00+00:00",
    "replicas": {"us-east-1": {"uri": "s3://a/x", "registered_at": AT}},
    "rules": {"rule": "us-east-1"},
    "pending": ["rule"],
    "revision": 1,
}
REQUIRED_OF_DATASET = {"bytes", "objects", "replicas", "revision"}


@dataclass
class Outcome:
    """The result of a reader: the intact jobs that it read, and the parts that it reported.

    Attributes:
        intact: The intact jobs by submission and index, as far as the reader distinguishes them.
        reported: The names of the damaged parts.
    """

    intact: set[tuple[str, int]]
    reported: list[str] = field(default_factory=list)


class AllRun:
    """Batch's children: all run."""

    def of(self, head: Any, lines: Any, **_: Any) -> dict[int, ChildStatus]:
        return {index: ChildStatus(id=f"{head.batch_job}:{index}", status="RUNNING") for index in lines}

    def ids(self, head: Any) -> dict[int, str]:
        return {index: f"{head.batch_job}:{index}" for index in range(head.jobs)}

    def state(self, _head: Any) -> str:
        return "RUNNING"

    def find(self, *_: Any) -> None:
        return None


class Silent:
    """A Region without training jobs."""

    def listed(self, *_: Any, **__: Any) -> list[Any]:
        return []


def swept(local: LocalGrid) -> Outcome:
    reconciler = a_reconciler(World(), local.deployment, local.ledger)
    fake: Any = AllRun()
    reconciler.children, reconciler.batch, reconciler.storage = fake, fake, local.plane.storage
    try:
        done = reconciler.run_pass()
    except UnreachedError as error:
        done = error.done
    assert done.lines == {JobState.IN_PROGRESS: 1}
    return Outcome({(OTHER, 0)}, list(done.unreachable))


def world(local: LocalGrid) -> Snapshot:
    return read_snapshot.read_world(local.deployment)


def audited(local: LocalGrid) -> Outcome:
    seen = world(local)
    return Outcome(set(seen.lines), [violation.what for violation in audit(seen)])


def listed(local: LocalGrid) -> Outcome:
    reported: list[Damaged] = []
    found = readable(local.ledger.submissions(), reported.append)
    return Outcome({(head.submission, 0) for head in found}, [part.place for part in reported])


def shown(local: LocalGrid) -> Outcome:
    children: Any = AllRun()
    bucket = local.deployment.manifest_bucket
    seen = submission_status(SUBMISSION, bucket, local.ledger, children, local.plane.storage)
    assert [job.index for job in seen.jobs] == [0, 1, 2]
    intact = {(SUBMISSION, job.index) for job in seen.jobs if job.phase != "unreadable"}
    return Outcome(intact, [part.place for part in seen.damaged])


def counted(local: LocalGrid) -> Outcome:
    head = local.ledger.submission(SUBMISSION)
    assert head is not None
    seen = submission_overview(head, local.ledger)
    assert seen.unopened == 1
    return Outcome({(SUBMISSION, job.index) for job in seen.failed}, [part.place for part in seen.damaged])


def on_the_page(local: LocalGrid) -> Outcome:
    view = LedgerView(local.plane)
    view.read_all()
    view.read_changed()
    view.read_open()
    assert len(view.rows[OTHER]) == 1
    rows = [row for of_submission in view.rows.values() for row in of_submission.values()]
    intact = {(row["submission"], row["index"]) for row in rows if row["phase"] != "unreadable"}
    return Outcome(intact, [part.place for parts in view.damaged.values() for part in parts])


def cancelled(local: LocalGrid) -> Outcome:
    children: Any = AllRun()
    canceller = Canceller(
        deployment=local.deployment, ledger=local.ledger, children=children, storage=local.plane.storage
    )
    head, report = local.ledger.submission(SUBMISSION), CancelReport()
    assert head is not None
    terminated = canceller._batch_jobs(head, CancelTarget(submission=SUBMISSION, index=2), report)
    assert [name.rpartition(":")[2] for name in terminated] == ["2"]
    return Outcome({(SUBMISSION, 2)}, list(report.errors))


def retried(local: LocalGrid) -> Outcome:
    children: Any = AllRun()
    plan = RetryPlan(deployment=local.deployment, ledger=local.ledger, storage=local.plane.storage, children=children)
    todo = plan.of(SUBMISSION)
    return Outcome({(SUBMISSION, job.index) for job in todo.jobs}, list(todo.left.values()))


def reported(local: LocalGrid) -> Outcome:
    content = read_content(local.plane, Subject.of(SUBMISSION))
    assert "</html>" in document(content)
    intact = {(SUBMISSION, run.status.index) for run in content.runs if run.status.phase != "unreadable"}
    return Outcome(intact, [part.place for part in content.damaged])


def open_in_the_guard(local: LocalGrid) -> Outcome:
    lines = OpenLines(
        ledger=local.ledger,
        storage=local.plane.storage,
        bucket=local.deployment.manifest_bucket,
    ).find()
    unknown = [line for line in lines if not line.regions]
    return Outcome({(OTHER, 0)}, [f"'{line.submission}'" for line in unknown])


def in_use(local: LocalGrid) -> Outcome:
    finder = FolderFinder(storage=local.plane.storage, bucket=local.deployment.manifest_bucket)
    found = finder.find(local.ledger.everything())
    return Outcome({(OTHER, 0)}, list(found.unknown))


OF_ALL: dict[str, Callable[[LocalGrid], Outcome]] = {
    "sweep": swept,
    "audit": audited,
    "page": on_the_page,
    "region guard": open_in_the_guard,
    "prune": in_use,
}
"""The readers of all submissions."""
OF_ONE = {
    "status": shown,
    "overview": counted,
    "cancel": cancelled,
    "retry": retried,
    "report": reported,
}
"""The readers of one submission, whose own item must be readable."""


_NOT_TIMES = {
    "a day that no month has": "2026-02-30T10:00:00Z",
    "an early time": "0001-01-01T00:00:00Z",
    "a late time": "9999-12-31T23:59:59Z",
}


def damaged_values(value: Any) -> dict[str, Any]:
    """Return values that a field cannot have: another type, and numbers and times that no program writes."""
    is_structured = isinstance(value, dict | set | frozenset | bool)
    values: dict[str, Any] = {"another type": "text" if is_structured else {"a": {}}}
    if isinstance(value, int | float) and not isinstance(value, bool):
        values |= {"a huge number": 10**37, "a negative number": -1, "a text": "7"}
    if isinstance(value, str) and value in (AT, LATER):
        values |= {**_NOT_TIMES, "a number": 7}
    return values


def rows(complete: dict[str, Any], required: set[str]) -> list[tuple[str, tuple[dict[str, Any], bool]]]:
    """Return an item without each field, and with each field damaged, and True if it is damaged then."""
    without = [
        (f"without {name}", ({other: value for other, value in complete.items() if other != name}, name in required))
        for name in complete
    ]
    damaged = [
        (f"{name} with {damage}", ({**complete, name: value}, True))
        for name, intact_value in complete.items()
        for damage, value in damaged_values(intact_value).items()
    ]
    return [*without, *damaged]


def entries(name: str, complete: dict[str, Any], required: set[str]) -> list[tuple[str, tuple[dict[str, Any], bool]]]:
    """Return an item whose field `name`, a list with one entry or a map, has a damaged entry."""
    is_list = isinstance(complete[name], list)
    damages = rows(complete[name][0] if is_list else complete[name], required)
    return [
        (f"{name}: {row}", ({**complete, name: [entry] if is_list else entry}, damaged))
        for row, (entry, damaged) in damages
    ]
