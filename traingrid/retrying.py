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
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import failures
from traingrid.batch import SubmitFailedError
from traingrid.children import arrays
from traingrid.clients import CALLS_AT_ONCE
from traingrid.errors import TraingridError
from traingrid.ledger import SUBMISSION, is_cancelled
from traingrid.mended_lines import mended_jobs
from traingrid.s3_uri import ObjectVersion, S3Uri
from traingrid.submission import MAX_ARRAY, index_uri, normalised, retry_key
from traingrid.submitted_jobs import retried_jobs, submitted_jobs
from traingrid.training_jobs import ACTIVE_STATES, TrainingJobs
from traingrid.world import is_by_hand

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from traingrid.batch import Batch
    from traingrid.deployment import Deployment
    from traingrid.dynamodb import Item
    from traingrid.job import Job
    from traingrid.ledger import Ledger
    from traingrid.manifest_line import Line
    from traingrid.storage import Storage

SLICE_SECONDS = 45.0
"""A slice is submitted once its first line has been open for so long.

Until its array is written down, an open line is one that everybody has forgotten, and the reconciler closes those after
`reconciling.GRACE_SECONDS`. The rest of them is for the array: SubmitJob alone may take 70 (traingrid/clients.py).
"""
# After these another Region of the line's own is worth more than the same one again.
_ELSEWHERE = {failures.CAPACITY.name, failures.SPOT_INTERRUPTION.name}
_KEPT = ("attempt", "region", "state", "failure", "reason", "training_job", "artifact", "billable_seconds")


@dataclass(frozen=True, kw_only=True)
class ToRetry:
    """What a retry is about to do; nothing is written yet.

    Attributes:
        submission: The submission.
        jobs: The jobs to try again, as they are to be, by index.
        ended: What the ledger knows of the jobs that failed or were stopped, by index.
        left: Why other failed, stopped or changed jobs are not tried again, by their index.
        changed: With a mended manifest: which fields of a job to try again its line has changed, by index.
    """

    submission: str
    jobs: Sequence[Job]
    ended: dict[int, Item]
    left: dict[int, str]
    changed: dict[int, tuple[str, ...]]


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
        at_once: How many lines are reopened at the same time.
    """

    deployment: Deployment
    ledger: Ledger
    storage: Storage
    batch: Batch
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
        head = self._head(submission)
        known = {item["item"]: item for item in self.ledger.items(submission) if item["item"] != SUBMISSION}
        ended = {_index(item): item for item in known.values() if item["state"] in ("Failed", "Stopped")}
        left = self._left(submission, ended)
        submitted = list(submitted_jobs(self.storage, self.deployment.manifest_bucket, head))
        jobs = {job.index: job for job in submitted}
        jobs |= retried_jobs(self.storage, self.deployment.manifest_bucket, head)
        changed = {}
        if lines is not None:
            mended = mended_jobs(lines, submitted, jobs, self.deployment, submission)
            changed = {index: one.fields for index, one in mended.items()}
            left |= {index: _not_ended(fields) for index, fields in changed.items() if index not in ended}
            left = {index: why for index, why in left.items() if index in changed}
            jobs = {index: one.job for index, one in mended.items()}
        wanted = [job for index, job in sorted(jobs.items()) if index in ended and index not in left]
        changed = {job.index: changed[job.index] for job in wanted if job.index in changed}
        return ToRetry(submission=submission, jobs=wanted, ended=ended, left=left, changed=changed)

    def run(self, todo: ToRetry, by: str, on_array: Callable[[str, int], None] = lambda *_: None) -> Retried:
        """Try jobs again.

        Args:
            todo: Which.
            by: Who wants it.
            on_array: Told the id of each Batch job as soon as it is submitted, and how many jobs it has.

        Raises:
            TraingridError: AWS has refused something, or does not answer. What was submitted until then goes on.
        """
        done = Retried(batch_jobs=[], indices=[], left=dict(todo.left))
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
            step = (
                "What was reopened for no child is closed by the reconciler within two sweeps (10 minutes). Then try "
            )
            raise TraingridError(text, f"{step}the rest: the same command again.") from error
        return done

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

    def _reopened(self, todo: ToRetry, number: int, job: Job) -> bool:
        """Move a job to its next attempt, for array `number`, unless somebody else was faster."""
        item = todo.ended[job.index]
        tried = {name: item[name] for name in _KEPT if name in item}
        elsewhere = item.get("failure") in _ELSEWHERE
        region = failures.next_region(job.regions, item["region"]) if elsewhere else item["region"]
        region = region if region in job.regions else job.region  # the changed line may be for other Regions
        return self.ledger.next_attempt(todo.submission, job.index, tried, region, reopen=f"retry-{number}")

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


def _not_ended(fields: Sequence[str]) -> str:
    changed = ", ".join(fields)
    return f"its line has changed ({changed}), but it has not failed; submit the line as a manifest of its own"
