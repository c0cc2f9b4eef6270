"""AWS Batch: submitting the array job of a submission, once, and seeing what its children do."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.access_denied import access_denied
from traingrid.clients import Maker, client, once
from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.deployment import Deployment
    from traingrid.s3_uri import S3Uri


_GRANT = (
    "Deploy the grid again, which grants what its roles need (docs/security.md), or ask the administrator of the "
    "account if a policy outside of the grid denies it."
)


class SubmitFailedError(TraingridError):
    """Batch did not take the job, or does not say, and no job of its name is known.

    Args:
        what: What happened and where, in Batch's own words.
        next_step: What to do about it.
        refused: Whether Batch has refused it; else a job may turn up yet.
    """

    def __init__(self, what: str, next_step: str = "", *, refused: bool) -> None:
        super().__init__(what, next_step)
        self.refused = refused


class Batch:
    """The job queue of a deployment.

    Args:
        deployment: Says which queue and job definition.
        region: The home Region; the environment's where none is given.
        make: Makes the client that reads.
    """

    def __init__(self, deployment: Deployment, region: str | None = None, make: Maker = client) -> None:
        self._deployment = deployment
        self._reading: Any = make("batch", region)
        self._submitting: Any = once("batch", region)

    def submit(  # noqa: PLR0913  # what one request says
        self,
        submission: str,
        jobs: S3Uri,
        count: int,
        chunk: int | str = 0,
        *,
        share: str = "",
        priority: int = 0,
    ) -> str:
        """Submit one array job, or a plain job where `count` is 1, and return its id.

        SubmitJob has no idempotency token, so it is sent once. A reply that is lost is looked up by the job's name,
        which only this submission has.

        Args:
            submission: The submission's id; the job's name is made of it.
            jobs: The normalised jobs in S3, in the version that the children read.
            count: How many jobs there are in it.
            chunk: Which of the submission's arrays this is, from 0, or what another one is called.
            share: Whose jobs they are; means something where the queue is shared by weights only.
            priority: How early they start, compared with the others of that share.

        Raises:
            SubmitFailedError: Batch refused the job, or cannot say whether it took it.
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
        if self._deployment.grid.shares:  # Batch refuses a share in any other queue, and demands one in this
            request["shareIdentifier"] = self._deployment.grid.share_of(share)
            request["schedulingPriorityOverride"] = priority
        try:
            return str(self._submitting.submit_job(**request)["jobId"])
        except (BotoCoreError, ClientError) as error:
            failed = _failure(name, error)
            try:
                found = self.find(submission, chunk)
            except (BotoCoreError, ClientError):
                raise failed from error
            if found:
                return found
            raise failed from error

    def job_name(self, submission: str, chunk: int | str = 0) -> str:
        """Return the name of the Batch job of a submission, or of its array `chunk`."""
        return f"{self._deployment.grid.name}-{submission}{f'-{chunk}' * bool(chunk)}"

    def find(self, submission: str, chunk: int | str = 0) -> str | None:
        """Return the id of a submission's Batch job, or of its array `chunk`, by its name, or None if there is none."""
        pages = self._reading.get_paginator("list_jobs").paginate(  # a page may hold fewer than match, or none
            jobQueue=self._deployment.job_queue,
            filters=[{"name": "JOB_NAME", "values": [self.job_name(submission, chunk)]}],
        )
        return next((str(job["jobId"]) for page in pages for job in page["jobSummaryList"]), None)

    def describe(self, job: str) -> dict[str, Any] | None:
        """Return Batch's description of a job, or None if Batch knows it no longer (it forgets after a week)."""
        found = self._reading.describe_jobs(jobs=[job])["jobs"]
        return dict(found[0]) if found else None

    def children(self, job: str, count: int) -> Iterator[dict[str, Any]]:
        """Yield Batch's descriptions of an array's children, or of the plain job, in the order of their index."""
        ids = [job] if count == 1 else [f"{job}:{index}" for index in range(count)]
        for start in range(0, len(ids), 100):  # DescribeJobs takes at most 100 ids
            described = self._reading.describe_jobs(jobs=ids[start : start + 100])["jobs"]
            yield from sorted(described, key=lambda child: ids.index(child["jobId"], start))


def _failure(name: str, error: Exception) -> SubmitFailedError:
    """Return the error of a submission: one sentence that names action, resource and role if IAM has refused it."""
    if denied := access_denied(error):
        what = f"AWS Batch refused the job {name}: {denied}."
        return SubmitFailedError(what, _GRANT, refused=True)
    return SubmitFailedError(f"Batch did not take the job {name}: {error}.", refused=_is_refusal(error))


def _is_refusal(error: Exception) -> bool:
    """Return whether Batch has certainly not done what was asked: after a lost reply or a fault of its own it may."""
    if not isinstance(error, ClientError):
        return False
    status = error.response.get("ResponseMetadata", {}).get("HTTPStatusCode", 0)
    return bool(HTTPStatus.BAD_REQUEST <= status < HTTPStatus.INTERNAL_SERVER_ERROR)
