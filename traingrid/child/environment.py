"""Child: reads a Batch child's environment variables, and finds the job that the child runs."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

from traingrid import names
from traingrid.aws.s3_uri import ObjectVersion
from traingrid.errors import UsageError
from traingrid.manifest import parse as manifest
from traingrid.submission.files import MAX_ARRAY, jobs_of_lines, read_job, submission_id, submission_of_key

if TYPE_CHECKING:
    from collections.abc import Mapping

    from traingrid.aws.s3 import Storage
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.ledger.ledger import Ledger


@dataclass(frozen=True, kw_only=True)
class Child:
    """The environment that AWS Batch sets for a child.

    Attributes:
        array_file: The manifest or the normalised jobs, with the version that was submitted if it is given.
        index: The index of the job in that file; 0 in a plain job, for which Batch sets no index.
        size: The size of the array; 1 for a plain job, for which Batch sets no size.
        id: The child's id in Batch: the array's id, a colon and the index, or the plain job's id.
        attempt: The number of Batch's attempt at this child, from 1.
    """

    array_file: ObjectVersion
    index: int
    size: int
    id: str
    attempt: int

    @property
    def batch_job(self) -> str:
        """The id of the array or plain job, without the child's index."""
        return self.id.partition(":")[0]

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read S3_ARRAY_FILE and Batch's own variables
        (https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html).

        Raises:
            UsageError: A variable is missing or invalid.
        """
        try:
            index = environment.get("AWS_BATCH_JOB_ARRAY_INDEX")
            return cls(
                array_file=ObjectVersion.parse(environment["S3_ARRAY_FILE"]),
                index=int(index or "0"),
                size=1 if index is None else int(environment.get("AWS_BATCH_JOB_ARRAY_SIZE", "1")),
                id=environment["AWS_BATCH_JOB_ID"],
                attempt=int(environment.get("AWS_BATCH_JOB_ATTEMPT", "1")),
            )
        except KeyError as missing:
            message = f"The environment variable {missing.args[0]} is not set."
            next_step = "Submit the job definition to AWS Batch with S3_ARRAY_FILE=s3://bucket/manifest.csv."
            raise UsageError(message, next_step) from None
        except ValueError as error:
            message = f"S3_ARRAY_FILE={environment['S3_ARRAY_FILE']} is invalid: {error}."
            raise UsageError(message, "Write a URI such as s3://bucket/manifest.csv.") from None


def find_job(child: Child, deployment: Deployment, storage: Storage, ledger: Ledger) -> tuple[str, Job]:
    """Return the submission and the job of a child.

    Normalised jobs are read by byte range. A raw manifest, which a person submits in the Batch console, is parsed
    completely, and its submission id is derived from the Batch job's id: retries of the Batch job find the same
    training jobs, and another Batch job trains again. The intake has not claimed such a submission, so its children
    claim it, and `traingrid status` shows it.

    Raises:
        ManifestError: The raw manifest is invalid.
        UsageError: The file has no job with this index, the file has changed since it was submitted, the size of the
            array differs from the raw manifest's, or the intake submits this manifest.
    """
    submission = submission_of_key(child.array_file.key)
    try:
        if submission and child.array_file.bucket == deployment.manifest_bucket:
            return submission, read_job(storage, child.array_file, child.index)
        _check_is_by_hand(child.array_file, deployment)
        content = storage.read(child.array_file, limit=manifest.MAX_BYTES)
        lines = manifest.parse(content, deployment)
        _check_size(child, len(lines))
        submission = submission_id(child.batch_job)
        job = jobs_of_lines(lines, deployment, submission)[child.index]
    except IndexError:
        message = f"{child.array_file} has no job with index {child.index}."
        raise UsageError(message, "Set the array size to the number of lines in the manifest.") from None
    facts = {"manifest": str(child.array_file), "version": child.array_file.version, "jobs": len(lines)}
    facts |= {"children": child.size}
    facts |= {"state": "Submitted", "batch_job": child.batch_job, "sha256": hashlib.sha256(content).hexdigest()}
    former = ledger.claim_submission(submission, child.batch_job, facts)
    if former and former.get("sha256") != facts["sha256"]:
        message = f"{child.array_file} has changed since the first child of {child.batch_job} read it."
        raise UsageError(message, "Submit the job again, preferably with ?versionId=... in S3_ARRAY_FILE.")
    return submission, job


def _check_size(child: Child, lines: int) -> None:
    """Raise UsageError unless the Batch job of a raw manifest has exactly one child for each line.

    Every child of the array raises the same error, so nothing trains. Otherwise a line without a child would never be
    trained, and no process would report it.
    """
    if child.size == lines:
        return
    counted = "1 line" if lines == 1 else f"{lines} lines"
    given = "this Batch job is not an array" if child.size == 1 else f"this Batch job is an array of {child.size}"
    message = f"{child.array_file} has {counted}, but {given}. No job was started."
    if lines == 1:
        next_step = "Submit the job definition again as a single job, without an array size."
    elif lines > MAX_ARRAY:
        next_step = (
            f"An array has at most {MAX_ARRAY:,} children: split the file, or submit it with `traingrid submit`."
        )
    else:
        next_step = f"Submit the job definition again with an array size of {lines}."
    raise UsageError(message, next_step)


def _check_is_by_hand(manifest_file: ObjectVersion, deployment: Deployment) -> None:
    """Raise UsageError for a manifest under the intake's prefix, because the intake submitted it after its upload."""
    if manifest_file.bucket == deployment.manifest_bucket and manifest_file.key.startswith(names.MANIFEST_PREFIX):
        message = f"{manifest_file} was submitted when it was uploaded; this Batch job would train all of it again."
        folder = f"s3://{manifest_file.bucket}/{names.BY_HAND_PREFIX}"
        raise UsageError(message, f"To submit a manifest to Batch by hand, upload it below {folder} instead.")
