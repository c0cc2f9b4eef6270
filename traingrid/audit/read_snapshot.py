"""World reading: reads the ledger, SageMaker in every Region, and Batch, in pages and at a low rate."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.audit.calls import created, submission_of
from traingrid.audit.snapshot import World
from traingrid.aws.clients import gentle
from traingrid.aws.s3 import Storage
from traingrid.backends import inventory_of
from traingrid.backends.found_job import owns
from traingrid.errors import TraingridError
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import Damaged
from traingrid.ledger.items import JobItem, attempts, regions_of
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.submission.batch_children import Children

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traingrid.backends.found_job import TrainingJob
    from traingrid.backends.inventory import Inventory
    from traingrid.grid.deployment import Deployment
    from traingrid.ledger.items import Line
    from traingrid.ledger.ledger import LedgerItem
    from traingrid.ledger.user_requests import Cancel


def read_world(  # noqa: PLR0913  # one keyword for each independent option
    deployment: Deployment,
    *,
    submission: str = "",
    details: bool = False,
    at_rest: bool = False,
    calls: Sequence[Mapping[str, Any]] | None = None,
    before: World | None = None,
) -> World:
    """Read the current state of a grid. Changes nothing.

    Args:
        deployment: The grid.
        submission: Read only this submission and its training jobs; by default all.
        details: Also describe ended training jobs: artifact, billed seconds and role.
        at_rest: See `World`.
        calls: See `World`; given by a caller that has a record of calls.
        before: See `World`.

    Raises:
        TraingridError: Lines have trained in a Region that has left the grid, and that Region does not answer.
    """
    grid, home = deployment.grid, deployment.grid.home
    regions = {region: inventory_of(deployment, region) for region in grid.regions}
    batch_jobs = _batch_jobs(deployment, submission)
    jobs = [job for region in regions.values() for job in region.listed(submission=submission)]
    ledger = Ledger(deployment.table, home)
    items = _read(ledger, submission)
    elsewhere = {
        region: inventory_of(deployment, region) for region in regions_of(items[1].values()).difference(regions)
    }
    if elsewhere:
        jobs += [job for name, region in elsewhere.items() for job in _listed_elsewhere(name, region, submission)]
        items = _read(ledger, submission)  # again, because training jobs must be read before the ledger
    regions, lines = regions | elsewhere, items[1]
    return World(
        grid=grid.name,
        regions=list(regions),
        submissions=items[0],
        lines=lines,
        cancels={submission: ledger.cancels(submission)} if submission else items[2],
        damaged=items[3],
        training_jobs=[
            looked_at
            for job in jobs
            if (looked_at := _looked_at(job, lines.get(job.line), regions[job.region], details=details))
        ],
        children=_children(items[0], lines, Children(Storage(home), deployment.manifest_bucket, home)),
        batch_jobs=batch_jobs,
        roles={region: deployment.execution_role_arn(region) for region in regions},
        calls=calls if calls is None or not submission else _of_submission(calls, grid.name, submission),
        at_rest=at_rest,
        before=before,
        read_at=time.time(),
    )


def _listed_elsewhere(name: str, region: Inventory, submission: str) -> list[TrainingJob]:
    """Return the training jobs in a Region that has left the grid."""
    try:
        return list(region.listed(submission=submission))
    except (BotoCoreError, ClientError) as error:
        what = f"Jobs have trained in {name}, which is no longer in grid.yaml, but listing them failed: {error}."
        raise TraingridError(
            what, "Enable the Region in the account, and allow sagemaker:ListTrainingJobs there."
        ) from error


def _of_submission(calls: Sequence[Mapping[str, Any]], grid: str, submission: str) -> list[Mapping[str, Any]]:
    """Return the calls that created resources of one submission."""
    return [call for call in calls if submission_of(grid, created(call)) == submission]


def _read(
    ledger: Ledger, submission: str
) -> tuple[dict[str, SubmissionItem], dict[Line, JobItem], dict[str, dict[str, Cancel]], list[Damaged]]:
    """Return submissions, lines, cancels and damaged items of one submission, or of all if none is given."""
    items: Iterator[LedgerItem | Damaged] = ledger.items(submission) if submission else ledger.everything()
    submissions: dict[str, SubmissionItem] = {}
    lines: dict[Line, JobItem] = {}
    cancels: dict[str, dict[str, Cancel]] = defaultdict(dict)
    damaged: list[Damaged] = []
    for item in items:
        if isinstance(item, Damaged):
            damaged.append(item)
        elif isinstance(item, SubmissionItem):
            submissions[item.submission] = item
        elif isinstance(item, JobItem):
            lines[item.submission, item.index] = item
        else:
            cancels[item.submission][item.scope] = item
    return submissions, lines, dict(cancels), damaged


def _looked_at(job: TrainingJob, item: JobItem | None, region: Inventory, *, details: bool) -> TrainingJob | None:
    """Describe a training job if the list is not sufficient, and read its tags if it does not match its line.

    A training job that was running when it was listed, but whose line has ended since, has probably ended too. Return
    None for a training job that has been deleted since.
    """
    if details or (job.active and not owns(item, job)):
        found = region.details(job)
        if found is None:
            return None
        job = replace(job, state=found.state, ended_at=found.ended_at, details=found if details else None)
    return job if _fits(job, item) else replace(job, ours=region.has_our_tag(job))


def _fits(job: TrainingJob, item: JobItem | None) -> bool:
    """Return True if a training job matches its line; then it is this grid's, and no call for its tags is needed."""
    if job.active:
        return owns(item, job)
    recorded = attempts(item).get(job.identity.attempt)
    return recorded is not None and (recorded.state == job.state or recorded.state not in FINAL_STATES)


def _children(
    submissions: Mapping[str, SubmissionItem], lines: Mapping[Line, JobItem], children: Children
) -> dict[Line, str]:
    """Return Batch's status of the child of each line that has not ended."""
    statuses: dict[Line, str] = {}
    for submission, head in submissions.items():
        asked = {index: lines.get((submission, index)) for index in range(head.jobs)}
        live = {index: item for index, item in asked.items() if item is None or item.state not in FINAL_STATES}
        found = children.of(head, live) if live else {}
        statuses |= {(submission, index): child.status for index, child in found.items()}
    return statuses


def _batch_jobs(deployment: Deployment, submission: str) -> dict[str, list[str]]:
    """Return the ids of the queue's Batch jobs with the name of a submission, by name."""
    found: dict[str, list[str]] = defaultdict(list)
    name = f"{deployment.grid.name}-{submission}*"
    pages = gentle("batch", deployment.grid.home).get_paginator("list_jobs")
    for page in pages.paginate(jobQueue=deployment.job_queue, filters=[{"name": "JOB_NAME", "values": [name]}]):
        for job in page["jobSummaryList"]:
            found[job["jobName"]].append(job["jobId"])
    return dict(found)
