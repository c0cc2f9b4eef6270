"""Fake queue: AWS Batch's service jobs and SageMaker's training jobs under the control of a test."""

from typing import Any

from botocore.exceptions import ClientError


def answer(code: str, operation: str = "SubmitServiceJob") -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "because"}}, operation)


class FakeQueue:
    """A service queue: stores service jobs by client token, and starts, ends and describes them as the test decides.

    Attributes:
        jobs: The submitted jobs, in order, each with the fields that DescribeServiceJob adds.
        requests: Every SubmitServiceJob request, accepted or not.
        error: The error of a submission, which is accepted nevertheless if `takes`.
        rejects: Whether a repeated token is refused, as the API reference documents, or returns the first job's id.
        unseen: The number of list calls that do not return a new service job yet.
    """

    def __init__(self) -> None:
        self.jobs: list[dict[str, Any]] = []
        self.requests: list[dict[str, Any]] = []
        self.terminated: list[str] = []
        self.error: Exception | None = None
        self.takes = True
        self.rejects = False
        self.unseen = 0

    def submit_service_job(self, **request: Any) -> dict[str, str]:
        self.requests.append(request)
        known = [job for job in self.jobs if job["clientToken"] == request["clientToken"]]
        if known and self.rejects:
            raise answer("ClientException")
        if not known and self.takes:
            number = len(self.jobs) + 1
            added = {"jobId": f"id-{number}", "jobArn": f"arn:aws:batch:us-east-1:1:service-job/id-{number}"}
            self.jobs.append({**request, **added, "status": "RUNNABLE", "createdAt": 1_000_000})
        if self.error:
            raise self.error
        return {"jobId": (known or self.jobs)[-1]["jobId"]}

    def describe_service_job(self, jobId: str) -> dict[str, Any]:  # noqa: N803  # AWS's parameter name
        (job,) = [job for job in self.jobs if jobId in (job["jobId"], job["jobArn"])]
        return {"isTerminated": False, **job}

    def terminate_service_job(self, jobId: str, reason: str) -> None:  # noqa: N803  # AWS's parameter name
        assert reason
        self.terminated.append(jobId)
        for job in self.jobs:
            if jobId in (job["jobId"], job["jobArn"]) and job["status"] not in ("SUCCEEDED", "FAILED"):
                job["isTerminated"] = True

    def get_paginator(self, operation: str) -> "FakeQueue":
        assert operation == "list_service_jobs"
        return self

    def paginate(self, jobQueue: str, jobStatus: str = "", filters: Any = ()) -> list[dict[str, Any]]:  # noqa: N803  # AWS's parameter name
        assert jobQueue == "traingrid-training"
        if self.unseen:
            self.unseen -= 1
            return [{"jobSummaryList": []}]
        (pattern,) = filters[0]["values"] if filters else ("*",)
        named = [job for job in self.jobs if _matches(pattern.lower(), job["jobName"].lower())]
        return [{"jobSummaryList": [job]} for job in reversed(named) if jobStatus in ("", job["status"])]

    def becomes(self, training_job: str, status: str, **more: Any) -> None:
        """Start the last service job as a training job with this name."""
        arn = f"arn:aws:sagemaker:us-east-1:1:training-job/{training_job}"
        latest = {"latestAttempt": {"serviceResourceId": {"name": "TrainingJobArn", "value": arn}}}
        self.jobs[-1] |= {"status": status, **(latest if training_job else {}), **more}


def _matches(pattern: str, name: str) -> bool:
    return name.startswith(pattern[:-1]) if pattern.endswith("*") else name == pattern


class FakeTraining:
    """SageMaker with the training jobs that a test has added."""

    def __init__(self) -> None:
        self.jobs: dict[str, dict[str, Any]] = {}
        self.stopped: list[str] = []

    def put(self, name: str, status: str, phase: str = "Training", **more: Any) -> None:
        arn = f"arn:aws:sagemaker:us-east-1:1:training-job/{name}"
        self.jobs[name] = {"TrainingJobStatus": status, "SecondaryStatus": phase, "TrainingJobArn": arn, **more}

    def describe_training_job(self, TrainingJobName: str) -> dict[str, Any]:  # noqa: N803  # AWS's parameter name
        if TrainingJobName not in self.jobs:
            raise answer("ValidationException", "DescribeTrainingJob")
        return self.jobs[TrainingJobName]

    def stop_training_job(self, TrainingJobName: str) -> None:  # noqa: N803  # AWS's parameter name
        self.stopped.append(TrainingJobName)

    def get_paginator(self, operation: str) -> "FakeTraining":
        assert operation == "list_training_jobs"
        return self

    def paginate(self, **_request: Any) -> list[dict[str, Any]]:
        return [{"TrainingJobSummaries": []}]
