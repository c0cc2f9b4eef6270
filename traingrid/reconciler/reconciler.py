"""Reconciler: closes lines that no child watches, and stops orphaned and cancelled training jobs. It creates nothing.

Children and events normally do this work sooner. But children may die, and events may be lost or late. So a pass
compares the ledger with SageMaker and Batch every `PASS_SECONDS`. A pass may be interrupted, repeated or run
concurrently with another: it acts only by conditional writes and by stop requests, which may be repeated.

The order of the steps matters. A pass reads the open submissions first, because the oldest of their lines decides how
far back it lists training jobs. A child writes to the ledger before it creates a training job, and a listed training
job without an open line among them is looked up again. So one without an open line then has none. An unwanted
training job costs money, so the pass stops those first, and then those of submissions that have reached their budgets.
It checks the lines last, because that may take longer than the time limit.
"""

from __future__ import annotations

import math
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, partial
from typing import TYPE_CHECKING, Any, Self

from traingrid.aws.batch import Batch
from traingrid.aws.clients import brisk
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.aws.sns import Topic
from traingrid.backends import describing, inventory_of
from traingrid.backends.inventory import ACTIVE_STATES, LONGEST_ACTIVE_SECONDS, ListingTimeoutError, Window
from traingrid.backends.joint_inventory import PartlyListedError
from traingrid.backends.training_job import is_ours, is_superseded, owns
from traingrid.backoff import PASS_SECONDS
from traingrid.job.backend_traits import DEFAULT_BACKEND
from traingrid.job.observed import QUEUED
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.damage import Damaged, readable
from traingrid.ledger.items import elsewhere
from traingrid.ledger.ledger import Ledger, cancel_of, is_cancelled
from traingrid.ledger.submission_item import Array
from traingrid.ledger.submissions import SubmissionState
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.reconciler.budgets import Budgets
from traingrid.reconciler.line_closer import Closer, UnendedLine
from traingrid.reconciler.notifications import Notifier
from traingrid.reconciler.open_work import OpenWork, listed_since
from traingrid.reconciler.pass_order import rotated
from traingrid.reconciler.pass_report import PassReport
from traingrid.reconciler.reach import Reach
from traingrid.submission.batch_children import Children
from traingrid.submission.files import chunks, jobs_key
from traingrid.submission.submitted_jobs import submitted_jobs
from traingrid.threads import in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping

    from traingrid.backends.inventory import Inventory
    from traingrid.backends.training_job import TrainingJob
    from traingrid.grid.deployment import Deployment
    from traingrid.job.backend_traits import BackendName
    from traingrid.job.facts import JobFacts
    from traingrid.job.observed import Describer
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.ledger.user_requests import Cancel
    from traingrid.submission.batch_children import ChildStatus

GRACE_SECONDS = 120.0
"""The minimum age of a line that the reconciler closes, and of a training job without a line that it stops.

A dead child may have sent a create request that SageMaker has not answered (the client's timeouts are 10 s to connect
and 60 s to read, traingrid/aws/clients.py). A new training job may not be visible yet. A retry opens its lines before
its array exists (`retry.SLICE_SECONDS`). The value is less than the interval between two passes, so that the second
pass acts at the latest.
"""


_FOR_LOOKING = 0.75
"""After this fraction of its time a pass starts no new work, to leave time for the work in progress and its report."""
_TRAINING_JOB = ":training-job/"
_FOR_SCANNING = 0.1
"""After this fraction of its time a pass leaves the rest of the daily scan over the ledger to the next pass."""
_FOR_READING = 0.25
"""After this fraction of its time a pass reads no more submissions; it stops training jobs of those that it has."""
_FOR_LISTING = 0.5
"""After this fraction of its time a pass stops listing training jobs in a Region and uses those listed so far."""


def at_once(work: Callable[[str], Any], regions: Collection[str]) -> Iterable[Any]:
    """Call a function for all Regions concurrently, and return the results in the order of the Regions."""
    return in_order(work, regions, len(regions))


