"""`traingrid logs`: prints the log of a training job, or of the child that starts and watches it."""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING

import click

from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from traingrid.backends import watching
from traingrid.backends.base import LogPosition
from traingrid.errors import TraingridError
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.log import readable
from traingrid.text import printable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from traingrid.submission.status import JobStatus

_DEFAULT_GROUP = "/aws/batch/job"
"""Batch's default log group (https://docs.aws.amazon.com/batch/latest/userguide/using_awslogs.html)."""


@click.command()
@click.argument("submission")
@click.argument("index", type=click.IntRange(min=0), default=0)
@click.option("--child", is_flag=True, help="Print the log of the Batch child instead, to see why a job did not train.")
@click.pass_obj
def logs(grid_file: Path, submission: str, index: int, child: bool) -> None:
    """Print the training log of one job.

    The job is line INDEX of SUBMISSION, counted from 0.
    """
    plane = ControlPlane.of(grid_file)
    if child:
        for line in _child_log(plane, submission, index):
            for text in readable(line).split("\n"):
                click.echo(printable(text))
        return
    job = plane.job(submission, index)
    if not job.training_job:
        raise _nothing(f"Job {index} has no training job yet", submission, job)
    lines = iter(watching(plane.deployment, job.region).log_lines(job.training_job, LogPosition()))
    first = next(lines, None)
    if first is None:
        raise _nothing(f"The training job of job {index} has printed nothing", submission, job)
    for host, line in chain([first], lines):
        click.echo(f"[{host}] {printable(line)}")


def _nothing(what: str, submission: str, job: JobStatus) -> TraingridError:
    """Return the error for a job without a log, with its state in the ledger and the next step."""
    state = " ".join(filter(None, [job.state, job.phase]))
    text = f"{what}: {state}. {printable(job.reason)}".strip()
    return TraingridError(text, f"For the log of its child: traingrid logs --child {submission} {job.index}.")


def _child_log(plane: ControlPlane, submission: str, index: int) -> Iterator[str]:
    """Yield the log lines of all attempts of a job's child, in chronological order.

    Raises:
        TraingridError: The job does not exist, or its child has not run in the last seven days.
    """
    plane.job(submission, index)  # raises an error for an index out of range
    head = plane.ledger.submission(submission)
    if head is None:
        raise UnknownSubmissionError(submission)
    job = plane.children.described(plane.children.ids(head).get(index, ""))
    tries = [attempt["container"] for attempt in job.get("attempts", [])] + [job.get("container", {})]
    streams = sorted({one["logStreamName"] for one in tries if one.get("logStreamName")})
    if not streams:
        state = job.get("status", "Batch does not know the child")
        what = f"The child of job {index} of submission {submission} has no log: {state}."
        raise TraingridError(what, job.get("statusReason") or "Batch keeps the data of a child for seven days.")
    options = job["container"].get("logConfiguration", {}).get("options", {})
    pages = client("logs", plane.deployment.grid.home).get_paginator("filter_log_events")
    for page in pages.paginate(logGroupName=options.get("awslogs-group", _DEFAULT_GROUP), logStreamNames=streams):
        yield from (event["message"] for event in page["events"])
