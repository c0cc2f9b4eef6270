"""Retrying: a person wants the jobs of a submission that failed or were stopped to be tried once more.

Each job is moved to its next attempt by one conditional write, so of two people who retry at once one gets it. Then one
array is submitted for the jobs that were got, over a file of exactly their lines. Whoever dies in between leaves jobs
that wait for nobody; the reconciler closes them, and they can be retried again.
"""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid import failures
from traingrid.children import arrays
from traingrid.errors import TraingridError, UsageError
from traingrid.ledger import SUBMISSION, is_cancelled
from traingrid.manifest_line import iter_jobs
from traingrid.s3_uri import ObjectVersion, S3Uri
from traingrid.submission import MAX_ARRAY, array_file, index_uri, normalised, retry_key
from traingrid.submitted_jobs import latest_jobs
from traingrid.training_jobs import ACTIVE_STATES, TrainingJobs
from traingrid.world import is_by_hand

if TYPE_CHECKING:
    from collections.abc import Sequence

    from traingrid.batch import Batch
    from traingrid.deployment import Deployment
    from traingrid.dynamodb import Item
    from traingrid.job import Job
    from traingrid.ledger import Ledger
    from traingrid.manifest_line import Line
    from traingrid.storage import Storage

# After these another Region of the line's own is worth more than the same one again.
_ELSEWHERE = {failures.CAPACITY.name, failures.SPOT_INTERRUPTION.name}
_NOT_ENDED = "its line has changed, but it has not failed; submit the line as a manifest of its own"
# Not of the line's making: where it stands, and what a version of this program asks for beside it.
_NO_CHANGE = ("line", "tensorboard")
_KEPT = ("attempt", "region", "state", "failure", "reason", "training_job", "artifact", "billable_seconds")


@dataclass(frozen=True, kw_only=True)
class Retried:
    """What came of a retry.

    Attributes:
        batch_jobs: The ids of the new Batch jobs.
        indices: The jobs that are tried again.
        left: Why other failed or stopped jobs are not, by their index.
    """

    batch_jobs: list[str]
    indices: list[int]
    left: dict[int, str]


@dataclass(frozen=True, kw_only=True)
class Retrier:
    """Retries jobs of a deployment.

    Attributes:
        deployment: The grid.
        ledger: The ledger.
        storage: Where a submission's lines lie.
        batch: Where they are submitted.
    """

    deployment: Deployment
    ledger: Ledger
    storage: Storage
    batch: Batch

    def retry(self, submission: str, by: str, lines: Sequence[Line] | None = None) -> Retried:
        """Try again what failed or was stopped.

        Args:
            submission: The submission's id.
            by: Who wants it.
            lines: The submission's manifest as it should have been; then only what it has changed is tried again. All
                that failed or was stopped, as it was, where none is given.

        Raises:
            TraingridError: There is no such submission, it is not submitted yet, or no intake has written its lines.
            UsageError: The changed manifest has more or fewer lines.
        """
        head = self._head(submission)
        known = {item["item"]: item for item in self.ledger.items(submission) if item["item"] != SUBMISSION}
        ended = {_index(item): item for item in known.values() if item["state"] in ("Failed", "Stopped")}
        left = self._left(submission, ended)
        jobs = latest_jobs(self.storage, self.deployment.manifest_bucket, head)
        if lines is not None:
            changed = self._changed(submission, jobs, lines)
            left |= dict.fromkeys(changed.keys() - ended.keys(), _NOT_ENDED)
            left = {index: why for index, why in left.items() if index in changed}
            jobs = changed
        wanted = [job for index, job in sorted(jobs.items()) if index in ended and index not in left]
        batch_jobs, retried = [], []
        for start in range(0, len(wanted), MAX_ARRAY):
            chunk = wanted[start : start + MAX_ARRAY]
            number = self.ledger.claim_retry(submission, {"by": by})
            got = [job for job in chunk if self._reopened(submission, job, ended[job.index], number)]
            left |= {job.index: "somebody else retries it" for job in chunk if job not in got}
            if got:
                batch_jobs.append(self._submit(submission, number, got))
                retried += [job.index for job in got]
        return Retried(batch_jobs=batch_jobs, indices=retried, left=left)

    def _head(self, submission: str) -> Item:
        head = self.ledger.submission(submission)
        if head is None:
            text = f"There is no submission {submission}."
            raise TraingridError(text, "`traingrid status` lists those there are.")
        if is_by_hand(head):
            text = f"Submission {submission} was given to Batch by hand; no lines of it are kept."
            raise TraingridError(text, "Submit its manifest: traingrid submit.")
        if not arrays(head):
            raise TraingridError(f"Submission {submission} is being submitted.", "Try again in a minute.")
        return head

    def _changed(self, submission: str, jobs: dict[int, Job], lines: Sequence[Line]) -> dict[int, Job]:
        """Return the jobs that a changed manifest makes something else of; where a line stands in it is no change."""
        if len(lines) != len(jobs):
            text = f"The manifest has {len(lines)} lines and submission {submission} has {len(jobs)} jobs."
            raise UsageError(text, "Submit new lines as a manifest of their own: traingrid submit.")
        return {
            job.index: job
            for job in iter_jobs(lines, self.deployment, submission)
            if job.model_copy(update={name: getattr(jobs[job.index], name) for name in _NO_CHANGE}) != jobs[job.index]
        }

    def _left(self, submission: str, ended: dict[int, Item]) -> dict[int, str]:
        """Return the jobs that must not be tried again, and why."""
        cancels = self.ledger.cancels(submission)
        running = self._running(submission)
        left = {}
        for index, item in ended.items():
            if is_cancelled(cancels, index, item["region"]):
                left[index] = "it was cancelled, which is for good; submit its line again"
            elif index in running:
                left[index] = f"its training job {running[index]} still runs; the reconciler stops it within minutes"
        return left

    def _running(self, submission: str) -> dict[int, str]:
        """Return the training jobs of a submission that run, whatever the ledger says of them."""
        grid = self.deployment.grid
        return {
            job.identity.index: job.name
            for region in grid.regions
            for state in ACTIVE_STATES
            for job in TrainingJobs(grid.name, region).listed(state=state, submission=submission)
        }

    def _reopened(self, submission: str, job: Job, item: Item, number: int) -> bool:
        """Move a job to its next attempt, which is for the children of this retry, unless somebody else was faster."""
        tried = {name: item[name] for name in _KEPT if name in item}
        elsewhere = item.get("failure") in _ELSEWHERE
        region = failures.next_region(job.regions, item["region"]) if elsewhere else item["region"]
        region = region if region in job.regions else job.region  # the changed line may be for other Regions
        file = array_file(retry_key(submission, number))
        return self.ledger.next_attempt(submission, job.index, tried, region, reopen=uuid.uuid4().hex, array_file=file)

    def _submit(self, submission: str, number: int, jobs: list[Job]) -> str:
        target = S3Uri(self.deployment.manifest_bucket, retry_key(submission, number))
        body, index = normalised(jobs)
        self.storage.write(index_uri(target), index, "application/octet-stream")
        version = self.storage.write(target, body, "application/jsonl")
        pinned = ObjectVersion(target.bucket, target.key, version)
        batch_job = self.batch.submit(submission, pinned, len(jobs), f"retry-{number}")
        self.ledger.record_array(submission, {"batch_job": batch_job, "file": str(pinned), "count": len(jobs)})
        return batch_job


def _index(item: Item) -> int:
    return int(item["item"].partition("#")[2])
