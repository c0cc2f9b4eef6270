"""Retrying: a person wants the jobs of a submission that failed or were stopped to be tried once more.

Each job is moved to its next attempt by one conditional write, so of two people who retry at once one gets it. Then an
array is submitted for the jobs that were got, over a file of exactly their lines. Whoever dies in between leaves jobs
that wait for nobody; the reconciler closes them, and they can be retried again. It would close those of many lines on a
slow network too, so they go in slices, each an array of its own.
"""

from __future__ import annotations

import time
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import failures
from traingrid.batch import SubmitFailedError
from traingrid.clients import CALLS_AT_ONCE
from traingrid.errors import TraingridError
from traingrid.ledger import index_of
from traingrid.retry_plan import RetryPlan
from traingrid.s3_uri import ObjectVersion, S3Uri
from traingrid.submission import MAX_ARRAY, array_file, index_uri, normalised, retry_key

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traingrid.batch import Batch
    from traingrid.children import Children
    from traingrid.deployment import Deployment
    from traingrid.job import Job
    from traingrid.ledger import Ledger
    from traingrid.manifest_line import Line
    from traingrid.retry_plan import ToRetry
    from traingrid.storage import Storage

SLICE_SECONDS = 45.0
"""A slice is submitted once its first line has been open for so long.

Until its array is written down, an open line is one that everybody has forgotten, and the reconciler closes those after
`reconciling.GRACE_SECONDS`. The rest of them is for the array: SubmitJob alone may take 70 (traingrid/clients.py).
"""
# After these another Region of the line's own is worth more than the same one again.
_ELSEWHERE = {failures.CAPACITY.name, failures.SPOT_INTERRUPTION.name}
_CLOSED = "it was closed before its Batch job was there: the network is slow, or the clock of this machine"
_KEPT = ("attempt", "region", "state", "failure", "reason", "training_job", "artifact", "billable_seconds")


@dataclass(frozen=True, kw_only=True)
class Retried:
    """What came of a retry.

    Attributes:
        batch_jobs: The ids of the new Batch jobs.
        indices: The jobs that are tried again.
        left: Why other failed or stopped jobs are not, by their index.
        late: Those of them that a later retry takes up.
    """

    batch_jobs: list[str]
    indices: list[int]
    left: dict[int, str]
    late: list[int]


