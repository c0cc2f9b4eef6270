"""The training jobs of a grid in one Region, for whoever looks after all of them: listed, described, stopped."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from traingrid import names
from traingrid.clients import Maker, gentle
from traingrid.ownership import UNKNOWN_CODES, is_of_grid, tags_at
from traingrid.world import TrainingJob, attempts

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from traingrid.deployment import Deployment
    from traingrid.dynamodb import Item

_PAGE = 100  # the most that ListTrainingJobs gives at once (API reference, MaxResults)
ACTIVE_STATES = ("InProgress", "Stopping")


class TrainingJobs:
    """The training jobs of a grid in one Region. It can create none.

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
        """Yield the training jobs whose names are of this grid.

        Args:
            state: Only those in this state; all where none is given.
            submission: Only those of this submission; of all where none is given.
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
                        state=summary["TrainingJobStatus"],
                        created_at=summary["CreationTime"].timestamp(),
                        ended_at=summary["TrainingEndTime"].timestamp() if "TrainingEndTime" in summary else None,
                    )

    def described(self, name: str) -> Mapping[str, Any] | None:
        """Return DescribeTrainingJob's reply for a training job that was listed; None if it was deleted since."""
        try:
            return dict(self._sagemaker.describe_training_job(TrainingJobName=name))
        except ClientError as error:
            if error.response["Error"]["Code"] in UNKNOWN_CODES:
                return None
            raise

    def bears_our_tag(self, arn: str) -> bool:
        """Return whether a training job was made by this grid, and not by somebody who chose such a name."""
        return is_of_grid(tags_at(self._sagemaker, arn), self._grid)

    def is_ours(self, job: TrainingJob, item: Item | None) -> bool:
        """Return whether a training job may be stopped: the ledger has seen it as its line's own, or its tag says so.

        Args:
            job: The training job.
            item: What the ledger knows of its line.
        """
        known = attempts(item).get(job.identity.attempt, {})
        return known.get("training_job_arn") == job.arn or self.bears_our_tag(job.arn)

    def stop(self, name: str) -> bool:
        """Stop a training job; one that is being stopped may be told so again.

        Returns:
            False if it has ended already, which is as good.
        """
        try:
            self._sagemaker.stop_training_job(TrainingJobName=name)
        except ClientError as error:
            # SageMaker answers so for a job in a final state, and for one that does not exist; neither costs money.
            if error.response["Error"]["Code"] in UNKNOWN_CODES:
                return False
            raise
        return True
