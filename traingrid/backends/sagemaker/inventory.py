"""SageMaker inventory: lists, describes and stops the training jobs of a grid in one Region."""

import math
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from traingrid import names
from traingrid.aws.clients import ClientFactory, background_client
from traingrid.backends.inventory import ALL, Details, ListingTimeoutError, Window
from traingrid.backends.sagemaker.jobs import TrainingJobs, seconds_in
from traingrid.backends.training_job import TrainingJob
from traingrid.grid.deployment import Deployment
from traingrid.job.ownership import is_of_grid
from traingrid.job.state import JobState

_PAGE = 100  # the maximum page size of ListTrainingJobs (API reference, MaxResults)


class SageMakerInventory:
    """The training jobs of a grid in one Region, as SageMaker lists them.

    Args:
        make_client: Makes the client of SageMaker.
    """

    def __init__(self, deployment: Deployment, region: str, make_client: ClientFactory = background_client) -> None:
        self._grid = deployment.grid.name
        self._region = region
        self._jobs = TrainingJobs(deployment, region, make_client)

    def listed(self, state: str = "", submission: str = "", window: Window = ALL) -> Iterator[TrainingJob]:
        """See `Inventory.listed`; the newest first.

        SageMaker keeps ended training jobs, and cuts a page before it filters by state, so a page may be empty and have
        a successor (https://docs.aws.amazon.com/sagemaker/latest/APIReference/API_ListTrainingJobs.html). Without
        `since`, the list takes as long as the whole history. The time is checked after each page, because an empty one
        yields nothing.
        """
        request: dict[str, Any] = {
            "NameContains": f"{self._grid}-{submission}",
            "PaginationConfig": {"PageSize": _PAGE},
        }
        request["SortBy"] = "CreationTime"
        request["SortOrder"] = "Descending"
        if state:
            request["StatusEquals"] = state
        if window.since:
            request["CreationTimeAfter"] = datetime.fromtimestamp(window.since, UTC)
        if window.before < math.inf:
            request["CreationTimeBefore"] = datetime.fromtimestamp(window.before, UTC)
        arns = set[str]()  # a training job that is created meanwhile may move others to the next page
        for page in self._jobs.client.get_paginator("list_training_jobs").paginate(**request):
            for summary in page["TrainingJobSummaries"]:
                identity = names.parse_training_job(self._grid, summary["TrainingJobName"])
                if identity and submission in ("", identity.submission) and summary["TrainingJobArn"] not in arns:
                    arns.add(summary["TrainingJobArn"])
                    yield self._training_job(summary, identity)
            if "NextToken" in page and time.time() >= window.deadline:
                raise ListingTimeoutError(self._region)

    def _training_job(self, summary: Mapping[str, Any], identity: names.TrainingJobName) -> TrainingJob:
        return TrainingJob(
            name=summary["TrainingJobName"],
            identity=identity,
            region=self._region,
            arn=summary["TrainingJobArn"],
            state=JobState(summary["TrainingJobStatus"]),
            created_at=summary["CreationTime"].timestamp(),
            ended_at=seconds_in(summary, "TrainingEndTime"),
        )

    def details(self, job: TrainingJob) -> Details | None:
        """See `Inventory.details`."""
        return self.described(job.name)

    def described(self, name: str) -> Details | None:
        """Return the details of the training job with a name, or None if SageMaker does not know it."""
        reply = self._jobs.description(name)
        if reply is None:
            return None
        return Details(
            state=JobState(reply["TrainingJobStatus"]),
            started_at=seconds_in(reply, "TrainingStartTime"),
            ended_at=seconds_in(reply, "TrainingEndTime"),
            artifact=reply.get("ModelArtifacts", {}).get("S3ModelArtifacts", ""),
            billable_seconds=reply.get("BillableTimeInSeconds", 0),
            role=reply.get("RoleArn", ""),
        )

    def has_our_tag(self, job: TrainingJob) -> bool:
        """See `Inventory.has_our_tag`."""
        return is_of_grid(self._jobs.tags(job.arn), self._grid)

    def stop(self, job: TrainingJob) -> bool:
        """See `Inventory.stop`."""
        return self._jobs.stop(job.name)

    def complete_stop(self, job: TrainingJob) -> bool:  # noqa: ARG002  # part of the protocol
        """See `Inventory.complete_stop`; SageMaker stops all hosts itself."""
        return False

    def ended(self) -> Iterator[TrainingJob]:
        """See `Inventory.ended`."""
        return iter(())

    def release(self, job: TrainingJob) -> bool:  # noqa: ARG002  # part of the protocol
        """See `Inventory.release`."""
        return False
