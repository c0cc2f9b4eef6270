"""Submitted jobs: reads all jobs of a submission, for commands and the reconciler; a child reads only its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from traingrid.job.job import Job
from traingrid.ledger.items import is_by_hand
from traingrid.submission.batch_children import arrays, file_uri, is_retry, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.aws.dynamodb import Item
    from traingrid.aws.s3 import Storage


def submitted_jobs(storage: Storage, bucket: str, head: Item) -> Iterator[Job]:
    """Yield the jobs of a submission in the order of their index.

    Yield nothing before the intake has written them, or if a user submitted the manifest to Batch without the intake.

    Args:
        storage: S3.
        bucket: The manifest bucket.
        head: The submission's item.
    """
    for array in arrays(head) if not is_by_hand(head) else ():
        if not is_retry(array):
            lines = storage.read_if_exists(file_uri(bucket, head["submission"], array["file"])) or b""
            yield from map(Job.model_validate_json, lines.splitlines())


def retried_jobs(storage: Storage, bucket: str, head: Item) -> dict[int, Job]:
    """Return the retried jobs of a submission, by index, each as it was last submitted."""
    jobs: dict[int, Job] = {}
    for array in arrays(head):
        if is_retry(array):
            lines = read_file(storage, bucket, head["submission"], array["file"]).splitlines()
            jobs |= {job.index: job for job in map(Job.model_validate_json, lines)}
    return jobs
