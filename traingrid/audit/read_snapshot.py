"""World reading: reads the ledger, SageMaker in every Region, and Batch, in pages and at a low rate."""

import time
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.audit.calls import created_resource, submission_of
from traingrid.audit.snapshot import World
from traingrid.aws.clients import background_client
from traingrid.aws.s3 import Storage
from traingrid.backends import inventory_of
from traingrid.backends.inventory import ALL, Inventory, Window
from traingrid.backends.training_job import TrainingJob, owns
from traingrid.errors import TraingridError
from traingrid.grid.deployment import Deployment
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import Damaged
from traingrid.ledger.items import JobItem, Line, attempts, regions_of
from traingrid.ledger.ledger import Ledger, LedgerItem
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.ledger.user_requests import Cancel
from traingrid.submission.batch_children import Children

_RECENT_SECONDS = 2 * 24 * 3600
"""The age of a running training job up to which it is found without a read of the history, as by each pass."""
_CLOCK_SECONDS = 3600
"""The tolerated difference between the clocks of an intake and of SageMaker."""


@dataclass(kw_only=True)
class _Items:
    """The items of the ledger that were read."""

    submissions: dict[str, SubmissionItem] = field(default_factory=dict)
    lines: dict[Line, JobItem] = field(default_factory=dict)
    cancels: dict[str, dict[str, Cancel]] = field(default_factory=dict)
    damaged: list[Damaged] = field(default_factory=list)

    def add(self, items: Iterable[LedgerItem | Damaged]) -> None:
        """Add items, or replace them."""
        for item in items:
            if isinstance(item, Damaged):
                self.damaged.append(item)
            elif isinstance(item, SubmissionItem):
                self.submissions[item.submission] = item
            elif isinstance(item, JobItem):
                self.lines[item.submission, item.index] = item
            else:
                self.cancels.setdefault(item.submission, {})[item.scope] = item


def read_world(  # noqa: PLR0913  # one keyword for each independent option
    deployment: Deployment,
    *,
    submission: str = "",
    is_complete: bool = True,
    details: bool = False,
    at_rest: bool = False,
    calls: Sequence[Mapping[str, Any]] | None = None,
    before: World | None = None,
) -> World:
    """Read the current state of a grid. Changes nothing.

    Args:
        submission: Read only this submission and its training jobs; by default all.
        is_complete: False to read only submissions with open work, and those of which training jobs run that were
            created in the last two days. It makes no difference to a single submission.
        details: Also describe ended training jobs: artifact, billed seconds and role.
        calls: See `World`; given by a caller that has a record of calls.

    Raises:
        TraingridError: Lines have trained in a Region that has left the grid, and that Region does not answer.
    """
    grid, home = deployment.grid, deployment.grid.home
    regions = {region: inventory_of(deployment, region) for region in grid.regions}
    batch_jobs = _batch_job_ids_by_name(deployment, submission)
    ledger = Ledger(deployment.table, home)
    is_complete = is_complete or bool(submission)
    read_items = partial(_read, ledger, submission, is_complete=is_complete)
    window = ALL if is_complete else Window(since=_begin(read_items()))
    jobs = [job for region in regions.values() for job in region.listed(submission=submission, window=window)]
    items = read_items()
    removed_inventories = {
        region: inventory_of(deployment, region) for region in regions_of(items.lines.values()).difference(regions)
    }
    if removed_inventories:
        for name, region in removed_inventories.items():
            jobs += _listed_in_removed_region(name, region, submission, window)
        items = read_items()  # again, because training jobs must be read before the ledger
    regions, lines = regions | removed_inventories, items.lines
    if not is_complete:
        jobs = _add_unexpected(ledger, regions.values(), window.since, jobs, items)
    return World(
        grid=grid.name,
        regions=list(regions),
        submissions=items.submissions,
        lines=lines,
        cancels={submission: ledger.cancels(submission)} if submission else items.cancels,
        damaged=[*items.damaged, *ledger.damaged_grid_items()],
        training_jobs=[
            completed_job
            for job in jobs
            if (completed_job := _looked_at(job, lines.get(job.line), regions[job.region], details=details))
        ],
        children=_children(items.submissions, lines, Children(Storage(home), deployment.manifest_bucket, home)),
        batch_jobs=batch_jobs,
        roles={region: deployment.execution_role_arn(region) for region in regions},
        calls=calls if calls is None or not submission else _calls_of_submission(calls, grid.name, submission),
        at_rest=at_rest,
        before=before,
        read_at=time.time(),
    )