@dataclass(frozen=True, kw_only=True)
class Retrier:
    """Retries jobs of a deployment.

    Attributes:
        deployment: The grid.
        ledger: The ledger.
        storage: Where a submission's lines lie.
        batch: Where they are submitted.
        children: What became of the children that they had.
        at_once: How many lines are reopened at the same time.
    """

    deployment: Deployment
    ledger: Ledger
    storage: Storage
    batch: Batch
    children: Children
    at_once: int = CALLS_AT_ONCE

    def retry(self, submission: str, by: str, lines: Sequence[Line] | None = None) -> Retried:
        """Try again what failed or was stopped: `run` what is `planned`."""
        return self.run(self.planned(submission, lines), by)

    def planned(self, submission: str, lines: Sequence[Line] | None = None) -> ToRetry:
        """Return what is to be tried again. Reads only.

        Args:
            submission: The submission's id.
            lines: The submission's manifest as it should have been; then only what it has changed is tried again. All
                that failed or was stopped, as it was, where none is given.

        Raises:
            TraingridError: There is no such submission, it is not submitted yet, or no intake has written its lines.
            UsageError: The mended manifest has more or fewer lines, or in another order.
        """
        plan = RetryPlan(deployment=self.deployment, ledger=self.ledger, storage=self.storage, children=self.children)
        return plan.of(submission, lines)

    def run(self, todo: ToRetry, by: str, on_array: Callable[[str, int], None] = lambda *_: None) -> Retried:
        """Try jobs again.

        Args:
            todo: Which.
            by: Who wants it.
            on_array: Told the id of each Batch job as soon as it is submitted, and how many jobs it has.

        Raises:
            TraingridError: AWS has refused something, or does not answer. What was submitted until then goes on.
        """
        done = Retried(batch_jobs=[], indices=[], left=dict(todo.left), late=list(todo.late))
        waiting = deque(todo.jobs)
        try:
            with ThreadPoolExecutor(self.at_once, thread_name_prefix="reopen") as pool:
                while waiting:
                    number = self.ledger.claim_retry(todo.submission, {"by": by})
                    got = self._reopened_slice(todo, number, waiting, pool, done)
                    if got:
                        done.batch_jobs.append(self._submit(todo.submission, number, got))
                        done.indices.extend(job.index for job in got)
                        on_array(done.batch_jobs[-1], len(got))
        except (SubmitFailedError, BotoCoreError, ClientError) as error:
            what = error.what if isinstance(error, SubmitFailedError) else f"AWS answers: {error}."
            text = f"{len(done.indices)} of {len(todo.jobs)} jobs are tried again, and then it broke off. {what}"
            step = "What was reopened for no child is closed by the reconciler within two sweeps (10 minutes)."
            raise TraingridError(text, f"{step} Then try the rest: the same command again.") from error
        return self._without_closed(todo.submission, done) if done.indices else done

    def _without_closed(self, submission: str, done: Retried) -> Retried:
        """Return what came of a retry, less the jobs that were closed before their array was there: no child failed."""
        ours = set(done.indices)
        failed = {
            index_of(item)
            for item in self.ledger.jobs(submission)
            if item["state"] == "Failed" and not item.get("training_job")
        }
        closed = sorted(failed & ours)
        return replace(
            done,
            indices=[index for index in done.indices if index not in failed],
            left=done.left | dict.fromkeys(closed, _CLOSED),
            late=[*done.late, *closed],
        )

    def _reopened_slice(
        self, todo: ToRetry, number: int, waiting: deque[Job], pool: ThreadPoolExecutor, done: Retried
    ) -> list[Job]:
        """Reopen waiting jobs for array `number`, until it is full or has to be submitted, and return what was got."""
        got: list[Job] = []
        began, tried = time.monotonic(), 0
        while waiting and tried < MAX_ARRAY and time.monotonic() - began < SLICE_SECONDS:
            some = [waiting.popleft() for _ in range(min(self.at_once, len(waiting), MAX_ARRAY - tried))]
            tried += len(some)
            for job, is_got in zip(some, pool.map(partial(self._reopened, todo, number), some), strict=True):
                if is_got:
                    got.append(job)
                else:
                    done.left[job.index] = "somebody else retries it"
        return got

    def _reopened(self, todo: ToRetry, number: int, job: Job) -> bool:
        """Move a job to its next attempt, for array `number`, unless somebody else was faster."""
        item = todo.ended[job.index]
        tried = {name: item[name] for name in _KEPT if name in item}
        elsewhere = item.get("failure") in _ELSEWHERE
        region = failures.next_region(job.regions, item["region"]) if elsewhere else item["region"]
        region = region if region in job.regions else job.region  # the changed line may be for other Regions
        file = array_file(retry_key(todo.submission, number))
        return self.ledger.next_attempt(
            todo.submission, job.index, tried, region, reopen=f"retry-{number}", array_file=file
        )

    def _submit(self, submission: str, number: int, jobs: list[Job]) -> str:
        target = S3Uri(self.deployment.manifest_bucket, retry_key(submission, number))
        body, index = normalised(jobs)
        self.storage.write(index_uri(target), index, "application/octet-stream")
        version = self.storage.write(target, body, "application/jsonl")
        pinned = ObjectVersion(target.bucket, target.key, version)
        again, first = f"retry-{number}", max(job.priority for job in jobs)
        batch_job = self.batch.submit(submission, pinned, len(jobs), again, share=jobs[0].share, priority=first)
        self.ledger.record_array(submission, {"batch_job": batch_job, "file": str(pinned), "count": len(jobs)})
        return batch_job
