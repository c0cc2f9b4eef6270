"""Submitted jobs: reads all jobs of a submission, for commands and the reconciler; a child reads only its own."""

from __future__ import annotations

from typing import TYPE_CHECKING

from pydantic import ValidationError

from traingrid.aws.s3_uri import ObjectVersion, S3Uri
from traingrid.errors import TraingridError
from traingrid.job.job import Job
from traingrid.job.sizes import MAX_ARRAY
from traingrid.ledger.damage import Damaged, readable
from traingrid.submission.batch_children import file_uri, is_retry, version_in
from traingrid.submission.files import array_file, chunks, differs, index_uri, jobs_key, read_job

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from traingrid.aws.s3 import Storage
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.submission_item import SubmissionItem

_RESTORE = "Restore the version of the object that the intake wrote, or submit the lines in another manifest."


def submitted_jobs(storage: Storage, bucket: str, submission_item: SubmissionItem) -> Iterator[Job | Damaged]:
    """Yield the jobs of a submission in the order of their index, and lines and files that cannot be read.

    Yield nothing before the intake has written them.

    Args:
        bucket: The manifest bucket.
    """
    first_index = 0
    for array in submission_item.arrays:
        if not is_retry(array):
            file = file_uri(bucket, submission_item.submission, array.file)
            yield from _jobs_in(
                storage, file, array.version, submission_item, range(first_index, first_index + array.count)
            )
            first_index += array.count


def written_jobs(storage: Storage, bucket: str, submission_item: SubmissionItem) -> Iterator[Job | Damaged]:
    """Yield the jobs that the intake has written, including those of arrays that it has not recorded yet.

    Args:
        bucket: The manifest bucket.
    """
    for chunk, size in enumerate(chunks(submission_item.jobs)):
        file = S3Uri(bucket, jobs_key(submission_item.submission, chunk))
        first_index = chunk * MAX_ARRAY
        yield from _jobs_in(
            storage, file, _version(submission_item, chunk), submission_item, range(first_index, first_index + size)
        )


def retried_jobs(storage: Storage, bucket: str, submission_item: SubmissionItem) -> Iterator[Job | Damaged]:
    """Yield the retried jobs of a submission, those of the last retry last, and lines and files that cannot be read."""
    for array in submission_item.arrays:
        if is_retry(array):
            file = file_uri(bucket, submission_item.submission, array.file)
            yield from _jobs_in(storage, file, version_in(array.file), submission_item, None)


def last_submitted_jobs(
    storage: Storage, bucket: str, submission_item: SubmissionItem, report: Callable[[Damaged], object]
) -> dict[int, Job]:
    """Return the jobs of a submission by index, each as it was last submitted: by the intake or a retry.

    Args:
        bucket: The manifest bucket.
        report: Called with lines and files that cannot be read.
    """
    forms = (submitted_jobs(storage, bucket, submission_item), retried_jobs(storage, bucket, submission_item))
    return {job.index: job for jobs in forms for job in readable(jobs, report)}


def last_submitted_job(storage: Storage, bucket: str, submission_item: SubmissionItem, item: JobItem) -> Job:
    """Return one job as it was last submitted, without reading the other jobs of its file if the intake wrote it.

    Args:
        bucket: The manifest bucket.

    Raises:
        TraingridError: The line of the job, or a file that may have it, cannot be read.
    """
    damaged: list[Damaged] = []
    retried = {job.index: job for job in readable(retried_jobs(storage, bucket, submission_item), damaged.append)}
    for part in damaged:
        if part.index == item.index or (part.index is None and part.array_file == item.array_file):
            raise TraingridError(part.sentence, part.next_step)
    if item.index in retried:
        return retried[item.index]
    chunk, line = divmod(item.index, MAX_ARRAY)
    file = ObjectVersion(bucket, jobs_key(submission_item.submission, chunk), _version(submission_item, chunk) or "")
    return read_job(storage, file, line)


def _version(submission_item: SubmissionItem, chunk: int) -> str | None:
    """Return the version of the jobs of an array that the intake has submitted, if it is recorded."""
    versions = [array.version for array in submission_item.arrays if not is_retry(array)]
    return versions[chunk] if chunk < len(versions) else None


def _jobs_in(
    storage: Storage, file: S3Uri, version: str | None, submission_item: SubmissionItem, indexes: Sequence[int] | None
) -> Iterator[Job | Damaged]:
    """Yield the jobs in a file as they were submitted; none if it does not exist before the submission.

    A version of an object never changes. Where none is recorded, each line is compared with its hash.

    Args:
        version: Its version; None or empty if none is recorded.
        indexes: The indexes of its jobs; None for the file of a retry, of which only its readable lines are known.
    """

    def damaged(problem: str, number: int | None = None) -> Damaged:
        index = indexes[number] if indexes is not None and number is not None and number < len(indexes) else None
        place = f"Line {number + 1} of {file}" if number is not None else str(file)
        submission, name = submission_item.submission, array_file(file.key)
        return Damaged(
            place=place, problem=problem, next_step=_RESTORE, submission=submission, index=index, array_file=name
        )

    content = storage.read_pinned(file, version)
    if content is None:
        if version or submission_item.is_submitted:
            yield damaged("does not exist")
        return
    hashes = None if version else storage.read_if_exists(index_uri(file))
    lines = content.splitlines()
    for number, line in enumerate(lines):
        if hashes is not None and differs(line, number, hashes):
            yield damaged("differs from the submitted line", number)
            continue
        try:
            yield Job.model_validate_json(line)
        except ValidationError:
            yield damaged("is not a job", number)
    if indexes is not None and len(lines) < len(indexes):
        yield damaged(f"has {len(lines)} lines instead of {len(indexes)}")
