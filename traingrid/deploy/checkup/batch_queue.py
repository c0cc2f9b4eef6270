"""Batch queue: checks that the job queue of a deployed grid and its compute environments accept jobs."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.aws.clients import client
from traingrid.deploy.checkup.finding import REVERT_DRIFT, Finding, Verdict, run_check

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.grid.model import GridSettings


def batch_queue(grid: GridSettings) -> Iterator[Finding]:
    """Check the grid's job queue and each of its compute environments."""
    region = grid.home
    name = names.job_queue(grid.name, shared=bool(grid.shares))
    environments: list[str] = []

    def look() -> Finding:
        queues = client("batch", region).describe_job_queues(jobQueues=[name])["jobQueues"]
        if not queues:
            return _wrong_finding(region, f"job queue {name}", "does not exist", REVERT_DRIFT)
        environments.extend(entry["computeEnvironment"] for entry in queues[0]["computeEnvironmentOrder"])
        next_step = f"aws batch update-job-queue --region {region} --job-queue {name} --state ENABLED"
        return _state(region, f"job queue {name}", queues[0], next_step)

    yield run_check(region, f"job queue {name}", look, "batch:DescribeJobQueues")
    for arn in environments:
        subject = f"compute environment {names.name_of_arn(arn)}"
        yield run_check(
            region, subject, partial(_environment, region, arn, subject), "batch:DescribeComputeEnvironments"
        )


def _environment(region: str, arn: str, subject: str) -> Finding:
    environments = client("batch", region).describe_compute_environments(computeEnvironments=[arn])[
        "computeEnvironments"
    ]
    if not environments:
        return _wrong_finding(region, subject, "does not exist", REVERT_DRIFT)
    next_step = f"aws batch update-compute-environment --region {region} --compute-environment {arn} --state ENABLED"
    return _state(region, subject, environments[0], next_step)


def _state(region: str, subject: str, description: dict[str, Any], next_step: str) -> Finding:
    if description["state"] == "DISABLED":
        return _wrong_finding(region, subject, "DISABLED: submitted jobs wait", next_step)
    if description["status"] == "INVALID":
        reason = description.get("statusReason", "")
        return _wrong_finding(region, subject, f"INVALID: {reason}", f"remove the cause, then {next_step}")
    return Finding(region=region, subject=subject, verdict=Verdict.GOOD, reason=description["status"])


def _wrong_finding(region: str, subject: str, reason: str, fix: str) -> Finding:
    return Finding(region=region, subject=subject, verdict=Verdict.WRONG, reason=reason, fix=fix)
