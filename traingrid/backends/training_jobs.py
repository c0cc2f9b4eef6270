"""Training jobs: lists, describes and stops the training jobs of a grid in one Region."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.aws.clients import Maker, gentle
from traingrid.backends.found_job import TrainingJob
from traingrid.job.ownership import UNKNOWN_CODES, is_of_grid, tags_at
from traingrid.job.state import JobState
from traingrid.ledger.items import attempts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.grid.deployment import Deployment
    from traingrid.ledger.items import JobItem

_PAGE = 100  # the maximum page size of ListTrainingJobs (API reference, MaxResults)
ACTIVE_STATES = (JobState.IN_PROGRESS, JobState.STOPPING)


class TrainingJobs:
    """The training jobs of a grid in one Region. This class cannot create training jobs.

    Args:
        deployment: The grid.
        region: The Region.
        make: Makes the client of SageMaker.
    """

    def __init__(self, deployment: Deployment, region: str, make: Maker = gentle) -> None:
        self._grid = deployment.grid.name
        self._region = region
        self._sagemaker: Any = make("sagemaker", region, deployment.acting_in(region))

    def listed(self, state: str = "", submission: str = "") -> Iterator[TrainingJob]:
        """Yield the training jobs with names of this grid.

        Args:
            state: Yield only training jobs in this state; by default in any state.
            submission: Yield only training jobs of this submission; by default of all submissions.
        """
        request = {"NameContains": f"{self._grid}-{submission}", "PaginationConfig": {"PageSize": _PAGE}}
        request |= {"StatusEquals": state} if state else {}
        for page in self._sagemaker.get_paginator("list_training_jobs").paginate(**request):
            for summary in page["TrainingJobSummaries"]:
                identity = names.parse_training_job(self._grid, summary["TrainingJobName"])
                if identity and submission in ("", identity.submission):
                    yield TrainingJob(
                        name=summary["TrainingJobName"],
                        identity=identity,
                        region=self._region,
                        arn=summary["TrainingJobArn"],
                        state=JobState(summary["TrainingJobStatus"]),
                        created_at=summary["CreationTime"].timestamp(),
                        ended_at=summary["TrainingEndTime"].timestamp() if "TrainingEndTime" in summary else None,
                    )

    def described(self, name: str) -> Mapping[str, Any] | None:
        """Return DescribeTrainingJob's reply for a listed training job; None if it has been deleted since."""
        try:
            return dict(self._sagemaker.describe_training_job(TrainingJobName=name))
        except ClientError as error:
            if error.response["Error"]["Code"] in UNKNOWN_CODES:
                return None
            raise

    def bears_our_tag(self, arn: str) -> bool:
        """Return True if the tags of a training job show that this grid created it."""
        return is_of_grid(tags_at(self._sagemaker, arn), self._grid)

    def is_ours(self, job: TrainingJob, item: JobItem | None) -> bool:
        """Return True if the ledger records the ARN of a training job, or its tag shows that this grid created it.

        Args:
            job: The training job.
            item: The ledger's item of its line.
        """
        recorded = attempts(item).get(job.identity.attempt)
        if recorded and recorded.training_job_arn and recorded.training_job_arn == job.arn:
            return True
        return self.bears_our_tag(job.arn)

    def stop(self, name: str) -> bool:
        """Stop a training job; repeated requests are allowed.

        Returns:
            False if it has already ended.
        """
        try:
            self._sagemaker.stop_training_job(TrainingJobName=name)
        except ClientError as error:
            # SageMaker returns this for a job in a final state and for a job that does not exist; neither costs money.
            if error.response["Error"]["Code"] in UNKNOWN_CODES:
                return False
            raise
        return True
