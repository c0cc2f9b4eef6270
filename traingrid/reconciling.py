"""The reconciler: closes what nobody watches any more, and stops what nobody wants. It creates nothing.

Children and events do all of this sooner. They may die, be dropped or come late; what they leave is found here by
comparing the ledger with SageMaker and Batch, every `SWEEP_SECONDS`. A sweep may be killed anywhere, run twice, or run
beside another: what it does is decided by conditional writes and by stops that may be repeated.

Order matters: what runs is read before the ledger, and a child writes into the ledger before it creates. So a training
job that runs and has no living line when the ledger is asked has none. What runs and is not wanted costs money, so it
is stopped before anything else is done; looking at lines, which may take longer than there is time, comes last.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache, partial
from itertools import chain
from typing import TYPE_CHECKING, Any, Self

from traingrid.backends.base import QUEUED
from traingrid.backends.queued import watching
from traingrid.batch import Batch
from traingrid.children import Children
from traingrid.clients import brisk
from traingrid.closing import Closer, Line
from traingrid.ledger import WAITING, Ledger, is_cancelled
from traingrid.queued_jobs import training_jobs_in
from traingrid.reach import Reach
from traingrid.rotation import rotated
from traingrid.s3_uri import S3Uri
from traingrid.storage import Storage
from traingrid.submission import chunks, jobs_key
from traingrid.submitted_jobs import submitted_jobs
from traingrid.sweep import Submission, Sweep, by_submission
from traingrid.training_jobs import ACTIVE_STATES, TrainingJobs
from traingrid.waits import SWEEP_SECONDS
from traingrid.world import elsewhere, owns

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping

    from traingrid.backends.base import Backend
    from traingrid.deployment import Deployment
    from traingrid.dynamodb import Item
    from traingrid.world import TrainingJob

GRACE_SECONDS = 120.0
"""Nothing is closed or stopped that is younger than this.

