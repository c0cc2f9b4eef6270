"""The reconciler: closes what nobody watches any more, and stops what nobody wants. It creates nothing.

Children and events do all of this sooner. They may die, be dropped or come late; what they leave is found here by
comparing the ledger with SageMaker and Batch, every `SWEEP_SECONDS`. A sweep may be killed anywhere, run twice, or run
beside another: what it does is decided by conditional writes and by stops that may be repeated.

Order matters: what runs is read before the ledger, and a child writes into the ledger before it creates. So a training
job that runs and has no living line when the ledger is asked has none.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Self

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.backends.sagemaker import SageMaker
from traingrid.batch import Batch
from traingrid.children import Children
from traingrid.errors import TraingridError
from traingrid.ledger import PENDING, WAITING, Ledger, epoch_seconds, is_cancelled, was_seen
from traingrid.ownership import conflict
from traingrid.recording import deleted, record_seen
from traingrid.s3_uri import S3Uri
from traingrid.storage import Storage
from traingrid.submission import chunks, jobs_key
from traingrid.submitted_jobs import submitted_jobs
from traingrid.sweep import Submission, Sweep, by_submission
from traingrid.training_jobs import ACTIVE_STATES, TrainingJobs
from traingrid.world import owns

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from traingrid.backends.base import Backend, Seen
    from traingrid.children import ChildStatus
    from traingrid.deployment import Deployment
    from traingrid.dynamodb import Item
    from traingrid.world import TrainingJob

GRACE_SECONDS = 120.0
"""Nothing is closed or stopped that is younger than this.

