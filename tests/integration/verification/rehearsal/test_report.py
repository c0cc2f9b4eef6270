from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tests.support.snapshots import a_line
from traingrid.audit.snapshot import World
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem
from verification.rehearsal.rehearsal import read_script
from verification.rehearsal.report import asked_table, ends_table, unfinished

ROOT = Path(__file__).resolve().parents[4]


def shown(table: Table) -> list[list[str]]:
    console = Console(width=200)
    with console.capture() as capture:
        console.print(table)
    return [line.split("  ") for line in capture.get().splitlines()]


def world(*items: dict[str, Any]) -> World:
    lines = {
        ("aaaaaaaa", index): JobItem.from_item(a_line(index, line=index + 1, **item))
        for index, item in enumerate(items)
    }
    return World(
        grid="grid",
        regions=["us-east-1"],
        submissions={},
        lines=lines,
        cancels={},
        training_jobs=[],
        children={},
        read_at=0.0,
    )


def test_requested_resources_are_summed_by_region_type_and_spot() -> None:
    jobs = read_script(ROOT / "examples/imagenet/manifest.csv", ROOT / "grid.yaml").jobs
    rows = {tuple(cell for cell in row if cell.strip()) for row in shown(asked_table(jobs))}
    found = {tuple(cell.strip() for cell in row) for row in rows}
    assert ("us-east-1", "ml.p4d.24xlarge", "3", "13", "104", "104") in found
    assert ("eu-west-1", "ml.p4d.24xlarge spot", "2", "4", "32", "32") in found


def test_lines_are_counted_by_end_and_attempt_and_failures_have_reasons() -> None:
    failed = {
        "state": JobState.FAILED,
        "attempt": 2,
        "region": "eu-west-1",
        "name": "a\x1b[2J",
        "reason": "CapacityError: none",
        "failure": "capacity",
        "tried": [{"attempt": 1, "region": "us-east-1", "state": JobState.FAILED}],
    }
    seen = world(
        {"state": JobState.COMPLETED}, failed, *[{"state": JobState.STOPPED, "region": "us-east-1", "name": "x"}] * 25
    )
    assert [row[0] for row in shown(ends_table(seen))[1:]] == ["Completed", "Failed", "Stopped"]
    lines = list(unfinished(seen))
    assert lines[0].startswith("1 Failed: The Region has no capacity for this instance type. Set higher `retries`")
    assert lines[1] == "  line 2 (a\\x1b[2J): us-east-1, eu-west-1"
    assert lines[2:4] == ["25 Stopped: no reason", "  line 3 (x): us-east-1"]
    assert lines[-1] == "  ... and 5 more"
