"""Retrying: starts new attempts of a submission's failed and stopped jobs, at a user's request.

One conditional write moves each job to its next attempt, so that only one of two concurrent retries gets it. Then the
retry submits an array for the jobs that it got, with a file of their lines. If the retry dies in between, these jobs
have no child; the reconciler closes them, and they can be retried again. With many lines on a slow network, the
reconciler might close jobs of a live retry. So the jobs are retried in slices, each with a separate array.
"""

from __future__ import annotations

import logging
import time
from collections import deque
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.batch import SubmitFailedError
from traingrid.aws.clients import CALLS_AT_ONCE
from traingrid.aws.s3_uri import ObjectVersion, S3Uri
from traingrid.errors import TraingridError
from traingrid.job.backend_traits import DEFAULT_BACKEND
from traingrid.job.sizes import MAX_ARRAY
from traingrid.job.state import JobState
from traingrid.late_request import LateRequestError, late_after_minutes, refusing
from traingrid.ledger.damage import readable, warn
from traingrid.ledger.submission_item import Array
from traingrid.submission.files import array_file, index_uri, normalised, retry_key
from traingrid.submission.retry_plan import RetryPlan, retry_candidate
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traingrid.aws.batch import Batch
    from traingrid.aws.s3 import Storage
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.ledger.facts import AttemptFacts
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.ledger import Ledger
    from traingrid.manifest.line import Line
    from traingrid.submission.batch_children import Children
    from traingrid.submission.retry_plan import ToRetry

logger = logging.getLogger(__name__)
SLICE_SECONDS = 45.0
"""The time after which a slice is submitted, counted from its first line.

Until the array is recorded, an open line looks abandoned, and the reconciler closes abandoned lines after
`reconciler.GRACE_SECONDS`. The rest of that time is for the array: SubmitJob alone may take 70 s
(traingrid/aws/clients.py).
"""
_CLOSED = "it was closed before its Batch job existed, because the network or this machine's clock is slow"


@dataclass(frozen=True, kw_only=True)
class Retried:
    """The result of a retry.

    Attributes:
        batch_jobs: The ids of the new Batch jobs.
        indices: The indexes of the retried jobs.
        left: The reasons why other failed or stopped jobs were not retried, by index.
        late: The indexes in `left` that a later retry can retry.
    """

    batch_jobs: list[str]
    indices: list[int]
    left: dict[int, str]
    late: list[int]