def _begin(items: _Items) -> float:
    """Return a time before which no training job of the submissions was created, at least two days ago.

    It is 0 if it is not known, because an item is damaged or missing.
    """
    if items.damaged or any(name not in items.submissions for name, _ in items.lines):
        return 0.0
    claims = [
        epoch_seconds(submission_item.claimed_at) - _CLOCK_SECONDS for submission_item in items.submissions.values()
    ]
    return min([time.time() - _RECENT_SECONDS, *claims])


def _add_unexpected(
    ledger: Ledger, regions: Collection[Inventory], since: float, jobs: Sequence[TrainingJob], items: _Items
) -> list[TrainingJob]:
    """Return the training jobs of the open submissions, and read other submissions of which training jobs run.

    A submission that a user has retried since the begin of the list was determined is read again, with its earlier
    training jobs.
    """
    retried = {
        name for name, submission_item in items.submissions.items() if epoch_seconds(submission_item.claimed_at) < since
    }
    unexpected = {job.line[0] for job in jobs if job.is_active}.difference(items.submissions) | retried
    expected = [job for job in jobs if job.line[0] in items.submissions and job.line[0] not in unexpected]
    for name in sorted(unexpected):
        expected += [job for region in regions for job in region.listed(submission=name)]
        items.add(ledger.whole(name))
    return expected


def _listed_in_removed_region(name: str, region: Inventory, submission: str, window: Window) -> list[TrainingJob]:
    """Return the training jobs in a Region that has left the grid."""
    try:
        return list(region.listed(submission=submission, window=window))
    except (BotoCoreError, ClientError) as error:
        text = f"Jobs have trained in {name}, which is no longer in grid.yaml, but listing them failed: {error}."
        raise TraingridError(
            text, "Enable the Region in the account, and allow sagemaker:ListTrainingJobs there."
        ) from error


def _calls_of_submission(calls: Sequence[Mapping[str, Any]], grid: str, submission: str) -> list[Mapping[str, Any]]:
    """Return the calls that created resources of one submission."""
    return [call for call in calls if submission_of(grid, created_resource(call)) == submission]


def _read(ledger: Ledger, submission: str, *, is_complete: bool) -> _Items:
    """Return the items of one submission; if none is given, those of all, or of those with open work."""
    items = _Items()
    if submission:
        items.add(ledger.items(submission))
    else:
        items.add(ledger.everything() if is_complete else ledger.open_items())
    return items


def _looked_at(job: TrainingJob, item: JobItem | None, region: Inventory, *, details: bool) -> TrainingJob | None:
    """Describe a training job if the list is not sufficient, and read its tags if it does not match its line.

    A training job that was running when it was listed, but whose line has ended since, has probably ended too. Return
    None for a training job that has been deleted since.
    """
    if details or (job.is_active and not owns(item, job)):
        details_of_job = region.details(job)
        if details_of_job is None:
            return None
        job = replace(
            job,
            state=details_of_job.state,
            ended_at=details_of_job.ended_at,
            details=details_of_job if details else None,
        )
    return job if _fits(job, item) else replace(job, ours=region.has_our_tag(job))


def _fits(job: TrainingJob, item: JobItem | None) -> bool:
    """Return True if a training job matches its line; then it is this grid's, and no call for its tags is needed."""
    if job.is_active:
        return owns(item, job)
    recorded_attempt = attempts(item).get(job.identity.attempt)
    return recorded_attempt is not None and (
        recorded_attempt.state == job.state or recorded_attempt.state not in FINAL_STATES
    )


def _children(
    submissions: Mapping[str, SubmissionItem], lines: Mapping[Line, JobItem], children: Children
) -> dict[Line, str]:
    """Return Batch's status of the child of each line that has not ended."""
    statuses: dict[Line, str] = {}
    for submission, submission_item in submissions.items():
        item_by_index = {index: lines.get((submission, index)) for index in range(submission_item.jobs)}
        live = {index: item for index, item in item_by_index.items() if item is None or item.state not in FINAL_STATES}
        child_by_index = children.of(submission_item, live) if live else {}
        statuses |= {(submission, index): child.status for index, child in child_by_index.items()}
    return statuses


def _batch_job_ids_by_name(deployment: Deployment, submission: str) -> dict[str, list[str]]:
    """Return the ids of the queue's Batch jobs whose name begins with the submission's."""
    ids_by_name: dict[str, list[str]] = defaultdict(list)
    name_pattern = f"{deployment.grid.name}-{submission}*"
    pages = background_client("batch", deployment.grid.home).get_paginator("list_jobs")
    for page in pages.paginate(jobQueue=deployment.job_queue, filters=[{"name": "JOB_NAME", "values": [name_pattern]}]):
        for job in page["jobSummaryList"]:
            ids_by_name[job["jobName"]].append(job["jobId"])
    return dict(ids_by_name)
