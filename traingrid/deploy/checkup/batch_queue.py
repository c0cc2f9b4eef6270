"""Batch queue: checks that the job queue of a deployed grid and its compute environments accept jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.aws.clients import client
from traingrid.deploy.checkup.finding import REVERT_DRIFT, Finding, Verdict, looked

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.model import Grid


def batch_queue(grid: Grid) -> Iterator[Finding]:
    """Check the grid's job queue and each of its compute environments."""
    region, name = grid.home, names.job_queue(grid.name, shared=bool(grid.shares))
    environments: list[str] = []

    def look() -> Finding:
        found = client("batch", region).describe_job_queues(jobQueues=[name])["jobQueues"]
        if not found:
            return _wrong(region, f"job queue {name}", "does not exist", REVERT_DRIFT)
        environments.extend(one["computeEnvironment"] for one in found[0]["computeEnvironmentOrder"])
        enable = f"aws batch update-job-queue --region {region} --job-queue {name} --state ENABLED"
        return _state(region, f"job queue {name}", found[0], enable)

    yield looked(region, f"job queue {name}", look, "batch:DescribeJobQueues")
    for arn in environments:
        what = f"compute environment {arn.rpartition('/')[2]}"
        yield looked(region, what, partial(_environment, region, arn, what), "batch:DescribeComputeEnvironments")


def _environment(region: str, arn: str, what: str) -> Finding:
    found = client("batch", region).describe_compute_environments(computeEnvironments=[arn])["computeEnvironments"]
    if not found:
        return _wrong(region, what, "does not exist", REVERT_DRIFT)
    enable = f"aws batch update-compute-environment --region {region} --compute-environment {arn} --state ENABLED"
    return _state(region, what, found[0], enable)


def _state(region: str, what: str, found: dict[str, Any], enable: str) -> Finding:
    if found["state"] == "DISABLED":
        return _wrong(region, what, "DISABLED: submitted jobs wait", enable)
    if found["status"] == "INVALID":
        reason = found.get("statusReason", "")
        return _wrong(region, what, f"INVALID: {reason}", f"remove the cause, then {enable}")
    return Finding(region=region, what=what, verdict=Verdict.GOOD, why=found["status"])


def _wrong(region: str, what: str, why: str, fix: str) -> Finding:
    return Finding(region=region, what=what, verdict=Verdict.WRONG, why=why, fix=fix)