A child that dies may have sent a create that SageMaker has not answered yet (the client gives up after 10 s to connect
and 60 s to read, traingrid/clients.py), a training job just created may not be found yet, and a retry opens its lines
before its array exists (`retrying.SLICE_SECONDS`). Less than the time between two sweeps, so that the second one acts
at the latest.
"""


_FOR_LOOKING = 0.75
"""After this share of its time a sweep begins nothing new: what it has begun, and its report, take some time too."""
_FOR_LISTING = 0.5
"""After this share of its time a Region that still lists what runs there is too slow: what it has said must do."""


def at_once(work: Callable[[str], Any], regions: Collection[str]) -> Iterable[Any]:
    """Do something in all Regions at once, and return what came of it in their order."""
    with ThreadPoolExecutor(max(len(regions), 1)) as threads:
        return list(threads.map(work, regions))


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
        regions: The training Regions of the grid. Lines may be in others, which it once had.
        training_jobs: Gives the training jobs of a Region.
        backend: Gives the service of a Region.
        grace_seconds: See `GRACE_SECONDS`.
        in_regions: Does something in each Region.
    """

    grid: str
    bucket: str
    ledger: Ledger
    storage: Storage
    children: Children
    batch: Batch
    regions: Collection[str]
    training_jobs: Callable[[str], TrainingJobs]
    backend: Callable[[str], Backend]
    grace_seconds: float = GRACE_SECONDS
    in_regions: Callable[[Callable[[str], Any], Collection[str]], Iterable[Any]] = at_once

    @classmethod
    def of(cls, deployment: Deployment, grace_seconds: float = GRACE_SECONDS) -> Self:
        """Return the reconciler of a deployment."""
        grid, storage = deployment.grid, Storage(deployment.grid.home, brisk)
        return cls(
            grid=grid.name,
            bucket=deployment.manifest_bucket,
            ledger=Ledger(deployment.table, grid.home, brisk),
            storage=storage,
            children=Children(storage, deployment.manifest_bucket, grid.home, brisk),
            batch=Batch(deployment, grid.home, brisk),
            regions=list(grid.regions),
            training_jobs=cache(lambda region: training_jobs_in(deployment, region, brisk)),
            backend=cache(lambda region: watching(deployment, region, brisk)),
            grace_seconds=grace_seconds,
        )

    def sweep(self, within: float = math.inf) -> Sweep:
        """Look at everything once and put right what can be put right now.

        Args:
            within: Seconds after which the caller has ended, whatever happens. What there is no time for is left to the
                next sweeps, of which each begins elsewhere.

        Returns:
            What was done.

        Raises:
            UnreachedError: A Region or a submission could not be looked at. What could be done elsewhere is done.
        """
        done, began = Sweep(), time.time()
        reach, until, listed_by = (
            Reach(self.regions, done),
            began + within * _FOR_LOOKING,
            began + within * _FOR_LISTING,
        )
        active = self._active(self.regions, reach, listed_by)
        submissions = by_submission(self.ledger.everything())
        live = (item for submission in submissions.values() for item in submission.live.values())
        active += self._active(elsewhere(live, self.regions), reach, listed_by)
        done.running = len(active)
        live = (item for found in submissions.values() for item in found.live.values())
        done.lines = dict(Counter(WAITING if item.get("phase") == QUEUED else item["state"] for item in live))
        self._stop_unwanted(active, submissions, reach, until, done)
        self._look_after(submissions, {job.name for job in active}, reach, until, done)
        reach.raise_failures()
        return done

    def _active(self, regions: Collection[str], reach: Reach, until: float) -> list[TrainingJob]:
        """Return what runs in the Regions that answer."""
        for region in regions:
            with reach.of_region(region, whole=True):
                self.training_jobs(region)  # boto3 makes clients in one thread only
        asked = [region for region in regions if not reach.given_up(region)]
        return [job for found in self.in_regions(partial(self._listed, reach, until), asked) for job in found]

    def _listed(self, reach: Reach, until: float, region: str) -> list[TrainingJob]:
        found: list[TrainingJob] = []
        with reach.of_region(region, whole=True):
            for job in chain.from_iterable(map(self.training_jobs(region).listed, ACTIVE_STATES)):
                found.append(job)
                if time.time() >= until:
                    reach.too_slow(region, len(found))
                    break
        return found

    def _stop_unwanted(
        self,
        active: Iterable[TrainingJob],
        submissions: Mapping[str, Submission],
        reach: Reach,
        until: float,
        done: Sweep,
    ) -> None:
        for job in active:
            if time.time() >= until:
                return  # what is stopped by now is none of the next sweep's
            if reach.given_up(job.region):
                continue
            with reach.of_region(job.region):
                submission = submissions.get(job.line[0], Submission())
                if self._is_unwanted(job, submission) and self.training_jobs(job.region).stop(job.name):
                    done.stopped.append(job.name)

    def _look_after(
        self,
        submissions: Mapping[str, Submission],
        running: Container[str],
        reach: Reach,
        until: float,
        done: Sweep,
    ) -> None:
        """Ask Batch about all submissions for half of the time, and SageMaker about their lines for the rest."""
        sweep, lines, asking_until = int(time.time() // SWEEP_SECONDS), list[Line](), (time.time() + until) / 2
        for name, submission in rotated(submissions.items(), lambda entry: entry[0], sweep):
            if time.time() >= asking_until:
                done.left += len(submission.live) + len(submission.unopened)
                continue
            with reach.of_submission(name):
                self._adopt(submission, done)
                lines += self._lines(submission, running)
        for line in rotated(lines, lambda line: (line.submission, line.index), sweep):
            if line.item and reach.given_up(line.region):
                continue
            if time.time() >= until:
                done.left += 1
                continue
            with reach.of_region(line.region):
                self._closer.look_at(line, done)

    def _adopt(self, submission: Submission, done: Sweep) -> None:
        """Write down the Batch jobs of a submission whose intake died between submitting them and saying so."""
        head = submission.head
        if not head or head["state"] == "Submitted" or not self._closer.is_old(head):
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

    def _lines(self, submission: Submission, running: Container[str]) -> Iterator[Line]:
        """Yield the lines of a submission that may have to be closed."""
        asked: dict[int, Item | None] = {**submission.live, **dict.fromkeys(submission.unopened)}
        if not (asked and submission.head):
            return
        name, children = submission.head["submission"], self.children.of(submission.head, asked)
        for index, item in submission.live.items():
            if self._closer.is_worth_a_look(item, children[index], running):
                yield Line(
                    submission=name,
                    index=index,
                    region=item["region"],
                    child=children[index],
                    cancels=submission.cancels,
                    item=item,
                )
        left = {index for index in submission.unopened if self._closer.is_over(submission.head, children[index])}
        for job in submitted_jobs(self.storage, self.bucket, submission.head) if left else ():
            if job.index in left:
                yield Line(
                    submission=name,
                    index=job.index,
                    region=job.region,
                    child=children[job.index],
                    cancels=submission.cancels,
                    job=job,
                )

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
        return unwanted and job.state != "Stopping" and self.training_jobs(job.region).is_ours(job, item)

    @property
    def _closer(self) -> Closer:
        return Closer(grid=self.grid, ledger=self.ledger, backend=self.backend, grace_seconds=self.grace_seconds)