A child that dies may have sent a create that SageMaker has not answered yet (the client gives up after 10 s to connect
and 60 s to read, traingrid/clients.py), a training job just created may not be found yet, and a retry opens its lines
some seconds before its array exists. Less than the time between two sweeps, so that the second one acts at the latest.
"""


@dataclass(kw_only=True)
class Reconciler:
    """Looks after all submissions of a grid.

    Attributes:
        grid: The grid's name.
        bucket: The manifest bucket.
        ledger: The ledger.
        storage: Where the submissions lie.
        children: Batch's children.
        batch: The job queue; nothing is submitted to it.
        regions: The training jobs of each Region.
        backend: Gives the service of a Region.
        grace_seconds: See `GRACE_SECONDS`.
    """

    grid: str
    bucket: str
    ledger: Ledger
    storage: Storage
    children: Children
    batch: Batch
    regions: Mapping[str, TrainingJobs]
    backend: Callable[[str], Backend]
    grace_seconds: float = GRACE_SECONDS

    @classmethod
    def of(cls, deployment: Deployment, grace_seconds: float = GRACE_SECONDS) -> Self:
        """Return the reconciler of a deployment."""
        grid, storage = deployment.grid, Storage(deployment.grid.home)
        return cls(
            grid=grid.name,
            bucket=deployment.manifest_bucket,
            ledger=Ledger(deployment.table, grid.home),
            storage=storage,
            children=Children(storage, deployment.manifest_bucket, grid.home),
            batch=Batch(deployment, grid.home),
            regions={region: TrainingJobs(grid.name, region) for region in grid.regions},
            backend=cache(lambda region: SageMaker(deployment, region)),
            grace_seconds=grace_seconds,
        )

    def sweep(self) -> Sweep:
        """Look at everything once and put right what can be put right now.

        Returns:
            What was done.

        Raises:
            TraingridError: A Region did not answer. What could be done elsewhere is done.
        """
        done = Sweep()
        active = self._active(done)
        submissions = by_submission(self.ledger.everything())
        running = {job.name for job in active}
        for submission in submissions.values():
            self._adopt(submission, done)
            self._look_after(submission, running, done)
        for job in active:
            if self._is_unwanted(job, submissions[job.line[0]]) and self.regions[job.region].stop(job.name):
                done.stopped.append(job.name)
        if done.unreachable:
            text = "; ".join(f"{region}: {why}" for region, why in done.unreachable.items())
            raise TraingridError(f"Not all Regions answered: {text}.", "The next sweep asks them again.")
        return done

    def _active(self, done: Sweep) -> list[TrainingJob]:
        """Return what runs in the Regions that answer."""
        active: list[TrainingJob] = []
        for name, region in self.regions.items():
            try:
                active += [job for state in ACTIVE_STATES for job in region.listed(state=state)]
            except (BotoCoreError, ClientError) as error:
                done.unreachable[name] = str(error)
        return active

    def _adopt(self, submission: Submission, done: Sweep) -> None:
        """Write down the Batch jobs of a submission whose intake died between submitting them and saying so."""
        head = submission.head
        if not head or head["state"] == "Submitted" or not self._is_old(head):
            return
        sizes = chunks(head["jobs"])
        found = [self.batch.find(head["submission"], chunk) for chunk in range(len(sizes))]
        if all(found):
            jobs = [str(S3Uri(self.bucket, jobs_key(head["submission"], chunk))) for chunk in range(len(sizes))]
            made = [
                {"batch_job": job, "file": file, "count": count}
                for job, file, count in zip(found, jobs, sizes, strict=True)
            ]
            self.ledger.record_submitted(head["submission"], str(found[0]), made)
            done.recorded.append(head["submission"])

    def _look_after(self, submission: Submission, running: set[str], done: Sweep) -> None:
        asked: dict[int, Item | None] = {**submission.live, **dict.fromkeys(submission.unopened)}
        if not (asked and submission.head):
            return
        children = self.children.of(submission.head, asked)
        for index, item in submission.live.items():
            name = names.training_job(self.grid, item["submission"], index, item["attempt"])
            if item["region"] not in done.unreachable and self._is_worth_a_look(item, name, children[index], running):
                self._look_at(item, index, children[index], submission.cancels, done)
        left = {index for index in submission.unopened if self._is_over(submission.head, children[index])}
        for job in submitted_jobs(self.storage, self.bucket, submission.head) if left else ():
            if job.index in left:
                item = self.ledger.open_job(submission.head["submission"], job, job.regions)
                self._close(item, job.index, children[job.index], submission.cancels, done)

    def _is_worth_a_look(self, item: Item, name: str, child: ChildStatus, running: set[str]) -> bool:
        """Return whether SageMaker may know more of a line than the ledger; DescribeTrainingJob is throttled."""
        if item["state"] in (PENDING, WAITING):
            return name in running or item.get("training_job") == name or self._is_over(item, child)
        return name not in running

    def _look_at(self, item: Item, index: int, child: ChildStatus, cancels: Mapping[str, Item], done: Sweep) -> None:
        """Record what became of a line's training job, or close the line if there is none and never will be.

        While a child watches, what a failure leads to is its decision; once it is gone, a failure is the end.
        """
        name = names.training_job(self.grid, item["submission"], index, item["attempt"])
        backend = self.backend(item["region"])
        if record_seen(self.grid, self.ledger, backend, name, watched=not child.gone):
            done.recorded.append(name)
        elif self._is_over(item, child):
            seen = backend.describe(name)
            if seen:
                self._end_for_conflict(item, index, seen, backend.tags(seen), done)
            else:
                self._close(item, index, child, cancels, done)

    def _end_for_conflict(
        self, item: Item, index: int, seen: Seen, tags: Mapping[str, str] | None, done: Sweep
    ) -> None:
        """End a line whose child is gone and whose training job's name another one has."""
        name, wanted = (
            names.training_job(self.grid, item["submission"], index, item["attempt"]),
            item.get("fingerprint"),
        )
        if tags is None or (wanted and wanted in (seen.fingerprint, tags.get(names.TAG_FINGERPRINT))):
            return  # it is not known any more, or it is this line's own, and somebody else has just recorded it
        failure, reason = conflict(self.grid, tags, seen, wanted or "")
        facts = {"state": "Failed", "failure": failure.name, "reason": reason}
        if self.ledger.record_job(item["submission"], index, item["attempt"], facts):
            done.closed.append(name)

    def _is_over(self, item: Item, child: ChildStatus) -> bool:
        """Return whether a child is gone for so long that nothing of it can be on its way any more."""
        return child.gone and time.time() - child.ended_at >= self.grace_seconds and self._is_old(item)

    def _is_old(self, item: Item) -> bool:
        """Return whether nobody has written into an item for so long that it must have been forgotten."""
        times = [item.get(key) for key in ("updated_at", "opened_at", "submitted_at", "claimed_at")]
        return time.time() - max(epoch_seconds(at) for at in times if at) >= self.grace_seconds

    def _close(self, item: Item, index: int, child: ChildStatus, cancels: Mapping[str, Item], done: Sweep) -> None:
        """End a line that has no training job (any more) and will never get one."""
        submission, attempt = item["submission"], item["attempt"]
        if is_cancelled(cancels, index, item["region"]):
            facts = {"state": "Stopped", "reason": "It was cancelled before its training job was created."}
        elif was_seen(item):
            facts = deleted(names.training_job(self.grid, submission, index, attempt))
        else:
            why = item.get("reason") or child.reason or "it left no reason"
            who = f"Its Batch child {child.id} is {child.status}" if child.id else "It has no Batch child"
            facts = {"state": "Failed", "reason": f"{who}: {why}"}
        if self.ledger.record_job(submission, index, attempt, facts):
            done.closed.append(names.training_job(self.grid, submission, index, attempt))

    def _is_unwanted(self, job: TrainingJob, submission: Submission) -> bool:
        """Return whether a training job is cancelled, or nobody's, and ours to stop."""
        index = job.identity.index
        item = submission.live.get(index)
        if not owns(item, job):
            item = self.ledger.job(*job.line)  # what the sweep has read of it may be older than the training job
        if owns(item, job):
            unwanted = is_cancelled(submission.cancels, index, job.region)
        else:
            unwanted = time.time() - job.created_at >= self.grace_seconds
        return unwanted and job.state != "Stopping" and self.regions[job.region].is_ours(job, item)
