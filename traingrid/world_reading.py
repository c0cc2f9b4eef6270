"""Reading the world: the ledger, SageMaker in every Region, and Batch; by pages, and gently."""

from __future__ import annotations

import time
from collections import defaultdict
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.audit_calls import created, submission_of
from traingrid.children import Children
from traingrid.clients import gentle
from traingrid.errors import TraingridError
from traingrid.ledger import FINAL_STATES, SUBMISSION, Ledger
from traingrid.queued_jobs import training_jobs_in
from traingrid.storage import Storage
from traingrid.world import World, attempts, owns, regions_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from traingrid.deployment import Deployment
    from traingrid.dynamodb import Item
    from traingrid.training_jobs import TrainingJobs
    from traingrid.world import Line, TrainingJob


def read_world(  # noqa: PLR0913  # one keyword for each thing that a caller may know better
    deployment: Deployment,
    *,
    submission: str = "",
    details: bool = False,
    at_rest: bool = False,
    calls: Sequence[Mapping[str, Any]] | None = None,
    before: World | None = None,
) -> World:
    """Read a grid as it is now. Changes nothing.

    Args:
        deployment: The grid.
        submission: Only this submission and its training jobs; all where none is given.
        details: Describe every training job that has ended too: its artifact, what it is billed for, its role.
        at_rest: See `World`.
        calls: See `World`; whoever records calls gives them.
        before: See `World`.

    Raises:
        TraingridError: A Region that the grid has no more does not answer, and lines of the ledger have trained there.
    """
    grid, home = deployment.grid, deployment.grid.home
    regions = {region: training_jobs_in(deployment, region) for region in grid.regions}
    batch_jobs = _batch_jobs(deployment, submission)
    jobs = [job for region in regions.values() for job in region.listed(submission=submission)]
    ledger = Ledger(deployment.table, home)
    items = _read(ledger, submission)
    elsewhere = {
        region: training_jobs_in(deployment, region) for region in regions_of(items[1].values()).difference(regions)
    }
    if elsewhere:
        jobs += [job for name, region in elsewhere.items() for job in _listed_elsewhere(name, region, submission)]
        items = _read(ledger, submission)  # again, because what runs is read before the ledger
    regions, lines = regions | elsewhere, items[1]
    return World(
        grid=grid.name,
        regions=list(regions),
        submissions=items[0],
        lines=lines,
        cancels={submission: ledger.cancels(submission)} if submission else items[2],
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


def _listed_elsewhere(name: str, region: TrainingJobs, submission: str) -> list[TrainingJob]:
    """Return the training jobs in a Region that the grid has no more."""
    try:
        return list(region.listed(submission=submission))
    except (BotoCoreError, ClientError) as error:
        what = f"Jobs have trained in {name}, which grid.yaml no longer has, and it does not list them: {error}."
        raise TraingridError(
            what, "Switch the Region on in the account, and allow sagemaker:ListTrainingJobs there."
        ) from error


def _of_submission(calls: Sequence[Mapping[str, Any]], grid: str, submission: str) -> list[Mapping[str, Any]]:
    """Return the calls that have created something of one submission."""
    return [call for call in calls if submission_of(grid, created(call)) == submission]


def _read(ledger: Ledger, submission: str) -> tuple[dict[str, Item], dict[Line, Item], dict[str, dict[str, Item]]]:
    """Return submissions, lines and cancels: of one submission, or of all where none is given."""
    items = ledger.items(submission) if submission else ledger.everything()
    submissions: dict[str, Item] = {}
    lines: dict[Line, Item] = {}
    cancels: dict[str, dict[str, Item]] = defaultdict(dict)
    for item in items:
        submission, (kind, _, rest) = item["submission"], item["item"].partition("#")
        if item["item"] == SUBMISSION:
            submissions[submission] = item
        elif kind == "job":
            lines[submission, int(rest)] = item
        elif kind == "cancel":
            cancels[submission][rest] = item
    return submissions, lines, dict(cancels)


def _looked_at(job: TrainingJob, item: Item | None, region: TrainingJobs, *, details: bool) -> TrainingJob | None:
    """Describe a training job where the list is not enough, and ask whose it is where it does not fit its line.

    One that was running when it was listed, and whose line has ended since, has most likely ended as well. None of one
    that was deleted since.
    """
    if details or (job.active and not owns(item, job)):
        described = region.described(job.name)
        if described is None:
            return None
        ended = described.get("TrainingEndTime")
        job = replace(
            job,
            state=described["TrainingJobStatus"],
            ended_at=ended.timestamp() if ended else None,
            described=described if details else None,
        )
    return job if _fits(job, item) else replace(job, ours=region.bears_our_tag(job.arn))


def _fits(job: TrainingJob, item: Item | None) -> bool:
    """Return whether a training job is what its line says; then it is this grid's, and costs no call to find out."""
    if job.active:
        return owns(item, job)
    said = attempts(item).get(job.identity.attempt, {}).get("state")
    return said is not None and (said == job.state or said not in FINAL_STATES)


def _children(submissions: Mapping[str, Item], lines: Mapping[Line, Item], children: Children) -> dict[Line, str]:
    """Return Batch's status of the child of each line that has not ended."""
    statuses: dict[Line, str] = {}
    for submission, head in submissions.items():
        asked = {index: lines.get((submission, index)) for index in range(head["jobs"])}
        live = {index: item for index, item in asked.items() if item is None or item["state"] not in FINAL_STATES}
        found = children.of(head, live) if live else {}
        statuses |= {(submission, index): child.status for index, child in found.items()}
    return statuses


def _batch_jobs(deployment: Deployment, submission: str) -> dict[str, list[str]]:
    """Return the ids of the queue's Batch jobs by their name, of those that bear the name of a submission."""
    found: dict[str, list[str]] = defaultdict(list)
    name = f"{deployment.grid.name}-{submission}*"
    pages = gentle("batch", deployment.grid.home).get_paginator("list_jobs")
    for page in pages.paginate(jobQueue=deployment.job_queue, filters=[{"name": "JOB_NAME", "values": [name]}]):
        for job in page["jobSummaryList"]:
            found[job["jobName"]].append(job["jobId"])
    return dict(found)
