"""Fake SageMaker: the training jobs of a Region under the control of a test."""

from datetime import UTC, datetime
from typing import Any

from botocore.exceptions import ClientError

CREATED_AT = datetime(2026, 1, 1, tzinfo=UTC)


def answer(code: str, operation: str = "CreateTrainingJob") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "because"}}, operation)


class FakeSageMaker:
    """SageMaker: stores created training jobs, and can fail a creation before or after it takes effect."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.error: Exception | None = None
        self.creates_before_error = False
        self.unseen = 0
        self.defaults: dict[str, str] = {}
        self.knows_tags = True
        self.status: dict[str, Any] = {"TrainingJobStatus": "InProgress", "SecondaryStatus": "Training"}

    def create_training_job(self, **request: Any) -> None:
        if request["TrainingJobName"] in self.jobs:
            raise answer("ResourceInUse")
        if self.error is None or self.creates_before_error:
            self.jobs[request["TrainingJobName"]] = request
        if self.error:
            raise self.error

    def describe_training_job(self, **request: str) -> dict[str, Any]:
        if request["TrainingJobName"] not in self.jobs or self.unseen > 0:
            self.unseen -= 1
            raise answer("ValidationException", "DescribeTrainingJob")
        job = self.jobs[request["TrainingJobName"]]
        described = {"HyperParameters": {**job["HyperParameters"], **self.defaults}}
        return {**job, **described, "TrainingJobArn": f"arn:aws:x/{job['TrainingJobName']}", **self.status}

    def get_paginator(self, _name: str) -> "FakeSageMaker":
        return self

    def paginate(self, **request: Any) -> list[dict[str, Any]]:
        if "NameContains" in request:
            return [{"TrainingJobSummaries": self._summaries(request)}]
        if not self.knows_tags:
            raise answer("ValidationException", "ListTags")
        return [{"Tags": self.jobs[request["ResourceArn"].rpartition("/")[2]]["Tags"]}]

    def stop_training_job(self, **request: str) -> None:
        if request["TrainingJobName"] not in self.jobs or self.status["TrainingJobStatus"] != "InProgress":
            raise answer("ValidationException", "StopTrainingJob")
        self.status = {"TrainingJobStatus": "Stopping", "SecondaryStatus": "Stopping"}

    def _summaries(self, request: dict[str, Any]) -> list[dict[str, Any]]:
        state = self.status["TrainingJobStatus"]
        return [
            {**self.describe_training_job(TrainingJobName=name), "CreationTime": CREATED_AT}
            for name in self.jobs
            if request["NameContains"] in name and request.get("StatusEquals", state) == state
        ]