@dataclass(frozen=True, kw_only=True)
class Retrier:
    """Retries jobs of a deployment.

    Attributes:
        storage: Reads and writes a submission's lines.
        children: Returns the states of the lines' Batch children.
        at_once: The number of lines that are reopened concurrently.
        region: The Region in which the jobs train next; by default the last one, or after a failure of capacity the
            next one.
    """

    deployment: Deployment
    ledger: Ledger
    storage: Storage
    batch: Batch
    children: Children
    at_once: int = CALLS_AT_ONCE
    region: str = ""

    def retry(self, submission: str, by: str, lines: Sequence[Line] | None = None, index: int | None = None) -> Retried:
        """Retry failed and stopped jobs: `run` the plan that `planned` returns."""
        return self.run(self.planned(submission, lines, index), by)

    def planned(self, submission: str, lines: Sequence[Line] | None = None, index: int | None = None) -> ToRetry:
        """Return the plan of a retry. Reads only.

        Args:
            lines: The lines of a corrected manifest; then only changed jobs are retried. Without it, all failed and
                stopped jobs are retried unchanged.
            index: The index of the only job to retry; by default all failed and stopped jobs.

        Raises:
            TraingridError: The submission does not exist, or is not submitted yet.
            UsageError: The corrected manifest has another number or order of lines, or the job of `index` does not
                exist, or has not failed or stopped, or no job to retry has its data in `region`.
        """
        plan = RetryPlan(deployment=self.deployment, ledger=self.ledger, storage=self.storage, children=self.children)
        todo = plan.of(submission, lines, index)
        return todo.in_region(self.region) if self.region else todo

    def run(self, todo: ToRetry, by: str, on_array: Callable[[str, int], None] = lambda *_: None) -> Retried:
        """Retry the jobs of a plan.

        Args:
            by: The user who requests the retry.
            on_array: Called with the id and the number of jobs of each Batch job as soon as it is submitted.

        Raises:
            TraingridError: AWS refused a request or did not answer. Jobs that were submitted before continue.
        """
        retried = Retried(batch_jobs=[], indices=[], left=dict(todo.left), late=list(todo.late))
        waiting = deque(todo.jobs)
        try:
            while waiting:
                is_late = late_after_minutes()
                number = self.ledger.claim_retry(todo.submission, {"by": by})
                reopen = partial(self._reopen, todo, number, is_late)
                reopened = self._reopened_slice(reopen, waiting, retried)
                if reopened:
                    retried.batch_jobs.append(self._submit(todo.submission, number, reopened))
                    retried.indices.extend(job.index for job in reopened)
                    on_array(retried.batch_jobs[-1], len(reopened))
        except (SubmitFailedError, LateRequestError, BotoCoreError, ClientError) as error:
            cause = error.what if isinstance(error, TraingridError) else f"AWS request failed: {error}."
            text = f"The retry was interrupted after {len(retried.indices)} of {len(todo.jobs)} jobs. {cause}"
            step = "The reconciler closes jobs without a child within two passes (10 minutes)."
            raise TraingridError(text, f"{step} Then run the same command again to retry the rest.") from error
        return self._drop_closed(todo.submission, retried) if retried.indices else retried

    def _drop_closed(self, submission: str, done: Retried) -> Retried:
        """Return the result of a retry without the jobs that the reconciler closed before their array existed."""
        # Without an array, no child can have failed a reopened job before its training job.
        failed_without_training_job = {
            item.index
            for item in readable(self.ledger.jobs(submission), warn)
            if item.state == JobState.FAILED and not item.training_job
        }
        closed = sorted(failed_without_training_job.intersection(done.indices))
        return replace(
            done,
            indices=[index for index in done.indices if index not in failed_without_training_job],
            left=done.left | dict.fromkeys(closed, _CLOSED),
            late=[*done.late, *closed],
        )

    def _reopened_slice(self, reopen: Callable[[Job], bool], waiting: deque[Job], done: Retried) -> list[Job]:
        """Reopen waiting jobs for an array until it is full or must be submitted, and return these jobs."""
        reopened: list[Job] = []
        began, attempted = time.monotonic(), 0
        while waiting and attempted < MAX_ARRAY and time.monotonic() - began < SLICE_SECONDS:
            some = [waiting.popleft() for _ in range(min(self.at_once, len(waiting), MAX_ARRAY - attempted))]
            attempted += len(some)
            are_reopened = map_in_order(reopen, some, self.at_once)
            for job, is_got in zip(some, are_reopened, strict=True):
                if is_got:
                    reopened.append(job)
                else:
                    done.left[job.index] = "another retry has started it"
        return reopened

    def _reopen(self, todo: ToRetry, number: int, is_late: Callable[[], bool], job: Job) -> bool:
        """Move a job to its next attempt, for array `number`; return False if another retry was faster.

        Raises:
            LateRequestError: The submission was marked as open so long ago that a pass may have removed the mark.
        """
        item = todo.ended[job.index]
        region, backend = retry_candidate(job, item, self.region)
        file = array_file(retry_key(todo.submission, number))
        outcome = outcome_of(item)
        with refusing(is_late):
            return self.ledger.next_attempt(
                item.key, outcome, region, reopen=f"retry-{number}", array_file=file, backend=backend
            )

    def _submit(self, submission: str, number: int, jobs: list[Job]) -> str:
        target = S3Uri(self.deployment.manifest_bucket, retry_key(submission, number))
        body, index = normalised(jobs)
        self.storage.write(index_uri(target), index, "application/octet-stream")
        version = self.storage.write(target, body, "application/jsonl")
        pinned = ObjectVersion(target.bucket, target.key, version)
        name = f"retry-{number}"
        priority = max(job.priority for job in jobs)
        batch_job = self.batch.submit(submission, pinned, len(jobs), name, share=jobs[0].share, priority=priority)
        logger.info("submitted %d jobs as Batch job %s", len(jobs), batch_job)
        self.ledger.record_array(submission, Array(batch_job=batch_job, file=str(pinned), count=len(jobs)))
        return batch_job


def outcome_of(item: JobItem) -> AttemptFacts:
    """Return the outcome of an ended attempt, without fields that the ledger does not have."""
    outcome: AttemptFacts = {"region": item.region, "state": item.state, "ended_at": item.updated_at}
    outcome = {**outcome, **item.checkpoint_facts}
    stored_item = item.stored
    if item.backend != DEFAULT_BACKEND:
        outcome["backend"] = item.backend
    if item.on_demand:
        outcome["on_demand"] = True
    if "failure" in stored_item:
        outcome["failure"] = item.failure
    if "reason" in stored_item:
        outcome["reason"] = item.reason
    if "training_job" in stored_item:
        outcome["training_job"] = item.training_job
    if "artifact" in stored_item:
        outcome["artifact"] = item.artifact
    if "billable_seconds" in stored_item:
        outcome["billable_seconds"] = item.billable_seconds
    return outcome
