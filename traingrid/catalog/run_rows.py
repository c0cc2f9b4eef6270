"""Run rows: the rows of the table `runs` for jobs of the ledger, one for each attempt."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from traingrid.aws.s3 import Storage
from traingrid.catalog.links import TRAINING_PLAN
from traingrid.child.cost import dollars
from traingrid.grid.orchestrator import Orchestrator
from traingrid.job.backend_traits import TRAITS
from traingrid.job.job import Job, job_in_region
from traingrid.job.recipe import recipe_of
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import readable, warn
from traingrid.ledger.items import JobItem, RecordedAttempt
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.ledger.user_requests import Cancel, cancel_of
from traingrid.submission.submitted_jobs import retried_jobs, submitted_jobs

_TOP1 = "validation_top1"


@dataclass(frozen=True, kw_only=True)
class Lines:
    """The lines of a submission by index, without those that cannot be read.

    Attributes:
        submitted: The lines as they were submitted first.
        corrected: The same with the lines of retries.
    """

    submitted: Mapping[int, Job]
    corrected: Mapping[int, Job]

    @classmethod
    def of(cls, storage: Storage, bucket: str, submission_item: SubmissionItem) -> Lines:
        """Read the lines of a submission from the manifest bucket."""
        lines = {job.index: job for job in readable(submitted_jobs(storage, bucket, submission_item), warn)}
        retried = {job.index: job for job in readable(retried_jobs(storage, bucket, submission_item), warn)}
        return cls(submitted=lines, corrected=lines | retried)


def run_rows(
    items: Iterable[JobItem], lines: Lines, cancels: Mapping[str, Cancel], orchestrator: Orchestrator
) -> Iterator[dict[str, Any]]:
    """Yield a row for each attempt of jobs.

    Args:
        items: Jobs of one submission that children have opened.
        cancels: Its cancels by scope.
        orchestrator: The size of the Batch children, which determines their cost.
    """
    for item in (_with_cancel_reason(item, cancels) for item in items):
        # A retry reopens a job after an attempt; the attempts after it have the line that the retry may have corrected.
        last_reopened = max((previous.attempt for previous in item.tried if previous.reopened), default=0)
        for number, attempt in item.attempts().items():
            jobs = lines.submitted if number <= last_reopened else lines.corrected
            current_item = item if number == item.attempt else None
            yield {
                **_attempt_facts(item, attempt),
                **_line_facts(jobs.get(item.index), attempt),
                **_current_facts(current_item),
                "orchestration_dollars": _child_cost(current_item, orchestrator) if current_item else None,
            }


def _with_cancel_reason(item: JobItem, cancels: Mapping[str, Cancel]) -> JobItem:
    """Return a job with the reason of the cancel that stopped it, if its item has none."""
    cancel = cancel_of(cancels, item.index, item.region)
    if cancel is None or item.updated_at < cancel.at:  # it ended before the cancel
        return item
    return replace(item, reason=cancel.reason_of(item.state, item.reason))


def _attempt_facts(item: JobItem, attempt: RecordedAttempt) -> dict[str, Any]:
    return {
        "submission": item.submission,
        "job": item.index,
        "attempt": attempt.attempt,
        "name": item.name,
        "region": attempt.region,
        "state": str(attempt.state),
        "failure": attempt.failure,
        "reason": attempt.reason,
        "billable_seconds": attempt.billable_seconds,
        "artifact": attempt.artifact or "",
        "training_job": attempt.training_job,
    }


def _line_facts(job: Job | None, attempt: RecordedAttempt) -> dict[str, Any]:
    """Return the facts of a line for an attempt; None and empty values if the line cannot be read."""
    if job is not None and attempt.region in job.regions:
        job = job_in_region(job, attempt.region)
    return {
        "uri": next((channel.location for channel in job.inputs.values()), "") if job else "",
        "instance_type": job.instance_type if job else "",
        "instances": job.instance_count if job else None,
        "purchase_option": _purchase_option(job, attempt) if job else "",
        "hyperparameters": job.hyperparameters if job else {},
        "tags": job.tags if job else {},
        "recipe": recipe_of(job) if job else "",
        "estimated_dollars": job.estimated_dollars if job and TRAITS[attempt.backend].has_prices else None,
    }


def _purchase_option(job: Job, attempt: RecordedAttempt) -> str:
    if not TRAITS[attempt.backend].has_prices:
        return attempt.backend
    if job.training_plan:
        return TRAINING_PLAN
    return "spot" if job.spot and not attempt.on_demand else "on_demand"


def _current_facts(item: JobItem | None) -> dict[str, Any]:
    """Return the facts that the ledger keeps for the current attempt only."""
    metrics: Mapping[str, float] = {**item.progress, **item.metrics} if item else {}
    return {
        "opened_at": _time(item.opened_at) if item else None,
        "updated_at": _time(item.updated_at) if item else None,
        "seconds": item.training_seconds if item else None,
        "top1": metrics.get(_TOP1),
        "metrics": dict(metrics),
    }


def _child_cost(item: JobItem, size: Orchestrator) -> float | None:
    """Return the cost of the child of an ended job, in US dollars, from the time between its first and last record.

    With `watch: until_started`, a child ends when the training job runs, and Fargate's minimum applies.
    """
    if item.state not in FINAL_STATES or not item.opened_at or not item.updated_at:
        return None
    seconds = (datetime.fromisoformat(item.updated_at) - datetime.fromisoformat(item.opened_at)).total_seconds()
    return dollars(size, 0.0 if size.watch == "until_started" else seconds)


def _time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
