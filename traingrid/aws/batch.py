"""AWS Batch: submits a submission's array jobs exactly once, and describes their children."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.aws.access_denied import access_denied
from traingrid.aws.clients import ClientFactory, client, client_without_retries
from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.aws.s3_uri import S3Uri
    from traingrid.grid.deployment import Deployment


_GRANT = (
    "Deploy the grid again, which grants the permissions of its roles (docs/security.md), or ask the administrator of "
    "the account if a policy outside the grid denies it."
)


class SubmitFailedError(TraingridError):
    """Batch rejected the job, or its reply was lost and no job with its name is listed.

    Args:
        text: The error with Batch's own message, as a sentence.
        next_step: The next step, as a sentence.
        refused: True if Batch rejected the job; otherwise the job may still appear.
    """

    def __init__(self, text: str, next_step: str = "", *, refused: bool) -> None:
        super().__init__(text, next_step)
        self.refused = refused


class Batch:
    """The job queue of a deployment.

    Args:
        deployment: The deployment, with its job queue and job definition.
        region: The home Region; by default the environment's.
        make_client: Makes the client for read requests.
    """

    def __init__(self, deployment: Deployment, region: str | None = None, make_client: ClientFactory = client) -> None:
        self._deployment = deployment
        self._client: Any = make_client("batch", region)
        self._submit_client: Any = client_without_retries("batch", region)

    def submit(  # noqa: PLR0913  # the parameters of one request
        self,
        submission: str,
        jobs: S3Uri,
        count: int,
        chunk: int | str = 0,
        *,
        share: str = "",
        priority: int = 0,
    ) -> str:
        """Submit one array job, or a plain job if `count` is 1, and return its id.

        SubmitJob has no idempotency token, so it is sent once. If the reply is lost, the job is looked up by its name,
        which is unique to this submission.

        Args:
            submission: The submission's id, which is part of the job's name.
            jobs: The S3 object with the normalised jobs, with the version that the children read.
            count: The number of jobs in that object.
            chunk: The number of this array in its submission, from 0, or the suffix of a retry's array.
            share: The share that the jobs belong to; ignored unless the grid has `shares`.
            priority: The scheduling priority of the jobs within their share.

        Raises:
            SubmitFailedError: Batch rejected the job, or it is unknown if Batch accepted it.
        """
        name = self.job_name(submission, chunk)
        request: dict[str, Any] = {
            "jobName": name,
            "jobQueue": self._deployment.job_queue,
            "jobDefinition": self._deployment.job_definition,
            "containerOverrides": {"environment": [{"name": "S3_ARRAY_FILE", "value": str(jobs)}]},
            "tags": {names.TAG_GRID: self._deployment.grid.name, names.TAG_SUBMISSION: submission},
            "propagateTags": True,
        }
        if count > 1:
            request["arrayProperties"] = {"size": count}
        if self._deployment.grid.shares:  # Batch requires a share identifier in a fair-share queue, and only there
            request["shareIdentifier"] = self._deployment.grid.share_of(share)
            request["schedulingPriorityOverride"] = priority
        try:
            return str(self._submit_client.submit_job(**request)["jobId"])
        except (BotoCoreError, ClientError) as error:
            failure = _failure(name, error)
            try:
                job_id = self.find(submission, chunk)
            except (BotoCoreError, ClientError):
                raise failure from error
            if job_id:
                return job_id
            raise failure from error

    def job_name(self, submission: str, chunk: int | str = 0) -> str:
        """Return the name of the Batch job of a submission, or of its array `chunk`."""
        suffix = f"-{chunk}" if chunk else ""
        return f"{self._deployment.grid.name}-{submission}{suffix}"

    def find(self, submission: str, chunk: int | str = 0) -> str | None:
        """Return the id of the Batch job of a submission, or of its array `chunk`; None if Batch lists none."""
        pages = self._client.get_paginator("list_jobs").paginate(  # a page may be empty although later pages match
            jobQueue=self._deployment.job_queue,
            filters=[{"name": "JOB_NAME", "values": [self.job_name(submission, chunk)]}],
        )
        return next((str(job["jobId"]) for page in pages for job in page["jobSummaryList"]), None)

    def describe(self, job: str) -> dict[str, Any] | None:
        """Return Batch's description of a job, or None if Batch no longer has it (a week after its end)."""
        jobs = self._client.describe_jobs(jobs=[job])["jobs"]
        return dict(jobs[0]) if jobs else None

    def children(self, job: str, count: int) -> Iterator[dict[str, Any]]:
        """Yield Batch's descriptions of an array's children, or of the plain job, in the order of their index."""
        ids = [job] if count == 1 else [f"{job}:{index}" for index in range(count)]
        for start in range(0, len(ids), 100):  # DescribeJobs takes at most 100 ids
            jobs = self._client.describe_jobs(jobs=ids[start : start + 100])["jobs"]
            yield from sorted(jobs, key=lambda child: ids.index(child["jobId"], start))


def _failure(name: str, error: Exception) -> SubmitFailedError:
    """Return the error of a submission; if IAM denied the request, it names the action, resource and role."""
    if denial := access_denied(error):
        text = f"AWS Batch refused the job {name}: {denial}."
        return SubmitFailedError(text, _GRANT, refused=True)
    return SubmitFailedError(f"Batch did not accept the job {name}: {error}.", refused=_is_refusal(error))


def _is_refusal(error: Exception) -> bool:
    """Return True if Batch certainly rejected the request; after a lost reply or a server error it is unknown."""
    if not isinstance(error, ClientError):
        return False
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return bool(HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR)
