"""Damage: one item of the ledger that cannot be read is reported by its name, and every reader continues without it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from tests.support.local_page import SUBMISSION, LocalGrid
from tests.support.rows import each_row
from tests.support.sweep import World, a_reconciler
from traingrid.api.report.content import read_content
from traingrid.api.report.document import document
from traingrid.audit import read_snapshot
from traingrid.audit.audit import audit
from traingrid.audit.snapshot import World as Snapshot
from traingrid.deploy.open_lines import OpenLines
from traingrid.errors import TraingridError
from traingrid.job.state import JobState
from traingrid.ledger.damage import Damaged, readable
from traingrid.ledger.job_states import INDEXED
from traingrid.ledger.ledger import Ledger, cancel_of_job
from traingrid.ledger.submission_item import Array
from traingrid.reconciler.sweep_coverage import UnreachedError
from traingrid.submission import retry_plan
from traingrid.submission.batch_children import Children, ChildStatus
from traingrid.submission.cancel import Canceller, CancelReport, CancelTarget
from traingrid.submission.folders_in_use import FolderFinder
from traingrid.submission.metric_history import MetricHistory
from traingrid.submission.overview import submission_overview
from traingrid.submission.retry_plan import RetryPlan
from traingrid.submission.status import submission_status
from traingrid.ui.view import LedgerView

OTHER = "ffffffff"
AT = "2026-11-20T10:00:00Z"
JOB: dict[str, Any] = {
    "attempt": 2,
    "state": "Failed",
    "name": "cats",
    "region": "us-east-1",
    "regions": ["us-east-1"],
    "line": 3,
    "opened_at": AT,
    "updated_at": AT,
    "backend": "sagemaker",
    "ranks": 8,
    "array_file": "jobs",
    "batch_child": "b",
    "phase": "Training",
    "training_job": "t",
    "training_job_arn": "arn",
    "on_demand": True,
    "service_job": "s",
    "fingerprint": "f",
    "residency": ["us-east-1"],
    "failure": "algorithm",
    "reason": "none",
    "stopped_for": "",
    "artifact": "s3://b/m",
    "progress": {"loss": 1.5},
    "metrics": {"loss": 1},
    "epochs": 3,
    "training_started_at": 1_790_000_000,
    "training_seconds": 7,
    "billable_seconds": 7,
    "hourly_dollars": 1.5,
    "running_hourly_dollars": 1.5,
    "tried": [{"attempt": 1, "region": "us-east-1", "state": "Failed", "failure": "capacity", "billable_seconds": 1}],
}
REQUIRED = {"attempt", "state", "name", "region", "opened_at"}
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
    "submitted_at": AT,
    "updated_at": AT,
    "batch_job": "array",
    "children": 3,
    "budget_dollars": 500.5,
    "arrays": [{"batch_job": "array", "file": "jobs.jsonl", "count": 3}],
    "notice_end": {"occurrence": 0, "claimed_at": 1, "published": True},
}
REQUIRED_OF_SUBMISSION = {"state", "manifest", "jobs", "claimed_at"}


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


@pytest.fixture
def local(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> LocalGrid:
    """A submission with a failed, a damaged and an unopened job, and another one with a job that trains."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "test")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    monkeypatch.setattr(MetricHistory, "read", lambda *_: [])
    monkeypatch.setattr(retry_plan, "inventory_of", lambda *_: Silent())
    monkeypatch.setattr(read_snapshot, "inventory_of", lambda *_: Silent())
    monkeypatch.setattr(read_snapshot, "_batch_jobs", lambda *_: {})
    monkeypatch.setattr(read_snapshot, "Children", lambda *_: AllRun())
    local = LocalGrid(ledger)
    jobs = local.submit(["one", "two", "three"])
    local.open(jobs[0], state=JobState.FAILED, failure="algorithm")
    local.open(jobs[1], state=JobState.FAILED, failure="algorithm")
    local.train(local.submit(["four"], OTHER)[0], OTHER)
    return local


class Silent:
    """A Region without training jobs."""

    def listed(self, *_: Any, **__: Any) -> list[Any]:
        return []


def swept(local: LocalGrid) -> Outcome:
    reconciler = a_reconciler(World(), local.deployment, local.ledger)
    fake: Any = AllRun()
    reconciler.children, reconciler.batch, reconciler.storage = fake, fake, local.plane.storage
    try:
        done = reconciler.sweep()
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
    content = read_content(local.plane, SUBMISSION)
    assert "</html>" in document(content)
    intact = {(SUBMISSION, run.status.index) for run in content.runs if run.status.phase != "unreadable"}
    return Outcome(intact, [part.place for part in content.damaged])


def open_in_the_guard(local: LocalGrid) -> Outcome:
    lines = OpenLines(
        ledger=local.ledger,
        storage=local.plane.storage,
        bucket=local.deployment.manifest_bucket,
        batch_status=lambda _: "RUNNING",
    ).find()
    unknown = [line for line in lines if not line.regions]
    return Outcome({(OTHER, 0)}, [f"'{line.submission}'" for line in unknown])


def in_use(local: LocalGrid) -> Outcome:
    children: Any = AllRun()
    finder = FolderFinder(storage=local.plane.storage, bucket=local.deployment.manifest_bucket, children=children)
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


def wrong(value: Any) -> Any:
    """Return a value of another type than a field's."""
    return {"a": {}} if isinstance(value, str | int | float | list) or value is None else "text"


