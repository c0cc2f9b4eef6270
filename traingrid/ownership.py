"""Whose a training job is that has the name of one of ours.

Its fingerprint tells it first: a hash of what it was asked for, compared with what we would ask for. AWS does not
promise to describe a training job in the words of its request, though; where they differ its tags decide, which hold
our fingerprint as it was.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.failures import CONFLICT, OTHER_REQUEST

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.backends.base import Seen
    from traingrid.failures import Failure

UNKNOWN_CODES = ("ValidationException", "ResourceNotFound")
"""SageMaker's answers to a name or ARN that it does not know: the first ("Requested resource not found."), though the
second is what its API reference names. Nothing else can be invalid: they are all we send, and we make legal ones."""


def tags_of(grid: str, submission: str, index: int, fingerprint: str) -> dict[str, str]:
    """Return the tags of a job's training job."""
    return {
        names.TAG_GRID: grid,
        names.TAG_SUBMISSION: submission,
        names.TAG_JOB: str(index),
        names.TAG_FINGERPRINT: fingerprint,
    }


def tags_at(sagemaker: Any, arn: str) -> dict[str, str] | None:
    """Return the tags of a training job; None if it is not known (yet, or any more).

    Args:
        sagemaker: boto3's client of its Region.
        arn: Its ARN.
    """
    try:
        pages = list(sagemaker.get_paginator("list_tags").paginate(ResourceArn=arn))
    except ClientError as error:
        if error.response["Error"]["Code"] in UNKNOWN_CODES:
            return None
        raise
    return {tag["Key"]: tag["Value"] for page in pages for tag in page["Tags"]}


def is_of_grid(tags: Mapping[str, str] | None, grid: str) -> bool:
    """Return whether a training job was made by this grid, and not by somebody who chose such a name."""
    return tags is not None and tags.get(names.TAG_GRID) == grid


def tagged_fingerprint(tags: Mapping[str, str] | None, grid: str, job: names.TrainingJobName) -> str:
    """Return the fingerprint that a training job of ours bears; empty if it is not this job's, or bears none."""
    found = (tags or {}).get(names.TAG_FINGERPRINT, "")
    return found if found and tags_of(grid, job.submission, job.index, found).items() <= (tags or {}).items() else ""


def conflict(grid: str, tags: Mapping[str, str], seen: Seen, wanted: str) -> tuple[Failure, str]:
    """Return what it means that our name is that of another training job, and say so.

    Args:
        grid: The grid's name.
        tags: The training job's.
        seen: The training job.
        wanted: The fingerprint of the one that should be there.
    """
    if not is_of_grid(tags, grid):
        return CONFLICT, f"The training job {seen.arn} exists, and it is not this job."
    theirs = tags.get(names.TAG_FINGERPRINT) or seen.fingerprint
    what = f"was asked for something else: its fingerprint is {theirs}, this job's is {wanted or 'not known'}."
    return OTHER_REQUEST, f"The training job {seen.arn} is of this grid, and {what}"
