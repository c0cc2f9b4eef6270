"""Submission status: combines the ledger's state of each job with AWS Batch's state of jobs that have not started."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from traingrid.job.backend_traits import DEFAULT_BACKEND
from traingrid.job.candidates import place
from traingrid.job.state import FINAL_STATES, UNLAUNCHED_STATES, JobState
from traingrid.ledger.damage import Damaged, readable
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.ledger.items import JobItem
from traingrid.ledger.spending import ended_dollars, running_dollars
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.ledger.user_requests import cancel_of
from traingrid.submission.submitted_jobs import submitted_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from traingrid.aws.s3 import Storage
    from traingrid.job.backend_traits import BackendName
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.user_requests import Cancel
    from traingrid.submission.batch_children import Children, ChildStatus

CHILD_FAILED = "child failed, closed within two passes"
"""The phase of a job whose child has failed, but which the ledger does not record as failed yet. It cannot be retried
before that."""

UNREADABLE = "unreadable"
"""The phase of a job whose state is not known, because its item of the ledger, or its line, cannot be read."""


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """The status of one job, for users.

    Attributes:
        index: The array index.
        region: The training Region.
        backend: The service that runs the job there: sagemaker or eks.
        name: The job's name in the manifest.
        state: SageMaker's status; Pending before a training job exists, Waiting while a quota prevents it.
        phase: SageMaker's secondary status. Before a training job exists, Batch's status of the child, or
            `CHILD_FAILED` if the child failed and the reconciler has not closed the job yet.
        training_job: The training job's name; empty before it is requested.
        created: Whether the training job is known to exist; a rejected one has no log.
        ranks: The world size.
        attempt: The number of the attempt.
        reason: Why it failed, or why it cannot start yet.
        artifact: The S3 URI of the model.
        started_at: The time at which the training started, in seconds since 1970; 0 if it has not.
        seconds: Seconds of training, once it has ended.
        epochs: The number of epochs that the training runs; 0 if its hyperparameters do not have it.
        epoch_seconds: The seconds that an epoch takes; 0 until the child that watches the job has measured them.
        metrics: Last value of each metric.
        dollars: The cost of the training so far, in US dollars; 0 for a submission without a budget.
        tried: The previous attempts: the Region and, in brackets, the outcome.
        cancelled: Whether a user has cancelled it.
    """

    index: int
    region: str
    name: str
    state: JobState
    phase: str = ""
    training_job: str = ""
    created: bool = False
    ranks: int = 0
    attempt: int = 1
    reason: str = ""
    artifact: str = ""
    started_at: int = 0
    seconds: int = 0
    epochs: int = 0
    epoch_seconds: float = 0.0
    metrics: dict[str, float] = field(default_factory=dict)
    dollars: float = 0.0
    tried: tuple[str, ...] = ()
    cancelled: bool = False
    backend: BackendName = DEFAULT_BACKEND

    @property
    def place(self) -> str:
        """The Region, and the backend if it is not SageMaker."""
        return place(self.region, self.backend)

    @property
    def ended(self) -> bool:
        """True if the state is final."""
        return self.state in FINAL_STATES

    def elapsed(self, now: float) -> float:
        """Return the seconds of training until now; 0 before it starts.

        Args:
            now: The time in seconds since 1970.
        """
        if self.ended or self.seconds:
            return float(self.seconds)
        return max(now - self.started_at, 0.0) if self.started_at else 0.0

    @property
    def remaining(self) -> float | None:
        """The seconds that the remaining epochs take at the measured pace; None if that is not known.

        The time since the start of the job is no measure: at first most of it is the start of the container.
        """
        epoch = self.metrics.get("epoch", 0.0)
        if self.state != JobState.IN_PROGRESS or not 0 < epoch <= self.epochs or not self.epoch_seconds:
            return None
        return self.epoch_seconds * (self.epochs - epoch)


@dataclass(frozen=True, kw_only=True)
class SubmissionStatus:
    """A submission and all of its jobs.

    Attributes:
        submission: The submission's id.
        manifest: The S3 URI of the manifest.
        batch_job: The id of the first Batch job; empty before it is submitted.
        batch_state: The state of the Batch job; empty if Batch no longer knows it.
        jobs: The jobs, in the order of the manifest.
        damaged: The items of the ledger, and lines and files of the submission, that cannot be read.
    """

    submission: str
    manifest: str
    batch_job: str
    batch_state: str
    jobs: list[JobStatus]
    damaged: list[Damaged] = field(default_factory=list)

    @property
    def ended(self) -> bool:
        """True if it was submitted, every job has ended, and its Batch job has ended."""
        jobs_ended = all(job.ended for job in self.jobs)
        return self.batch_job != "" and jobs_ended and self.batch_state in ("SUCCEEDED", "FAILED", "")


@dataclass(frozen=True, kw_only=True)
class ReadSubmission:
    """A submission as the ledger has it.

    Attributes:
        items: The opened jobs by index.
        cancels: The recorded cancels by scope.
        damaged: The jobs that cannot be read.
    """

    head: SubmissionItem
    items: Mapping[int, JobItem]
    cancels: Mapping[str, Cancel]
    damaged: Sequence[Damaged]

    @property
    def damaged_jobs(self) -> dict[int, Damaged]:
        """The damaged items of jobs by index."""
        return {part.index: part for part in self.damaged if part.index is not None}


# For at most this many jobs, Batch describes each child; for more, Batch only lists the children that have ended.
_ASKED_ABOUT_EACH = 500


def submission_status(
    submission: str, bucket: str, ledger: Ledger, children: Children, storage: Storage
) -> SubmissionStatus:
    """Return the current status of a submission.

    Args:
        bucket: The manifest bucket.
        children: Reads the Batch children.

    Raises:
        UsageError: The submission does not exist.
    """
    read = read_submission(ledger, submission)
    damaged = list[Damaged]()
    recorded_items = recorded_jobs(read, bucket, storage, damaged.append)
    current = _statuses_in_batch(read, recorded_items, children)
    return SubmissionStatus(
        submission=submission,
        manifest=read.head.manifest,
        batch_job=read.head.batch_job,
        batch_state=children.state(read.head),
        jobs=[job for _, job in sorted(current.items())],
        damaged=damaged,
    )


def read_submission(ledger: Ledger, submission: str) -> ReadSubmission:
    """Return a submission as the ledger has it.

    Raises:
        UsageError: The submission does not exist.
        ItemError: Its item cannot be read.
    """
    damaged = list[Damaged]()
    items = list(readable(ledger.items(submission), damaged.append))
    submission_item = next((item for item in items if isinstance(item, SubmissionItem)), None) or ledger.submission(
        submission
    )
    if submission_item is None:
        raise UnknownSubmissionError(submission)
    jobs = {item.index: item for item in items if isinstance(item, JobItem)}
    return ReadSubmission(head=submission_item, items=jobs, cancels=ledger.cancels(submission), damaged=damaged)


def recorded_jobs(
    read: ReadSubmission, bucket: str, storage: Storage, report: Callable[[Damaged], object]
) -> dict[int, JobStatus]:
    """Return the status of each job from the ledger, or from the submission for jobs that no child has opened.

    Args:
        bucket: The manifest bucket.
        report: Called with items, lines and files that cannot be read.
    """
    submission_item, damaged = read.head, [*read.damaged]
    statuses = {index: _from_item(item) for index, item in read.items.items()}
    if len(statuses) < submission_item.jobs:
        statuses = _unopened(bucket, submission_item, storage, damaged.append) | statuses
        if damaged:
            statuses |= _unreadable(submission_item, damaged, statuses)
    for part in damaged:
        report(part)
    return {index: _with_cancel(job, cancel_of(read.cancels, index, job.region)) for index, job in statuses.items()}


def _unreadable(
    submission_item: SubmissionItem, damaged: Sequence[Damaged], statuses: Mapping[int, JobStatus]
) -> dict[int, JobStatus]:
    """Return the status of jobs whose item is damaged, or that are neither in the ledger nor in the submission."""
    items = {part.index: part for part in damaged if not part.array_file and part.index is not None}
    lines = {part.index: part for part in damaged if part.array_file}
    unreadable_indices = (
        [index for index in range(submission_item.jobs) if index not in statuses]
        if submission_item.is_submitted
        else []
    )
    unreadable_jobs = {}
    for index in (*items, *unreadable_indices):
        part = items.get(index) or lines.get(index) or lines.get(None) or damaged[0]
        job = statuses.get(index) or JobStatus(index=index, region="", name=f"job {index}", state=JobState.PENDING)
        unreadable_jobs[index] = replace(job, phase=UNREADABLE, reason=part.sentence)
    return unreadable_jobs


def _with_cancel(job: JobStatus, cancel: Cancel | None) -> JobStatus:
    """Return a job with its cancel, whose reason is also that of a stopped job for which the ledger has none."""
    if cancel is None:
        return job
    return replace(job, cancelled=True, reason=cancel.reason_of(job.state, job.reason))


def _statuses_in_batch(
    read: ReadSubmission, recorded: Mapping[int, JobStatus], children: Children
) -> dict[int, JobStatus]:
    """Return the status of each job, with Batch's state of the children of jobs without training job."""
    submission_item, items, damaged = read.head, read.items, read.damaged_jobs
    waiting = {
        index: items.get(index)
        for index, job in recorded.items()
        if job.state in UNLAUNCHED_STATES and index not in damaged
    }
    if not waiting:
        return dict(recorded)
    child_by_index = children.of(submission_item, waiting, is_exact=len(waiting) <= _ASKED_ABOUT_EACH)
    state_by_index = {
        index: _with_batch_state(recorded[index], child, read.cancels)
        for index, child in child_by_index.items()
        if child.id
    }
    return {**recorded, **state_by_index}


