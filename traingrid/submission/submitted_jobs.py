"""Submitted jobs: reads all jobs of a submission, for commands and the reconciler; a child reads only its own."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

from traingrid.aws.s3_uri import ObjectVersion, S3Uri
from traingrid.job.job import Job
from traingrid.submission.batch_children import file_uri, is_retry, read_file
from traingrid.submission.files import MAX_ARRAY, chunks, differs, index_uri, jobs_key, read_job

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.aws.s3 import Storage
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.submission_item import SubmissionItem

logger = logging.getLogger(__name__)


def submitted_jobs(storage: Storage, bucket: str, head: SubmissionItem) -> Iterator[Job]:
    """Yield the jobs of a submission in the order of their index.

    Yield nothing before the intake has written them, or if a user submitted the manifest to Batch without the intake.

    Args:
        storage: S3.
        bucket: The manifest bucket.
        head: The submission's item.
    """
    for array in head.arrays if not head.is_by_hand else ():
        if not is_retry(array):
            yield from _jobs_in(storage, file_uri(bucket, head.submission, array.file), array.version)


def written_jobs(storage: Storage, bucket: str, head: SubmissionItem) -> Iterator[Job]:
    """Yield the jobs that the intake has written, including those of arrays that it has not recorded yet.

    Args:
        storage: S3.
        bucket: The manifest bucket.
        head: The submission's item.
    """
    for chunk in range(len(chunks(head.jobs))):
        yield from _jobs_in(storage, S3Uri(bucket, jobs_key(head.submission, chunk)), _version(head, chunk))


def retried_jobs(storage: Storage, bucket: str, head: SubmissionItem) -> dict[int, Job]:
    """Return the retried jobs of a submission, by index, each as it was last submitted."""
    jobs: dict[int, Job] = {}
    for array in head.arrays:
        if is_retry(array):
            lines = read_file(storage, bucket, head.submission, array.file).splitlines()
            jobs |= {job.index: job for job in map(Job.model_validate_json, lines)}
    return jobs


def last_submitted_jobs(storage: Storage, bucket: str, head: SubmissionItem) -> dict[int, Job]:
    """Return the jobs of a submission by index, each as it was last submitted: by the intake or a retry.

    Return none if a user submitted the manifest to Batch without the intake.

    Args:
        storage: S3.
        bucket: The manifest bucket.
        head: The submission's item.
    """
    if head.is_by_hand:
        return {}
    return {job.index: job for job in submitted_jobs(storage, bucket, head)} | retried_jobs(storage, bucket, head)


def last_submitted_job(storage: Storage, bucket: str, head: SubmissionItem, item: JobItem) -> Job | None:
    """Return one job as it was last submitted, without reading the other jobs of its file if the intake wrote it.

    Args:
        storage: S3.
        bucket: The manifest bucket.
        head: The submission's item.
        item: The job's item.

    Returns:
        None if a user submitted the manifest to Batch without the intake.
    """
    if head.is_by_hand:
        return None
    if retried := retried_jobs(storage, bucket, head).get(item.index):
        return retried
    chunk, line = divmod(item.index, MAX_ARRAY)
    file = ObjectVersion(bucket, jobs_key(head.submission, chunk), _version(head, chunk) or "")
    return read_job(storage, file, line)


def _version(head: SubmissionItem, chunk: int) -> str | None:
    """Return the version of the jobs of an array that the intake has submitted, if it is recorded."""
    versions = [array.version for array in head.arrays if not is_retry(array)]
    return versions[chunk] if chunk < len(versions) else None


def _jobs_in(storage: Storage, file: S3Uri, version: str | None) -> Iterator[Job]:
    """Yield the jobs in a file as they were submitted; none if it does not exist.

    A version of an object never changes. Where none is recorded, each line is compared with its hash.
    """
    content = storage.read_pinned(file, version)
    index = None if version or content is None else storage.read_if_exists(index_uri(file))
    for number, line in enumerate((content or b"").splitlines()):
        if index is not None and differs(line, number, index):
            logger.warning("Line %d of %s differs from the submitted line, and is ignored.", number, file)
            continue
        yield Job.model_validate_json(line)
