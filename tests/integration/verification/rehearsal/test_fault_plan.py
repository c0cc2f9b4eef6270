from pathlib import Path

import pytest

from localcloud.faults.plan import FaultPlan
from verification.rehearsal.fault_plan import plan_of
from verification.rehearsal.rehearsal import read_script

ROOT = Path(__file__).resolve().parents[4]
JOBS = read_script(ROOT / "examples/imagenet/manifest.csv", ROOT / "grid.yaml").jobs


def kills(plan: FaultPlan) -> list[str]:
    return [fault.caller for fault in plan.calls if fault.effect.startswith("kill") and fault.caller != "lambda/*"]


def test_a_plan_depends_only_on_its_seed() -> None:
    assert plan_of(JOBS, 1) == plan_of(JOBS, 1)
    assert len({str(kills(plan_of(JOBS, seed))) for seed in range(10)}) == 10
    dead = {fault.effect for seed in range(10) for fault in plan_of(JOBS, seed).calls if fault.action == "SubmitJob"}
    assert dead == {"kill_after", "lose_reply"}


def test_the_child_of_a_single_line_manifest_is_killed_too() -> None:
    assert kills(plan_of(JOBS[:1], 1))[0] == "batch/*/1"
    assert kills(plan_of(JOBS, 1))[0].startswith("batch/*:")


@pytest.mark.parametrize("lines", [1, 2, 3, 12])
def test_no_fault_prevents_a_line_from_ending(lines: int) -> None:
    plan = plan_of(JOBS[:lines], 1)
    assert all(quota.times for quota in plan.quotas)
    assert all(capacity.times for capacity in plan.capacity)
    assert all(fault.times or fault.nth or fault.share < 1 or ":" in fault.caller or lines == 1 for fault in plan.calls)
    assert all(event.drop == 0 for event in plan.events if event.source == "aws.s3"), "the manifest's event is kept"