def _from_item(item: JobItem) -> JobStatus:
    return JobStatus(
        index=item.index,
        region=item.region,
        name=item.name,
        state=item.state,
        phase=item.phase,
        training_job=item.training_job,
        created=bool(item.training_job_arn),
        ranks=item.ranks,
        attempt=item.attempt,
        reason=item.reason,
        artifact=item.model,
        started_at=item.training_started_at,
        seconds=item.training_seconds,
        epochs=item.epochs,
        epoch_seconds=item.epoch_seconds,
        dollars=ended_dollars(item) + running_dollars(item, time.time()),
        metrics={**item.progress, **item.metrics},
        tried=tuple(f"{place(*attempt.candidate)} ({attempt.failure or attempt.state})" for attempt in item.tried),
        backend=item.backend,
    )


def _unopened(
    bucket: str, submission_item: SubmissionItem, storage: Storage, report: Callable[[Damaged], object]
) -> dict[int, JobStatus]:
    """Return all jobs as they were submitted, for jobs that no child has opened in the ledger."""
    return {
        job.index: JobStatus(
            index=job.index,
            region=job.region,
            backend=job.backends[0],
            name=job.name,
            state=JobState.PENDING,
            ranks=job.ranks,
        )
        for job in readable(submitted_jobs(storage, bucket, submission_item), report)
    }


def _with_batch_state(job: JobStatus, child: ChildStatus, cancels: Mapping[str, Cancel]) -> JobStatus:
    """Add Batch's state of the child to a job without a training job.

    A job with a failed child is not failed yet, because the child's last call may have created the training job.
    The reconciler determines this.
    """
    if child.status != "FAILED":
        return job if job.state == JobState.WAITING or child.is_gone else replace(job, phase=child.status)
    if job.cancelled:
        cancel = cancel_of(cancels, job.index, job.region)
        return replace(job, phase="FAILED", state=JobState.STOPPED, reason=cancel.sentence if cancel else "Cancelled")
    return replace(job, phase=CHILD_FAILED, reason=job.reason or child.reason)