@dataclass(kw_only=True)
class Reconciler:
    """Reconciles all submissions of a grid.

    Attributes:
        bucket: The manifest bucket.
        batch: The job queue; the reconciler submits nothing to it.
        regions: The training Regions of the grid. Lines may be in other Regions that have left the grid.
        backend: Returns the service of a Region.
        notifications: Publishes events of submissions; None if the grid has no notifications.
        in_regions: Calls a function for each Region.
    """

    grid: str
    bucket: str
    ledger: Ledger
    storage: Storage
    children: Children
    batch: Batch
    regions: Collection[str]
    inventory: Callable[[str], Inventory]
    backend: Callable[[str, BackendName], Describer]
    notifications: Notifier | None = None
    grace_seconds: float = GRACE_SECONDS
    in_regions: Callable[[Callable[[str], Any], Collection[str]], Iterable[Any]] = at_once

    @classmethod
    def of(cls, deployment: Deployment, grace_seconds: float = GRACE_SECONDS) -> Self:
        """Return the reconciler of a deployment."""
        grid, storage = deployment.grid, Storage(deployment.grid.home, brisk)
        ledger = Ledger(deployment.table, grid.home, brisk)
        return cls(
            grid=grid.name,
            bucket=deployment.manifest_bucket,
            ledger=ledger,
            storage=storage,
            children=Children(storage, deployment.manifest_bucket, grid.home, brisk),
            batch=Batch(deployment, grid.home, brisk),
            regions=list(grid.regions),
            inventory=cache(lambda region: inventory_of(deployment, region, brisk)),
            backend=cache(lambda region, backend: describing(deployment, region, backend, brisk)),
            notifications=_notifications(deployment, ledger),
            grace_seconds=grace_seconds,
        )

    def run_pass(self, within: float = math.inf) -> PassReport:
        """Compare the ledger with SageMaker and Batch once, and correct differences.

        Args:
            within: The seconds after which the caller is terminated. Work without time is left to the next passes,
                each of which starts at another line.

        Returns:
            What the pass did.

        Raises:
            UnreachedError: A Region or a submission could not be processed. All others were.
        """
        done, began = PassReport(), time.time()
        reach, until, listed_by = (
            Reach(self.regions, done),
            began + within * _FOR_LOOKING,
            began + within * _FOR_LISTING,
        )
        work = OpenWork(ledger=self.ledger, notifies=self.notifications is not None)
        work.continue_scan(began + within * _FOR_SCANNING, reach, done)
        submissions, marks = work.read(began + within * _FOR_READING, reach)
        is_whole = len(submissions) == len(marks)
        since = listed_since(submissions.values(), began) if is_whole else began - LONGEST_ACTIVE_SECONDS
        active = self._active(self.regions, reach, since, listed_by)
        for part in (part for submission in submissions.values() for part in submission.damaged):
            reach.damaged(part)
        live = [item for submission in submissions.values() for item in submission.live.values()]
        active += self._active(elsewhere(live, self.regions), reach, since, listed_by)
        done.running = len(active)
        done.lines = dict(Counter(JobState.WAITING if item.phase == QUEUED else item.state for item in live))
        self._stop_unwanted(active, submissions, reach, until, done)
        running = {job.name for job in active}
        self._budgets.enforce(submissions, running, reach, done)
        over = [job for job in active if job.identity.submission in done.over_budget]
        self._stop_unwanted(over, submissions, reach, until, done)
        self._complete_stops(active, reach, until)
        if self.notifications:
            self.notifications.send(submissions, until, done)
        self._look_after(submissions, running, reach, until, done)
        self._release(reach, until, done)
        self._stop_older(submissions, reach, since, until, done)
        work.settle(submissions, marks, until)
        reach.raise_failures()
        return done

    def _active(self, regions: Collection[str], reach: Reach, since: float, until: float) -> list[TrainingJob]:
        """Return the active training jobs of the Regions that answer, those that were created since a time."""
        for region in regions:
            with reach.of_region(region, is_whole=True):
                self.inventory(region)  # creates the clients; boto3 cannot do that in several threads
        reached_regions = [region for region in regions if not reach.given_up(region)]
        return [
            job
            for listed in self.in_regions(partial(self._listed, reach, since, until), reached_regions)
            for job in listed
        ]

    def _listed(self, reach: Reach, since: float, until: float, region: str) -> list[TrainingJob]:
        training_jobs: list[TrainingJob] = []
        with reach.of_region(region, is_whole=True):
            for state in ACTIVE_STATES:
                try:
                    for job in self.inventory(region).listed(state, window=Window(since=since, until=until)):
                        training_jobs.append(job)
                        if job.damaged:
                            reach.damaged(job.damaged)
                        if time.time() >= until:
                            reach.too_slow(region, len(training_jobs))
                            return training_jobs
                except ListingTimeoutError:
                    reach.too_slow(region, len(training_jobs))
                    return training_jobs
                except PartlyListedError as error:
                    with reach.of_region(reach.place(region, error.backend), is_whole=True):
                        raise
        return training_jobs

    def _stop_older(
        self, submissions: Mapping[str, SubmissionState], reach: Reach, since: float, until: float, done: PassReport
    ) -> None:
        """Stop unwanted training jobs that are older than those that each pass lists, as a part of the daily scan.

        A list by state has no position at which the next pass could continue, so all of them are listed.
        """
        progress, oldest = self.ledger.history_scan(), time.time() - LONGEST_ACTIVE_SECONDS
        listed = dict(progress.listed)
        for region in self.regions:
            before = listed.get(region, int(since))
            if before <= oldest or time.time() >= until or reach.given_up(region):
                continue
            older: list[TrainingJob] = []
            with reach.of_region(region), suppress(ListingTimeoutError, PartlyListedError):
                for job in self.inventory(region).listed(window=Window(since=oldest, before=before, until=until)):
                    if _TRAINING_JOB in job.arn:
                        listed[region] = min(int(job.created_at) + 1, before)
                    if job.active:
                        older.append(job)
                listed[region] = int(oldest)
            self._stop_unwanted(older, submissions, reach, until, done)
        if listed != progress.listed:
            self.ledger.record_history_scan(replace(progress, listed=listed))

    def _stop_unwanted(
        self,
        active: Iterable[TrainingJob],
        submissions: Mapping[str, SubmissionState],
        reach: Reach,
        until: float,
        done: PassReport,
    ) -> None:
        for job in active:
            if time.time() >= until:
                return  # the next pass stops the rest
            place = reach.place(job.region, job.backend)
            if reach.given_up(place):
                continue
            with reach.of_region(place):
                submission = submissions.get(job.line[0], SubmissionState())
                if self._is_unwanted(job, submission) and self.inventory(job.region).stop(job):
                    done.stopped.append(job.name)
                    self._record_why(job, submission)

    def _complete_stops(self, active: Iterable[TrainingJob], reach: Reach, until: float) -> None:
        """Complete the stops of training jobs, and stop those that wait for a failed host."""
        for job in active:
            place, is_asked = reach.place(job.region, job.backend), job.may_hang or job.state == JobState.STOPPING
            if is_asked and time.time() < until and not reach.given_up(place):
                with reach.of_region(place):
                    self.inventory(job.region).complete_stop(job)

    def _release(self, reach: Reach, until: float, done: PassReport) -> None:
        """Release ended training jobs that their service keeps until their ends are recorded."""
        for region in self.regions:
            place = reach.place(region, "eks")  # SageMaker releases nothing
            if reach.given_up(place):
                continue
            with reach.of_region(place):
                inventory = self.inventory(region)
                for job in inventory.ended():
                    if time.time() >= until:
                        return  # the next pass releases the rest
                    if self._is_settled(job) and inventory.release(job):
                        done.released.append(job.name)

    def _is_settled(self, job: TrainingJob) -> bool:
        """Return True if an ended training job is recorded, and no request to create it can be in flight.

        Another attempt begins after the end of the previous one is recorded. The end of an orphan, which the ledger
        does not have, is never recorded.
        """
        now, item = time.time(), self.ledger.look_up(*job.line)
        if isinstance(item, Damaged):
            return False  # its end may not be recorded
        if now - (job.ended_at or job.created_at) < self.grace_seconds:
            return False
        if item is None or (item.attempt, item.backend) != (job.identity.attempt, job.backend):
            return item is None or now - epoch_seconds(item.opened_at) >= self.grace_seconds
        return item.state in FINAL_STATES and self._closer.is_old(item)

    def _record_why(self, job: TrainingJob, submission: SubmissionState) -> None:
        """Record the reason of a cancel in the item of the job whose training job was stopped for it."""
        item = submission.live.get(job.identity.index)
        cancel = cancel_of(submission.cancels, job.identity.index, job.region)
        if item and owns(item, job) and cancel:
            stopping: JobFacts = {"state": JobState.STOPPING, "phase": "Stopping", "reason": cancel.while_stopping}
            self.ledger.record_job(item.key, stopping)

    def _look_after(
        self,
        submissions: Mapping[str, SubmissionState],
        running: Container[str],
        reach: Reach,
        until: float,
        done: PassReport,
    ) -> None:
        """Query Batch about all submissions for half of the time, and SageMaker about their lines for the rest."""
        pass_number, lines, asking_until = (
            int(time.time() // PASS_SECONDS),
            list[UnendedLine](),
            (time.time() + until) / 2,
        )
        for name, submission in rotated(submissions.items(), lambda entry: entry[0], pass_number):
            if time.time() >= asking_until:
                done.left += len(submission.live) + len(submission.unopened)
                continue
            with reach.of_submission(name):
                self._adopt(submission, done)
                lines += self._lines(submission, running, reach)
        for line in rotated(lines, lambda line: (line.submission, line.index), pass_number):
            place = reach.place(line.region, line.item.backend if line.item else DEFAULT_BACKEND)
            if line.item and reach.given_up(place):
                continue
            if time.time() >= until:
                done.left += 1
                continue
            with reach.of_region(place):
                self._closer.look_at(line, done)

    def _adopt(self, submission: SubmissionState, done: PassReport) -> None:
        """Record the Batch jobs of a submission whose intake died between submitting and recording them."""
        submission_item = submission.head
        if not submission_item or submission_item.is_submitted or not self._closer.is_old(submission_item):
            return
        sizes = chunks(submission_item.jobs)
        batch_jobs = [self.batch.find(submission_item.submission, chunk) for chunk in range(len(sizes))]
        if all(batch_jobs):
            jobs = [str(S3Uri(self.bucket, jobs_key(submission_item.submission, chunk))) for chunk in range(len(sizes))]
            arrays = [
                Array(batch_job=str(job), file=file, count=count)
                for job, file, count in zip(batch_jobs, jobs, sizes, strict=True)
            ]
            self.ledger.record_submitted(submission_item.submission, str(batch_jobs[0]), arrays)
            done.recorded.append(submission_item.submission)

    def _lines(self, submission: SubmissionState, running: Container[str], reach: Reach) -> Iterator[UnendedLine]:
        """Yield the lines of a submission that the pass must check."""
        item_by_index: dict[int, JobItem | None] = {**submission.live, **dict.fromkeys(submission.unopened)}
        if not (item_by_index and submission.head):
            return
        name, children = submission.head.submission, self.children.of(submission.head, item_by_index)
        for index, item in submission.live.items():
            if self._closer.is_worth_a_look(item, children[index], running):
                yield UnendedLine(
                    submission=name,
                    index=index,
                    region=item.region,
                    child=children[index],
                    cancels=submission.cancels,
                    item=item,
                )
        left = {index for index in submission.unopened if self._closer.is_over(submission.head, children[index])}
        if left and not submission.head.is_by_hand:
            yield from self._unopened_lines(submission.head, left, children, submission.cancels, reach)

    def _unopened_lines(
        self,
        submission_item: SubmissionItem,
        left: Collection[int],
        children: Mapping[int, ChildStatus],
        cancels: Mapping[str, Cancel],
        reach: Reach,
    ) -> Iterator[UnendedLine]:
        """Yield lines that no child has opened or will open; those that the submission's files lack, without job."""
        damaged: list[Damaged] = []
        submitted = readable(submitted_jobs(self.storage, self.bucket, submission_item), damaged.append)
        jobs = {job.index: job for job in submitted if job.index in left}
        for part in damaged:
            reach.damaged(part)
        lost = {part.index: part for part in damaged}
        for index in sorted(left):
            job, why = jobs.get(index), lost.get(index) or lost.get(None)
            if job or why:
                yield UnendedLine(
                    submission=submission_item.submission,
                    index=index,
                    region=job.region if job else "",
                    child=children[index],
                    cancels=cancels,
                    job=job,
                    lost=why.sentence if why and not job else "",
                )

    def _is_unwanted(self, job: TrainingJob, submission: SubmissionState) -> bool:
        """Return True if a training job of this grid is cancelled or orphaned, and must be stopped."""
        index = job.identity.index
        item = submission.live.get(index)
        if not owns(item, job):
            current = self.ledger.look_up(*job.line)  # the pass's copy may be older than the training job
            if isinstance(current, Damaged):  # its line may own it, so only a cancel stops it
                unwanted = is_cancelled(submission.cancels, index, job.region) and job.state != "Stopping"
                return unwanted and is_ours(self.inventory(job.region), job, None)
            item = current
        if owns(item, job):
            unwanted = is_cancelled(submission.cancels, index, job.region)
        elif is_superseded(item, job):
            unwanted = True  # at once: no later write can make it the line's again, however young it is
        else:
            unwanted = time.time() - job.created_at >= self.grace_seconds
        return unwanted and job.state != "Stopping" and is_ours(self.inventory(job.region), job, item)

    @property
    def _budgets(self) -> Budgets:
        return Budgets(grid=self.grid, ledger=self.ledger, backend=self.backend)

    @property
    def _closer(self) -> Closer:
        return Closer(grid=self.grid, ledger=self.ledger, backend=self.backend, grace_seconds=self.grace_seconds)


def _notifications(deployment: Deployment, ledger: Ledger) -> Notifier | None:
    """Return the notifications of a deployment, or None if its grid has none."""
    if not deployment.topic:
        return None
    topic, grid = Topic(deployment.topic, brisk), deployment.grid
    return Notifier(
        grid=grid.name,
        home=grid.home,
        ledger=ledger,
        publish=lambda message: topic.publish(message.subject, message.email(), message.event()),
    )
