"""Ownership: decides whether a training job with one of our names was created by this grid.

The first evidence is the fingerprint, a hash of the request: that of the description is compared with that of our
request. AWS does not guarantee that a description has the form of the request. If the fingerprints differ, the tags
decide, which hold the original fingerprint.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid import names
from traingrid.job.failures import CONFLICT, OTHER_REQUEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.job.failures import Failure
    from traingrid.job.observed import TrainingJobDescription


def tags_of(grid: str, submission: str, index: int, fingerprint: str) -> dict[str, str]:
    """Return the tags of a job's training job."""
    return {
        names.TAG_GRID: grid,
        names.TAG_SUBMISSION: submission,
        names.TAG_JOB: str(index),
        names.TAG_FINGERPRINT: fingerprint,
    }


def is_of_grid(tags: Mapping[str, str] | None, grid: str) -> bool:
    """Return True if the tags show that this grid created the training job."""
    return tags is not None and tags.get(names.TAG_GRID) == grid


def tagged_fingerprint(tags: Mapping[str, str] | None, grid: str, job: names.TrainingJobName) -> str:
    """Return the fingerprint in a training job's tags; empty if it has none or the tags are not this job's."""
    fingerprint = (tags or {}).get(names.TAG_FINGERPRINT, "")
    return (
        fingerprint
        if fingerprint and tags_of(grid, job.submission, job.index, fingerprint).items() <= (tags or {}).items()
        else ""
    )


def conflict(
    grid: str, tags: Mapping[str, str], training_job: TrainingJobDescription, fingerprint: str
) -> tuple[Failure, str]:
    """Classify a name collision: return the failure and a message for the user.

    Args:
        tags: The tags of the existing training job.
        fingerprint: The fingerprint of the expected training job.
    """
    if not is_of_grid(tags, grid):
        return CONFLICT, f"The training job {training_job.arn} has this name, but this grid did not create it."
    their_fingerprint = tags.get(names.TAG_FINGERPRINT) or training_job.fingerprint
    fingerprints = f"its fingerprint is {their_fingerprint}, and this job's is {fingerprint or 'not known'}"
    text = f"The training job {training_job.arn} belongs to this grid, but has another request: {fingerprints}."
    return OTHER_REQUEST, text
