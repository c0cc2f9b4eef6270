"""Sync: projects the ledger's jobs into the table `runs`, and its datasets and copies into theirs.

The ledger remains the source of truth. A sync reads each submission that has changed since the last one, or that had
open jobs, and replaces its rows. Running it again changes nothing, and `rebuild` creates the same rows from nothing.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any

from sqlalchemy import select

from traingrid.catalog.batches import delete_rows, upsert
from traingrid.catalog.copies import copy_moves, forget_moves
from traingrid.catalog.links import TRAINING_PLAN, link_datasets, price_runs
from traingrid.catalog.registered import copy_registered, forget_registered
from traingrid.catalog.tables import runs, synced_submissions
from traingrid.child.cost import dollars
from traingrid.job.job import in_region
from traingrid.job.recipe import recipe_of
from traingrid.job.state import FINAL_STATES
from traingrid.submission.submitted_jobs import retried_jobs, submitted_jobs

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from sqlalchemy import Connection

    from traingrid.aws.s3 import Storage
    from traingrid.catalog.database import Catalog
    from traingrid.grid.orchestrator import Orchestrator
    from traingrid.job.job import Job
    from traingrid.ledger.datasets import Datasets
    from traingrid.ledger.items import JobItem, RecordedAttempt
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.moves import Moves
    from traingrid.ledger.submission_item import SubmissionItem

logger = logging.getLogger(__name__)
_TOP1 = "validation_top1"


@dataclass(frozen=True, kw_only=True)
class Synced:
    """The result of a sync.

    Attributes:
        submissions: The number of submissions that were read.
        runs: The number of rows that were written.
        replicas: The number of registered replicas that were added.
    """

    submissions: int
    runs: int
    replicas: int = 0


@dataclass(frozen=True, kw_only=True)
class GridRecords:
    """The records of a grid.

    Attributes:
        ledger: The ledger.
        storage: S3.
        bucket: The manifest bucket.
        datasets: The registered datasets.
        moves: The copies between Regions.
        orchestrator: The size of the Batch children, which determines their cost.
    """

    ledger: Ledger
    datasets: Datasets
    moves: Moves
    orchestrator: Orchestrator
    storage: Storage
    bucket: str


def sync(catalog: Catalog, grid: GridRecords) -> Synced:
    """Bring the tables of registered datasets, `runs` and `transfers` up to date with the ledger.

    Raises:
        TraingridError: The database does not answer.
    """
    added = copy_registered(catalog, grid.datasets)
    moves = list(grid.moves.all())  # before the jobs, so that the runs of their jobs are in the catalog
    with catalog.read_only() as connection:
        known = {row.submission: row for row in connection.execute(select(synced_submissions))}
    submissions = written = 0
    for head in grid.ledger.submissions():
        before = known.get(head.submission)
        if before and before.changed_at == head.changed_at and not before.open_jobs:
            continue
        items = list(grid.ledger.jobs(head.submission))
        rows = list(_rows(head, items, grid))
        catalog.write(partial(_replace, head=head, items=items, rows=rows))
        logger.info("submission %s: %d runs", head.submission, len(rows))
        submissions, written = submissions + 1, written + len(rows)
    catalog.write(partial(copy_moves, items=moves))
    catalog.write(link_datasets)
    catalog.write(price_runs)
    return Synced(submissions=submissions, runs=written, replicas=added)


def rebuild(catalog: Catalog, grid: GridRecords) -> Synced:
    """Delete all runs and registered datasets and read the whole ledger again; imported rows do not change.

    Raises:
        TraingridError: The database does not answer.
    """
    catalog.write(_forget)
    return sync(catalog, grid)


def _forget(connection: Connection) -> None:
    forget_registered(connection)
    forget_moves(connection)
    delete_rows(connection, synced_submissions)
    delete_rows(connection, runs)


def _replace(
    connection: Connection, head: SubmissionItem, items: Iterable[JobItem], rows: list[dict[str, Any]]
) -> None:
    """Replace a submission's rows."""
    ended = sum(item.state in FINAL_STATES for item in items)
    delete_rows(connection, runs, runs.c.submission == head.submission)
    upsert(connection, runs, rows)
    synced = {"submission": head.submission, "changed_at": head.changed_at, "open_jobs": head.jobs - ended}
    upsert(connection, synced_submissions, [synced])


def _rows(head: SubmissionItem, items: Iterable[JobItem], grid: GridRecords) -> Iterator[dict[str, Any]]:
    """Yield a row for each attempt of the jobs that a child has opened."""
    lines = {job.index: job for job in submitted_jobs(grid.storage, grid.bucket, head)}
    corrected = lines | retried_jobs(grid.storage, grid.bucket, head)
    for item in items:
        reopened = max((former.attempt for former in item.tried if former.reopened), default=0)
        for number, attempt in item.attempts().items():
            job = (lines if number <= reopened else corrected).get(item.index)
            current = number == item.attempt
            yield {
                **_of_attempt(item, attempt),
                **_of_line(job, attempt),
                **(_of_current(item) if current else _of_current(None)),
                "orchestration_dollars": _of_child(item, grid.orchestrator) if current else None,
            }


def _of_attempt(item: JobItem, attempt: RecordedAttempt) -> dict[str, Any]:
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


def _of_line(job: Job | None, attempt: RecordedAttempt) -> dict[str, Any]:
    """Return the facts of a line for an attempt; None for a submission by hand, which has no copy."""
    if job is not None and attempt.region in job.regions:
        job = in_region(job, attempt.region)
    return {
        "uri": next((channel.uri for channel in job.inputs.values()), "") if job else "",
        "instance_type": job.instance_type if job else "",
        "instances": job.instance_count if job else None,
        "purchase_option": _purchase_option(job, attempt) if job else "",
        "hyperparameters": job.hyperparameters if job else {},
        "tags": job.tags if job else {},
        "recipe": recipe_of(job) if job else "",
        "estimated_dollars": job.estimated_dollars if job else None,
    }


def _purchase_option(job: Job, attempt: RecordedAttempt) -> str:
    if job.training_plan:
        return TRAINING_PLAN
    return "spot" if job.spot and not attempt.on_demand else "on_demand"


def _of_current(item: JobItem | None) -> dict[str, Any]:
    """Return the facts that the ledger keeps for the current attempt only."""
    metrics: Mapping[str, float] = {**item.progress, **item.metrics} if item else {}
    return {
        "opened_at": _time(item.opened_at) if item else None,
        "updated_at": _time(item.updated_at) if item else None,
        "seconds": item.training_seconds if item else None,
        "top1": metrics.get(_TOP1),
        "metrics": dict(metrics),
    }


def _of_child(item: JobItem, size: Orchestrator) -> float | None:
    """Return the cost of the child of an ended job, in US dollars, from the time between its first and last record.

    With `watch: until_started`, a child ends when the training job runs, and Fargate's minimum applies.
    """
    if item.state not in FINAL_STATES or not item.opened_at or not item.updated_at:
        return None
    seconds = (datetime.fromisoformat(item.updated_at) - datetime.fromisoformat(item.opened_at)).total_seconds()
    return dollars(size, 0.0 if size.watch == "until_started" else seconds)


def _time(text: str) -> datetime | None:
    return datetime.fromisoformat(text) if text else None
