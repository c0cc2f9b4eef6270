"""Cancel: records the intent, stops the training jobs, then terminates the Batch children.

The intent is recorded first, so that a crash between the steps cannot lose it. Children and the reconciler act on a
recorded intent: a child creates no cancelled training job and stops one that it has just created, and the reconciler
stops those that still run. Every step is therefore idempotent and can be repeated by any process.

Training jobs are stopped before the children because they cost money. This is safe: a child whose training job was
stopped reads the intent before it starts another attempt. A child that created a training job after they were listed
had sent its request before it could read the intent; it reads the intent after the creation and stops the job. Only a
child that was terminated in between does not. Training jobs are therefore stopped again after the children.

A child that watches a training job on Amazon EKS is not terminated. EKS sends no events, so the child records the end
as soon as no pod is left, and then ends itself. Without it the next pass would, minutes later.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.s3_uri import S3Uri
from traingrid.backends import inventory_of
from traingrid.backends.training_job import is_ours
from traingrid.errors import TraingridError, UsageError
from traingrid.job.backend_traits import TRAITS
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.damage import Damaged, readable
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.ledger.items import removed_regions
from traingrid.ledger.user_requests import CANCEL_ALL, cancel_of_job, cancel_of_region, is_cancelled
from traingrid.submission.files import jobs_key
from traingrid.submission.submitted_jobs import submitted_jobs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from traingrid.aws.s3 import Storage
    from traingrid.grid.deployment import Deployment
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.submission.batch_children import Children

_MAX_ERRORS = 20
"""After this many errors of one service the reconciler handles the rest, because each timeout takes minutes."""


@dataclass(frozen=True, kw_only=True)
class CancelTarget:
    """The jobs that a person asks to cancel.

    Attributes:
        index: If given, only the job with this index.
        region: If given, only the jobs that train, or would train next, in this Region.
        by: The person who cancels.
    """

    submission: str
    index: int | None = None
    region: str = ""
    by: str = ""
    reason: str = ""

    @property
    def scope(self) -> str:
        """The scope as the ledger records it."""
        if self.index is not None:
            return cancel_of_job(self.index)
        return cancel_of_region(self.region) if self.region else CANCEL_ALL

    def covers(self, index: int, region: str) -> bool:
        """Return True if the cancel includes a job."""
        return is_cancelled({self.scope}, index, region)


@dataclass(frozen=True, kw_only=True)
class CancelReport:
    """The jobs that a cancel stopped.

    Attributes:
        batch_jobs: The ids of terminated Batch jobs: arrays or children.
        training_jobs: The names of stopped training jobs.
        errors: The errors by the name of the operation's target: a Region, a training job or a Batch job.
    """

    batch_jobs: list[str] = field(default_factory=list)
    training_jobs: list[str] = field(default_factory=list)
    errors: dict[str, str] = field(default_factory=dict)

    def add_damage(self, part: Damaged) -> None:
        """Record a part of the submission that cannot be read."""
        self.errors[part.place] = f"{part.problem}. {part.next_step}"

    @contextmanager
    def noting(self, job: str) -> Iterator[None]:
        """Record an error of the block instead of raising it, because the reconciler retries; forget it on success."""
        try:
            yield
        except (TraingridError, BotoCoreError, ClientError) as error:
            self.errors[job] = str(error)
        else:
            self.errors.pop(job, None)


@dataclass(frozen=True, kw_only=True)
class Canceller:
    """Cancels jobs of a deployment.

    Attributes:
        ledger: The ledger that records the intent.
        storage: The storage with the jobs of submissions.
    """

    deployment: Deployment
    ledger: Ledger
    children: Children
    storage: Storage

    def cancel(self, target: CancelTarget) -> CancelReport:
        """Record the intent, and stop the jobs that it includes.

        Raises:
            UsageError: The submission, the job or the Region does not exist.
        """
        return self.end(self.record(target), target)

    def record(self, target: CancelTarget) -> SubmissionItem | None:
        """Record the intent, and return the submission's ledger item; None if a person has deleted it.

        Children write the items of their jobs again. From then on children and the
        reconciler end the jobs even if this process does not.

        Raises:
            UsageError: The submission, the job or the Region does not exist.
        """
        submission_item = self._checked_submission(target)
        self.ledger.request_cancel(target.submission, target.scope, {"by": target.by, "reason": target.reason})
        return submission_item

    def end(self, submission_item: SubmissionItem | None, target: CancelTarget) -> CancelReport:
        """Stop the jobs of a recorded intent; the result contains the errors of those that could not be stopped."""
        report = CancelReport()
        self._stop(target, report)
        self._terminate(submission_item, target, report)
        self._stop(target, report)  # again: a child may have created a training job before its termination
        return report

    def _checked_submission(self, target: CancelTarget) -> SubmissionItem | None:
        submission_item = self.ledger.submission(target.submission)
        if submission_item is None and not self._is_known(target.submission):
            raise UnknownSubmissionError(target.submission)
        if submission_item is not None and target.index is not None and target.index >= submission_item.jobs:
            text = f"Submission {target.submission} has no job with index {target.index}."
            raise UsageError(text, f"Its indices are 0 to {submission_item.jobs - 1}.")
        if target.region and target.region not in self._regions_of_lines(target.submission):
            text = f"{target.region} is not a training Region of this grid."
            raise UsageError(text, f"Its training Regions are {', '.join(self.deployment.grid.regions)}.")
        return submission_item

    def _is_known(self, submission: str) -> bool:
        """Return True if a submission without its own item has items of jobs, or the file of its jobs in S3."""
        if next(iter(self.ledger.jobs(submission)), None) is not None:
            return True
        return self.storage.exists(S3Uri(self.deployment.manifest_bucket, jobs_key(submission)))

    def _batch_jobs(self, submission_item: SubmissionItem, target: CancelTarget, report: CancelReport) -> list[str]:
        """Return the Batch jobs to terminate: the arrays of a whole submission, or the children of the cancelled jobs.

        Children that record the end of a stopped training job are omitted, and so are their arrays.
        """
        is_whole = target.scope == CANCEL_ALL
        if is_whole and not self.deployment.grid.with_clusters():
            return [array.batch_job for array in submission_item.arrays]
        jobs = readable(self.ledger.jobs(target.submission), report.add_damage)
        items = {item.index: item for item in jobs}
        recording = {index for index, item in items.items() if _is_recorded_by_child(item)}
        if is_whole and not recording:
            return [array.batch_job for array in submission_item.arrays]
        regions = {index: item.region for index, item in items.items()}
        if target.region and len(items) < submission_item.jobs:
            regions = self._regions(submission_item, report) | regions
        ids = self.children.ids(submission_item)
        meant = [index for index in sorted(ids) if target.covers(index, regions.get(index, ""))]
        ended = {index for index, item in items.items() if item.state in FINAL_STATES}
        watching = {index: item.batch_child for index, item in items.items() if item.batch_child}
        children: list[str] = []
        for index in meant:
            if index not in ended | recording:
                children += {ids[index], watching.get(index, ids[index])}
        return children

    def _watching_children(self, target: CancelTarget, report: CancelReport) -> list[str]:
        """Return the children that watch the cancelled jobs, if the ledger does not have the submission's arrays."""
        jobs = readable(self.ledger.jobs(target.submission), report.add_damage)
        live = (item for item in jobs if item.state not in FINAL_STATES and not _is_recorded_by_child(item))
        return [item.batch_child for item in live if item.batch_child and target.covers(item.index, item.region)]

    def _regions(self, submission_item: SubmissionItem, report: CancelReport) -> dict[int, str]:
        """Return the Regions of all jobs as they were submitted."""
        jobs = submitted_jobs(self.storage, self.deployment.manifest_bucket, submission_item)
        return {job.index: job.region for job in readable(jobs, report.add_damage)}

    def _regions_of_lines(self, submission: str) -> list[str]:
        """Return the grid's Regions, and removed Regions in which lines of the submission have not ended."""
        jobs = readable(self.ledger.jobs(submission), lambda _: None)  # `_batch_jobs` reports damaged ones
        live = (item for item in jobs if item.state not in FINAL_STATES)
        return [*self.deployment.grid.regions, *removed_regions(live, self.deployment.grid.regions)]

    def _terminate(self, submission_item: SubmissionItem | None, target: CancelTarget, report: CancelReport) -> None:
        reason = f"Cancelled by {target.by}" + (f": {target.reason}" if target.reason else "")
        max_errors = len(report.errors) + _MAX_ERRORS
        with report.noting("the children"):
            for job in (
                self._batch_jobs(submission_item, target, report)
                if submission_item
                else self._watching_children(target, report)
            ):
                if len(report.errors) >= max_errors:
                    return
                with report.noting(f"Batch job {job}"):
                    self.children.terminate(job, reason)
                    report.batch_jobs.append(job)

    def _stop(self, target: CancelTarget, report: CancelReport) -> None:
        for name in [target.region] if target.region else self._regions_of_lines(target.submission):
            region = inventory_of(self.deployment, name)
            max_errors = len(report.errors) + _MAX_ERRORS
            with report.noting(name):
                for job in region.listed(state="InProgress", submission=target.submission):
                    if len(report.errors) >= max_errors:
                        break
                    if target.covers(job.identity.index, name) and job.name not in report.training_jobs:
                        with report.noting(job.name):
                            item = self.ledger.look_up(*job.line)
                            # Of a job with a damaged item, the tags decide.
                            readable_item = None if isinstance(item, Damaged) else item
                            if is_ours(region, job, readable_item) and region.stop(job):
                                report.training_jobs.append(job.name)


def _is_recorded_by_child(item: JobItem) -> bool:
    """Return True if a child records the end of the job's training job, because no event does."""
    states = (JobState.IN_PROGRESS, JobState.STOPPING)
    return not TRAITS[item.backend].has_events and bool(item.batch_child) and item.state in states
