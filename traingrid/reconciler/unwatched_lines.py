"""Unwatched lines: checks the lines of open submissions that no child watches, as far as there is time."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import TYPE_CHECKING

from traingrid.aws.s3_uri import S3Uri
from traingrid.backoff import PASS_SECONDS
from traingrid.job.backend_traits import DEFAULT_BACKEND
from traingrid.ledger.damage import Damaged, readable
from traingrid.ledger.submission_item import Array
from traingrid.reconciler.line_closer import UnendedLine
from traingrid.reconciler.pass_order import rotated
from traingrid.submission.files import chunks, jobs_key
from traingrid.submission.submitted_jobs import submitted_jobs

if TYPE_CHECKING:
    from collections.abc import Collection, Container, Iterator, Mapping

    from traingrid.aws.batch import Batch
    from traingrid.aws.s3 import Storage
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.ledger.submissions import SubmissionState
    from traingrid.ledger.user_requests import Cancel
    from traingrid.reconciler.line_closer import Closer
    from traingrid.reconciler.pass_report import PassReport
    from traingrid.reconciler.reach import Reach
    from traingrid.submission.batch_children import Children, ChildStatus


@dataclass(frozen=True, kw_only=True)
class UnwatchedLines:
    """The lines of the open submissions, as one pass checks them.

    Attributes:
        bucket: The manifest bucket.
        batch: The job queue; nothing is submitted to it.
        deadline: The time at which the pass starts no more work.
    """

    bucket: str
    ledger: Ledger
    storage: Storage
    children: Children
    batch: Batch
    closer: Closer
    reach: Reach
    deadline: float
    done: PassReport

    def look_after(self, submissions: Mapping[str, SubmissionState], running: Container[str]) -> None:
        """Query Batch about all submissions for half of the time, and SageMaker about their lines for the rest."""
        pass_number = int(time.time() // PASS_SECONDS)
        lines = list[UnendedLine]()
        asking_until = (time.time() + self.deadline) / 2
        for name, submission in rotated(submissions.items(), lambda entry: entry[0], pass_number):
            if time.time() >= asking_until:
                self.done.left += len(submission.live) + len(submission.unopened)
                continue
            with self.reach.record_submission_errors(name):
                self._adopt(submission)
                lines += self._lines(submission, running)
        for line in rotated(lines, lambda line: (line.submission, line.index), pass_number):
            label = self.reach.label(line.region, line.item.backend if line.item else DEFAULT_BACKEND)
            if line.item and self.reach.is_given_up(label):
                continue
            if time.time() >= self.deadline:
                self.done.left += 1
                continue
            with self.reach.record_errors(label):
                self.closer.look_at(line, self.done)

    def _adopt(self, submission: SubmissionState) -> None:
        """Record the Batch jobs of a submission whose intake died between submitting and recording them."""
        submission_item = submission.head
        if not submission_item or submission_item.is_submitted or not self.closer.is_old(submission_item):
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
            self.done.recorded.append(submission_item.submission)

    def _lines(self, submission: SubmissionState, running: Container[str]) -> Iterator[UnendedLine]:
        """Yield the lines of a submission that the pass must check."""
        item_by_index: dict[int, JobItem | None] = {**submission.live, **dict.fromkeys(submission.unopened)}
        if not (item_by_index and submission.head):
            return
        name = submission.head.submission
        children = self.children.of(submission.head, item_by_index)
        for index, item in submission.live.items():
            if self.closer.is_worth_a_look(item, children[index], running):
                yield UnendedLine(
                    submission=name,
                    index=index,
                    region=item.region,
                    child=children[index],
                    cancels=submission.cancels,
                    item=item,
                )
        unopened_indices = {
            index for index in submission.unopened if self.closer.is_over(submission.head, children[index])
        }
        if unopened_indices:
            yield from self._unopened_lines(submission.head, unopened_indices, children, submission.cancels)

    def _unopened_lines(
        self,
        submission_item: SubmissionItem,
        left: Collection[int],
        children: Mapping[int, ChildStatus],
        cancels: Mapping[str, Cancel],
    ) -> Iterator[UnendedLine]:
        """Yield lines that no child has opened or will open; those that the submission's files lack, without job."""
        damaged: list[Damaged] = []
        submitted = readable(submitted_jobs(self.storage, self.bucket, submission_item), damaged.append)
        jobs = {job.index: job for job in submitted if job.index in left}
        for part in damaged:
            self.reach.record_damage(part)
        damaged_by_index = {part.index: part for part in damaged}
        for index in sorted(left):
            job = jobs.get(index)
            reason = damaged_by_index.get(index) or damaged_by_index.get(None)
            if job or reason:
                yield UnendedLine(
                    submission=submission_item.submission,
                    index=index,
                    region=job.region if job else "",
                    child=children[index],
                    cancels=cancels,
                    job=job,
                    lost=reason.sentence if reason and not job else "",
                )
