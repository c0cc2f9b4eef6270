"""Simulated line: a child of a manifest line with a simulated clock and counting AWS clients (see `bench.rates`)."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from botocore.exceptions import ClientError

from traingrid.backends.sagemaker.backend import SageMaker
from traingrid.child.attempt import Clock
from traingrid.child.polling_pace import PollingPace
from traingrid.child.supervisor import Supervisor
from traingrid.grid.deployment import Deployment
from traingrid.job.facts import JobFacts
from traingrid.job.job import Channel, Job
from traingrid.job.state import JobState
from traingrid.ledger.items import JobItem, JobKey
from traingrid.ledger.preconditions import Precondition
from traingrid.ledger.timestamps import now

ACCOUNT = "123456789012"
LAUNCH_SECONDS = (150.0, 240.0)
"""Assumed time until SageMaker has instances for a training job."""

Calls = list[tuple[float, str]]
_SUBMISSION = "0123abcd"


@dataclass(kw_only=True)
class Line:
    """A training job with a simulated clock, and the AWS clients that its child calls.

    Attributes:
        name: The training job's name, once it is created.
        calls: Time of each call, in seconds since the child began, and its API.
    """

    hosts: int
    runs_at: float
    ends_at: float
    now: float = 0.0
    name: str = ""
    created_at: float = 0.0
    request: dict[str, Any] = field(default_factory=dict)
    calls: Calls = field(default_factory=list)

    @property
    def age(self) -> float:
        """Seconds since the creation."""
        return self.now - self.created_at

    def sleep(self, seconds: float) -> None:
        """Advance the clock."""
        self.now += seconds

    def create_training_job(self, **request: Any) -> None:
        """Accept a training job, as SageMaker does."""
        self.calls.append((self.now, "sagemaker.CreateTrainingJob"))
        self.name, self.request, self.created_at = request["TrainingJobName"], request, self.now

    def describe_training_job(self, **_: Any) -> dict[str, Any]:
        """Describe the training job, as SageMaker does."""
        self.calls.append((self.now, "sagemaker.DescribeTrainingJob"))
        if not self.name:
            raise _unknown()
        state = "Completed" if self.age >= self.ends_at else "InProgress"
        phase = state if state == "Completed" else "Training" if self.age >= self.runs_at else "Starting"
        arn = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-job/{self.name}"
        return {**self.request, "TrainingJobStatus": state, "SecondaryStatus": phase, "TrainingJobArn": arn}

    def get_paginator(self, _: str) -> "Line":
        """Return the paginator of CloudWatch Logs."""
        return self

    def paginate(self, **_: Any) -> Iterator[dict[str, Any]]:
        """Return the pages of DescribeLogStreams of CloudWatch Logs."""
        self.calls.append((self.now, "logs.DescribeLogStreams"))
        hosts = range(1, self.hosts + 1) if self.age >= self.runs_at else ()
        yield {"logStreams": [{"logStreamName": f"{self.name}/algo-{host}-1"} for host in hosts]}

    def get_log_events(self, **request: Any) -> dict[str, Any]:
        """Return new log events, one per second of training; a single event represents all of them."""
        self.calls.append((self.now, "logs.GetLogEvents"))
        begun = int(request.get("nextToken", 0))
        written = int(max(0.0, min(self.age, self.ends_at) - self.runs_at))
        events = [{"timestamp": written, "message": "epoch=1"}] if written > begun else []
        return {"events": events, "nextForwardToken": str(written)}


def _unknown() -> Exception:
    error: Any = {"Error": {"Code": "ValidationException", "Message": "Requested resource not found."}}
    return ClientError(error, "DescribeTrainingJob")


class Ledger:
    """Ledger with one job's item; DynamoDB's on-demand limits are far above the children's rates."""

    def __init__(self, job: Job, line: Line) -> None:
        self._item = JobItem(
            submission=_SUBMISSION,
            index=job.index,
            attempt=1,
            state=JobState.PENDING,
            name=job.name,
            region=job.region,
            regions=(job.region,),
            opened_at=now(),
        )
        self._line = line

    def open_job(self, *_: Any) -> JobItem:
        """Return the item."""
        return self._item

    def job(self, *_: Any) -> JobItem:
        """Return the item as the handlers of SageMaker's events, which arrive within seconds, have updated it."""
        line = self._line
        if line.name and line.age >= line.runs_at and self._item.state != JobState.COMPLETED:
            self._item = replace(self._item, state=JobState.IN_PROGRESS, phase="Training")
        if line.name and line.age >= line.ends_at:
            self._item = replace(self._item, state=JobState.COMPLETED, phase="Completed")
        return self._item

    def record_job(self, _key: JobKey, facts: JobFacts, _required: Precondition, **_requests: str) -> bool:
        """Update the item."""
        self._item = replace(self._item, **facts)
        return True

    record_description = record_job

    def record_progress(self, *_: Any) -> None:
        """Do nothing."""

    def cancels(self, *_: Any) -> list[Any]:
        """Return no cancel."""
        return []

    def pause(self, *_: Any) -> None:
        """Return no pause."""

    def shortage(self, *_: Any) -> None:
        """Return no shortage."""


def run_line(
    deployment: Deployment, job: Job, lines: int, seconds: float, chance: random.Random
) -> tuple[float, Calls]:
    """Run the child of one line until it ends.

    Args:
        lines: Number of lines in its array.
        seconds: Duration of the training.

    Returns:
        The duration in seconds, and the calls.
    """
    runs_at = chance.uniform(*LAUNCH_SECONDS)
    line = Line(hosts=job.instance_count, runs_at=runs_at, ends_at=runs_at + seconds)
    Supervisor(
        grid="bench",
        submission=_SUBMISSION,
        job=job,
        backend_in=lambda *_: SageMaker(deployment, job.region, lambda *_: line, lambda *_: line),
        ledger=Ledger(job, line),  # type: ignore[arg-type] # has only the methods that a child calls
        pace=PollingPace.of_array(lines, deployment.grid.orchestrator),
        clock=Clock(now=lambda: line.now, sleep=line.sleep),
    ).run()
    return line.now, line.calls


def job_of(index: int, region: str, hosts: int) -> Job:
    """Return the job of a line."""
    return Job(
        index=index,
        line=index + 1,
        name=f"job-{index}",
        region=region,
        inputs={"train": Channel(uri=f"s3://bench-data-{ACCOUNT}-{region}/x/")},
        image=f"{ACCOUNT}.dkr.ecr.{region}.amazonaws.com/bench/training:1",
        instance_type="ml.m5.large",
        instance_count=hosts,
        volume_gb=5,
        max_runtime_seconds=7200,
        processes_per_host=1,
        mpi_options="",
        output=f"s3://bench-output-{ACCOUNT}-{region}/",
    )