def rows(complete: dict[str, Any], required: set[str]) -> list[tuple[str, tuple[dict[str, Any], bool]]]:
    """Return an item without each field, and with each field of another type, and True if it is damaged then."""
    without = {
        name: ({other: value for other, value in complete.items() if other != name}, name in required)
        for name in complete
    }
    other = {name: ({**complete, name: wrong(value)}, True) for name, value in complete.items()}
    named = [(f"without {name}", row) for name, row in without.items()]
    return [*named, *((f"wrong {name}", row) for name, row in other.items())]


def entries(name: str, complete: dict[str, Any], required: set[str]) -> list[tuple[str, tuple[dict[str, Any], bool]]]:
    """Return an item whose field `name` has a damaged entry."""
    [entry] = complete[name]
    found = rows(entry, required)
    return [(f"{name}: {row}", ({**complete, name: [value]}, damaged)) for row, (value, damaged) in found]


@each_row("damage", rows(JOB, REQUIRED) + entries("tried", JOB, {"attempt", "region", "state"}))
def test_a_damaged_job_is_reported_and_all_others_are_read(
    local: LocalGrid, damage: tuple[dict[str, Any], bool]
) -> None:
    stored, is_damaged = damage
    changed = next((name for name in JOB if stored.get(name) != JOB[name]), "")
    local.ledger._table.put({"submission": SUBMISSION, "item": "job#00001", **stored})
    for name, reader in {**OF_ALL, **OF_ONE}.items():
        outcome = reader(local)
        if name == "overview" and changed not in INDEXED:
            continue  # it reads an index without this attribute
        assert is_damaged == any("job#00001" in text or text == f"'{SUBMISSION}'" for text in outcome.reported), name
        if name in ("audit", "page"):
            assert {(SUBMISSION, 0), (OTHER, 0)} <= outcome.intact, name
        if name in OF_ONE and name != "cancel":
            assert (SUBMISSION, 0) in outcome.intact, name
        if is_damaged and name not in ("cancel", "sweep"):
            assert (SUBMISSION, 1) not in outcome.intact, name


@each_row(
    "damage",
    rows(SUBMITTED, REQUIRED_OF_SUBMISSION) + entries("arrays", SUBMITTED, {"batch_job", "file", "count"}),
)
def test_a_damaged_submission_is_reported_and_all_others_are_read(
    local: LocalGrid, damage: tuple[dict[str, Any], bool]
) -> None:
    stored, is_damaged = damage
    local.ledger._table.put({"submission": SUBMISSION, "item": "submission", **stored})
    for name, reader in {**OF_ALL, "list": listed}.items():
        outcome = reader(local)
        named = any("'submission')" in text or text == f"'{SUBMISSION}'" for text in outcome.reported)
        assert is_damaged == named, (name, outcome.reported)
        assert (OTHER, 0) in outcome.intact, name
    for name, reader in OF_ONE.items() if is_damaged else ():
        with pytest.raises(TraingridError, match="item 'submission'"):
            reader(local)
        assert name


@each_row("damage", [("without a time", {}), ("wrong time", {"at": 7}), ("wrong user", {"at": AT, "by": {"a": 1}})])
def test_a_damaged_cancel_is_in_force_and_reported(local: LocalGrid, damage: dict[str, Any]) -> None:
    local.ledger._table.put({"submission": OTHER, "item": f"cancel#{cancel_of_job(0)}", **damage})
    assert list(local.ledger.cancels(OTHER)) == [cancel_of_job(0)]
    for reader in (swept, audited):
        assert any("cancel#job#00000" in text for text in reader(local).reported)


def test_an_item_whose_key_has_no_index_is_reported(local: LocalGrid) -> None:
    local.ledger._table.put({"submission": SUBMISSION, "item": "job#x", **JOB})
    for reader in OF_ALL.values():
        assert any("job#x" in text or text == f"'{SUBMISSION}'" for text in reader(local).reported)


def test_a_missing_or_truncated_file_is_reported_by_each_reader(local: LocalGrid) -> None:
    uri = f"s3://{local.deployment.manifest_bucket}/submissions/{SUBMISSION}/jobs.jsonl"
    lines = local.storage.objects[uri].splitlines(keepends=True)
    contents = {
        "does not exist": None,
        "has 0 lines instead of 3": b"",
        "has 2 lines instead of 3": b"".join(lines[:2]),
    }
    contents["Line 3 of"] = b"".join(lines)[:-20]
    for problem, content in contents.items():
        local.storage.objects.pop(uri, None)
        if content is not None:
            local.storage.objects[uri] = content
        for name, reader in {"status": shown, "report": reported, "page": on_the_page, "prune": in_use}.items():
            assert any(uri in text for text in reader(local).reported), (problem, name)
        assert any("jobs.jsonl" in text for text in retried(local).reported), problem
        assert open_in_the_guard(local).reported == [f"'{SUBMISSION}'"], problem


def test_children_of_a_retry_whose_file_is_gone_are_those_of_the_first_array(local: LocalGrid) -> None:
    children = Children(local.plane.storage, local.deployment.manifest_bucket, make=lambda *_: None)
    array = Array(batch_job="again", file=f"submissions/{SUBMISSION}/retry-1.jsonl", count=1)
    local.ledger.record_array(SUBMISSION, array)
    head = local.ledger.submission(SUBMISSION)
    assert head is not None
    assert children.ids(head) == {index: f"batch-{SUBMISSION}:{index}" for index in range(3)}
