"""Child: reads a Batch child's environment variables, and finds the job that the child runs."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Self

from traingrid.aws.s3_uri import ObjectVersion
from traingrid.errors import UsageError
from traingrid.submission.files import read_job, submission_of_key

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

    @property
    def submission(self) -> str:
        """The id of the submission; empty if a user has given a raw manifest to Batch (`with_stored_jobs`)."""
        return submission_of_key(self.array_file.key) or ""

    @classmethod
    def from_environment(cls, environment: Mapping[str, str]) -> Self:
        """Read S3_ARRAY_FILE and Batch's own variables.

        Source: https://docs.aws.amazon.com/batch/latest/userguide/job_env_vars.html

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


def with_stored_jobs(child: Child, deployment: Deployment, storage: Storage, ledger: Ledger) -> Child:
    """Return a child with the file of its submission's jobs, also if it was given a raw manifest.

    A person submits raw manifests in the Batch console; the first child stores their lines
    (`traingrid.child.by_hand`).

    Raises:
        ManifestError: The raw manifest is invalid.
        UsageError: The size of the array differs from the raw manifest's, or the intake submits this manifest.
    """
    if child.array_file.bucket == deployment.manifest_bucket and submission_of_key(child.array_file.key):
        return child
    from traingrid.child.by_hand import stored_jobs  # noqa: PLC0415  # other children do not need the parser

    return replace(child, array_file=stored_jobs(child, deployment, storage, ledger))


def find_job(child: Child, storage: Storage) -> Job:
    """Return the job of a child, which is read by byte range.

    Raises:
        UsageError: The file has no job with this index, or has changed since it was submitted.
    """
    try:
        return read_job(storage, child.array_file, child.index)
    except IndexError:
        message = f"{child.array_file} has no job with index {child.index}."
        raise UsageError(message, "Set the array size to the number of lines in the manifest.") from None
