"""A submission's manifest with some lines mended: whose job each line is, and what of it has changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.errors import UsageError
from traingrid.job import Job
from traingrid.manifest_line import job_of_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traingrid.deployment import Deployment
    from traingrid.manifest_line import Line

# Not of the line's making: where it stands, and what a version of this program asks for beside it.
_NO_CHANGE = {"line", "tensorboard"}


@dataclass(frozen=True, kw_only=True)
class Mended:
    """A job that a mended manifest makes something else of.

    Attributes:
        job: The job as it is now.
        fields: What of it has changed, by the names of a job's fields. The grid's defaults are those of today, so a
            field that no line sets may be among them.
    """

    job: Job
    fields: tuple[str, ...]


def mended_jobs(
    lines: Sequence[Line],
    submitted: Sequence[Job],
    latest: Mapping[int, Job],
    deployment: Deployment,
    submission: str,
) -> dict[int, Mended]:
    """Return the jobs that have changed, by their index, which they keep.

    The first line of the file is that of the job whose line was the first, and so on; blank lines, comments and another
    priority move no line to another job.

    Args:
        lines: The mended manifest.
        submitted: The submission's jobs as the intake has submitted them.
        latest: By index, each job as it was submitted last.
        deployment: The grid.
        submission: The submission's id.

    Raises:
        UsageError: There are more or fewer lines than jobs, or rows were moved.
    """
    if len(lines) != len(submitted):
        text = f"The manifest has {len(lines)} lines and submission {submission} has {len(submitted)} jobs."
        raise UsageError(text, "Nothing was changed. Submit new lines as a manifest of their own: traingrid submit.")
    order = [job.index for job in sorted(submitted, key=lambda job: job.line)]
    pairs = zip(lines, order, strict=True)
    mended = dict(_changed((job_of_line(line, index, deployment, submission) for line, index in pairs), latest))
    if mended:
        _refuse_moved(mended, latest, submission)
    return mended


def _changed(jobs: Iterator[Job], latest: Mapping[int, Job]) -> Iterator[tuple[int, Mended]]:
    names = [name for name in Job.model_fields if name not in _NO_CHANGE]
    for job in jobs:
        former = latest[job.index]
        fields = tuple(name for name in names if getattr(job, name) != getattr(former, name))
        if fields:
            yield job.index, Mended(job=job, fields=fields)


def _refuse_moved(mended: Mapping[int, Mended], latest: Mapping[int, Job], submission: str) -> None:
    """Raise where a line has become that of another job: then no line can be told to be whose it was."""
    former = {_trained(job, submission): index for index, job in latest.items()}
    for index, now in mended.items():
        other = former.get(_trained(now.job, submission))
        if other is not None:
            text = f"Line {now.job.line} is that of job {other} of submission {submission}, and stands where that of "
            text += f"job {index} was: rows were moved, and what is to be tried again cannot be told."
            step = "Nothing was changed. Bring the rows into the order in which they were submitted; what is to train "
            raise UsageError(text, step + "the same as another line does is a manifest of its own: traingrid submit.")


def _trained(job: Job, submission: str) -> str:
    """Return what a job is, whichever index it has: results go to folders that are called after the index."""
    text = job.model_dump_json(exclude={"index", *_NO_CHANGE})
    return text.replace(f"/{submission}/{job.index}/", f"/{submission}/")
