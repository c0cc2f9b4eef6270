"""Corrected manifests: maps each line of a corrected manifest to its job, and finds the jobs that changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.errors import UsageError
from traingrid.job.job import Job
from traingrid.manifest.fields import FIELDS
from traingrid.manifest.line import job_of_line

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from traingrid.grid.deployment import Deployment
    from traingrid.manifest.line import Line

# Fields that do not come from the line's content: its line number, and fields that this program's version sets; and
# those of a plan, which do not affect the training.
_NO_CHANGE = {
    *("line", "tensorboard", "metric_history", "by_layout"),
    *(field.job for field in FIELDS.values() if field.of_plan),
}


@dataclass(frozen=True, kw_only=True)
class ChangedJob:
    """A job that a corrected manifest changes.

    Attributes:
        fields: The names of the job's changed fields. The job has the grid's current defaults, so they may include a
            field that no line sets.
    """

    job: Job
    fields: tuple[str, ...]


def changed_jobs(
    lines: Sequence[Line],
    submitted: Sequence[Job],
    latest: Mapping[int, Job],
    deployment: Deployment,
    submission: str,
) -> dict[int, ChangedJob]:
    """Return the changed jobs by their index, which does not change.

    The file's first line belongs to the job of the original first line, and so on. Blank lines, comments and changed
    priorities do not move a line to another job.

    Args:
        lines: The corrected manifest.
        submitted: The submission's jobs as the intake submitted them.
        latest: Each job as it was last submitted, by index.

    Raises:
        UsageError: The number of lines differs from the number of jobs, or rows were reordered.
    """
    if len(lines) != len(submitted):
        text = f"The manifest has {len(lines)} lines, but submission {submission} has {len(submitted)} jobs."
        raise UsageError(text, "Nothing was changed. Submit new lines in a separate manifest: traingrid submit.")
    order = [job.index for job in sorted(submitted, key=lambda job: job.line)]
    pairs = zip(lines, order, strict=True)
    changed_fields = dict(
        _changed_fields((job_of_line(line, index, deployment, submission) for line, index in pairs), latest)
    )
    if changed_fields:
        _check_order(changed_fields, latest, submission)
    return changed_fields


def _changed_fields(jobs: Iterator[Job], latest: Mapping[int, Job]) -> Iterator[tuple[int, ChangedJob]]:
    names = [name for name in Job.model_fields if name not in _NO_CHANGE]
    for job in jobs:
        previous = latest[job.index]
        fields = tuple(name for name in names if getattr(job, name) != getattr(previous, name))
        if fields:
            yield job.index, ChangedJob(job=job, fields=fields)


def _check_order(changed: Mapping[int, ChangedJob], latest: Mapping[int, Job], submission: str) -> None:
    """Raise UsageError if a line now describes another job; then lines cannot be mapped to jobs reliably."""
    previous = {_content_of_training(job, submission): index for index, job in latest.items()}
    for index, now in changed.items():
        other_index = previous.get(_content_of_training(now.job, submission))
        if other_index is not None:
            text = f"Line {now.job.line} now describes job {other_index} of submission {submission}, "
            f"but job {index} was on "
            text += "this line. Rows cannot be reordered in a retry."
            step = "Nothing was changed. Restore the original order. To train the same job twice, submit its line in a "
            raise UsageError(text, step + "separate manifest: traingrid submit.")


def _content_of_training(job: Job, submission: str) -> str:
    """Return a job's content independently of its index, which is part of its output paths."""
    text = job.model_dump_json(exclude={"index", *_NO_CHANGE})
    return text.replace(f"/{submission}/{job.index}/", f"/{submission}/")
