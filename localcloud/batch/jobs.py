"""Jobs of AWS Batch as data: submissions, jobs, array children, and their form in DescribeJobs."""

import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from moto.batch.models import JobDefinition, JobQueue

STATUSES = ("SUBMITTED", "PENDING", "RUNNABLE", "STARTING", "RUNNING", "SUCCEEDED", "FAILED")
ENDED = frozenset({"SUCCEEDED", "FAILED"})
NOT_STARTED = frozenset({"SUBMITTED", "PENDING", "RUNNABLE"})


def now_ms() -> int:
    """Return the time in Batch's unit: milliseconds since 1970."""
    return int(time.time() * 1000)


@dataclass(frozen=True, kw_only=True, eq=False)
class Submission:
    """The content of one SubmitJob call, shared by an array job and all its children.

    Attributes:
        container: containerProperties with the overrides and parameters applied.
        size: Array size; None for a plain job.
        milli_vcpus: CPU of one attempt, in thousandths of a vCPU.
        share: Its shareIdentifier; empty if the queue has no scheduling policy.
        priority: Its scheduling priority within the share.
    """

    name: str
    definition: JobDefinition
    queue: JobQueue
    container: dict[str, Any]
    retry_strategy: dict[str, Any] | None
    timeout: dict[str, int] | None
    parameters: dict[str, str]
    tags: dict[str, str]
    propagate_tags: bool
    size: int | None
    milli_vcpus: int
    share: str = ""
    priority: int = 0
    created_at: int = field(default_factory=now_ms)


@dataclass(kw_only=True, slots=True, eq=False)
class Job:
    """A plain job, an array child, or an array parent. Change it only while holding the scheduler's lock.

    Attributes:
        index: Array index of a child.
        parent: The array job of a child.
        children: The children of an array job, by index.
        tally: Number of children by status; updated at every change to avoid counting 10,000 children.
        attempts: Finished attempts, as DescribeJobs shows them.
        stop_reason: Reason of TerminateJob or CancelJob; if set, the job is not retried.
    """

    id: str
    arn: str
    submission: Submission
    status: str = "SUBMITTED"
    status_reason: str | None = None
    index: int | None = None
    parent: "Job | None" = None
    children: "list[Job]" = field(default_factory=list)
    tally: dict[str, int] = field(default_factory=dict)
    attempts: list[dict[str, Any]] = field(default_factory=list)
    started_at: int | None = None
    stopped_at: int | None = None
    exit_code: int | None = None
    reason: str | None = None
    log_stream: str | None = None
    stop_reason: str | None = None
    is_cancelled: bool = False
    is_terminated: bool = False

    @property
    def is_array(self) -> bool:
        """Return True if this is an array parent, which never runs itself."""
        return self.submission.size is not None and self.index is None

    @property
    def attempt(self) -> int:
        """Return the number of the current or next attempt, from 1."""
        return len(self.attempts) + 1

    def summary(self) -> dict[str, Any]:
        """Return the job as ListJobs shows it (JobSummary of the API reference)."""
        summary = _without_none(
            {
                "jobArn": self.arn,
                "jobId": self.id,
                "jobName": self.submission.name,
                "createdAt": self.submission.created_at,
                "status": self.status,
                "statusReason": self.status_reason,
                "startedAt": self.started_at,
                "stoppedAt": self.stopped_at,
                "jobDefinition": self.submission.definition.arn,
            }
        )
        if self.exit_code is not None or self.reason is not None:
            summary["container"] = _without_none({"exitCode": self.exit_code, "reason": self.reason})
        if self.is_array:
            summary["arrayProperties"] = {"size": self.submission.size}
        elif self.index is not None:
            summary["arrayProperties"] = {"index": self.index}
        return summary

    def describe(self) -> dict[str, Any]:
        """Return the job as DescribeJobs shows it (JobDetail of the API reference)."""
        submitted = self.submission
        description = self.summary() | {
            "jobQueue": submitted.queue.arn,
            "dependsOn": [],
            "parameters": submitted.parameters,
            "tags": submitted.tags,
            "propagateTags": submitted.propagate_tags,
            "platformCapabilities": submitted.definition.platform_capabilities or ["EC2"],
            "attempts": list(self.attempts),
            "container": self._container(),
            "isCancelled": self.is_cancelled,
            "isTerminated": self.is_terminated,
        }
        description |= _without_none({"retryStrategy": submitted.retry_strategy, "timeout": submitted.timeout})
        if submitted.share:
            description |= {"shareIdentifier": submitted.share, "schedulingPriority": submitted.priority}
        if self.is_array:
            description["arrayProperties"] = {"statusSummary": dict(self.tally), "size": submitted.size}
        return description

    def _container(self) -> dict[str, Any]:
        ran = {"exitCode": self.exit_code, "reason": self.reason, "logStreamName": self.log_stream}
        return {**self.submission.container, **_without_none(ran)}

    def ids(self) -> "Iterator[Job]":
        """Iterate over the job itself and, for an array, its children."""
        yield self
        yield from self.children


def _without_none(values: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in values.items() if value is not None}
