"""What a submission's jobs are doing: the ledger's word, and AWS Batch's for jobs that it has not started yet."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from traingrid.errors import TraingridError
from traingrid.job import Job
from traingrid.ledger import FINAL_STATES, PENDING, SUBMISSION
from traingrid.s3_uri import S3Uri
from traingrid.submission import jobs_key

if TYPE_CHECKING:
    from traingrid.batch import Batch
    from traingrid.ledger import Item, Ledger
    from traingrid.storage import Storage


@dataclass(frozen=True, kw_only=True)
class JobStatus:
    """One job as a person sees it.

    Attributes:
        index: The array index.
        region: The training Region.
        name: What the user calls it.
        state: SageMaker's status; Pending before there is a training job.
        phase: SageMaker's secondary status, or Batch's status of the child before there is a training job.
        training_job: The training job's name; empty before there is one.
        ranks: The world size.
        attempt: Which attempt this is.
        reason: Why it failed, or why it cannot start yet.
        artifact: The S3 URI of the model.
        seconds: Seconds of training, once it has ended.
        metrics: Last value of each metric.
    """

    index: int
    region: str
    name: str
    state: str
    phase: str = ""
    training_job: str = ""
    ranks: int = 0
    attempt: int = 1
    reason: str = ""
    artifact: str = ""
    seconds: int = 0
    metrics: dict[str, float] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        """Whether it will never change again."""
        return self.state in FINAL_STATES


@dataclass(frozen=True, kw_only=True)
class SubmissionStatus:
    """A submission and all of its jobs, in the order of the manifest."""

    submission: str
    manifest: str
    batch_job: str
    batch_state: str
    jobs: list[JobStatus]

    @property
    def ended(self) -> bool:
        """Whether it was submitted, every job has ended, and Batch has seen that."""
        jobs_ended = all(job.ended for job in self.jobs)
        return self.batch_job != "" and jobs_ended and self.batch_state in ("SUCCEEDED", "FAILED", "")


def submission_status(submission: str, bucket: str, ledger: Ledger, batch: Batch, storage: Storage) -> SubmissionStatus:
    """Return what is known of a submission now.

    Args:
        submission: Its id.
        bucket: The manifest bucket.
        ledger: The ledger.
        batch: The job queue.
        storage: S3.

    Raises:
        TraingridError: There is no such submission.
    """
    items = {item["item"]: item for item in ledger.items(submission)}
    head = items.pop(SUBMISSION, None)
    if head is None:
        raise TraingridError(f"There is no submission {submission}.", "`traingrid status` lists those there are.")
    known = {int(key.partition("#")[2]): item for key, item in items.items()}
    batch_job = head.get("batch_job", "")
    described = batch.describe(batch_job) if batch_job else None
    statuses = {index: _from_item(index, item) for index, item in known.items()}
    if len(known) < head["jobs"] or any(job.state == PENDING for job in statuses.values()):
        children = _children(head, batch)
        if len(known) < head["jobs"]:
            statuses = _unopened(bucket, head, storage) | statuses
        statuses = {index: _as_batch_says(job, children.get(index)) for index, job in statuses.items()}
    return SubmissionStatus(
        submission=submission,
        manifest=head["manifest"],
        batch_job=batch_job,
        batch_state=described["status"] if described else "",
        jobs=[job for _, job in sorted(statuses.items())],
    )


def _from_item(index: int, item: Item) -> JobStatus:
    return JobStatus(
        index=index,
        region=item["region"],
        name=item["name"],
        state=item["state"],
        phase=item.get("phase", ""),
        training_job=item.get("training_job", ""),
        ranks=item.get("ranks", 0),
        attempt=item["attempt"],
        reason=item.get("reason", ""),
        artifact=item.get("artifact", ""),
        seconds=item.get("training_seconds", 0),
        metrics={**item.get("progress", {}), **item.get("metrics", {})},
    )


def _unopened(bucket: str, head: Item, storage: Storage) -> dict[int, JobStatus]:
    """Return all jobs as they were submitted: what is known of one that no child has opened in the ledger.

    None of them where there is no such file: before the intake has written it, and where there was no intake because
    somebody gave Batch the manifest itself.
    """
    lines = storage.read_if_exists(S3Uri(bucket, jobs_key(head["submission"]))) or b""
    jobs = [Job.model_validate_json(line) for line in lines.splitlines()]
    return {
        job.index: JobStatus(index=job.index, region=job.region, name=job.name, state=PENDING, ranks=job.ranks)
        for job in jobs
    }


def _children(head: Item, batch: Batch) -> dict[int, dict[str, Any]]:
    if not head.get("batch_job"):
        return {}
    children = batch.children(head["batch_job"], head["jobs"])
    return {int(child["jobId"].partition(":")[2] or 0): child for child in children}


def _as_batch_says(job: JobStatus, child: dict[str, Any] | None) -> JobStatus:
    """Add what Batch says of a job that has no training job yet. If its child failed, it will never have one."""
    if job.state != PENDING or child is None:
        return job
    if child["status"] != "FAILED":
        return replace(job, phase=child["status"])
    return replace(job, phase="FAILED", state="Failed", reason=job.reason or child.get("statusReason", ""))
