"""Retry plan: decides which failed or stopped jobs of a submission may be retried. Reads only."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.backends import inventory_of
from traingrid.backends.inventory import ACTIVE_STATES
from traingrid.backends.joint_inventory import PartlyListedError
from traingrid.errors import TraingridError, UsageError
from traingrid.job import failures
from traingrid.job.backend_traits import TRAITS
from traingrid.job.candidates import Candidate, candidates_of, next_candidate
from traingrid.job.state import UNLAUNCHED_STATES, JobState
from traingrid.ledger.damage import Damaged, readable
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.ledger.items import regions_of
from traingrid.ledger.user_requests import is_cancelled
from traingrid.models.archives import ModelArchives
from traingrid.models.initial_models import InitialModels
from traingrid.submission.batch_children import RETRY_PREFIX
from traingrid.submission.manifest_diff import changed_jobs
from traingrid.submission.submitted_jobs import last_submitted_job, retried_jobs, submitted_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Container, Iterable, Mapping, Sequence

    from traingrid.aws.s3 import Storage
    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.submission_item import SubmissionItem
    from traingrid.manifest.line import Line
    from traingrid.submission.batch_children import Children

_CAPACITY_FAILURES = (failures.CAPACITY.name, failures.SPOT_INTERRUPTION.name)
_RETRIED_STATES = (JobState.FAILED, JobState.STOPPED)
_LATE = "its Batch child has failed, but the reconciler has not recorded the result of the job yet"


@dataclass(frozen=True, kw_only=True)
class ToRetry:
    """The plan of a retry; nothing is written yet.

    Attributes:
        jobs: The jobs to retry, with all changes, by index.
        ended: The ledger's items of the failed and stopped jobs, by index.
        left: The reasons why other failed, stopped or changed jobs are not retried, by index.
        late: The indexes in `left` that can be retried later: their children have failed, but the reconciler has not
            recorded an outcome yet; or a request for a training job of them may still be in flight.
        changed: With a corrected manifest: the changed fields of each job to retry, by index.
    """

    submission: str
    jobs: Sequence[Job]
    ended: dict[int, JobItem]
    left: dict[int, str]
    late: list[int]
    changed: dict[int, tuple[str, ...]]

    def in_region(self, region: str) -> ToRetry:
        """Return the plan for the jobs that have their data in a Region.

        Raises:
            UsageError: None of the jobs to retry has.
        """
        jobs = [job for job in self.jobs if region in job.regions]
        if self.jobs and not jobs:
            text = f"No job to retry has its data in {region}. Nothing was retried."
            raise UsageError(text, "Add the Region to `replicas` of the lines, and retry with the corrected manifest.")
        left = {job.index: f"it has no data in {region}" for job in self.jobs if region not in job.regions}
        return replace(self, jobs=jobs, left=self.left | left)


@dataclass(frozen=True, kw_only=True)
class RetryPlan:
    """Plans retries.

    Attributes:
        storage: Reads a submission's lines.
        children: Returns the states of the lines' Batch children.
    """

    deployment: Deployment
    ledger: Ledger
    storage: Storage
    children: Children

    def of(self, submission: str, lines: Sequence[Line] | None = None, index: int | None = None) -> ToRetry:
        """Return the plan of a retry.

        Args:
            lines: The lines of a corrected manifest, if one is given.
            index: The index of the only job to retry; by default all failed and stopped jobs.

        Raises:
            TraingridError: The submission does not exist, or is not submitted yet.
            UsageError: The corrected manifest has another number or order of lines, the job of `index` does not
                exist, or has not failed or stopped, or no job to retry can read its initial model any more.
        """
        submission_item = self._submission_item(submission)
        damaged = list[Damaged]()
        items = self._opened_items(submission_item, index, damaged.append)
        ended = {index: item for index, item in items.items() if item.state in _RETRIED_STATES}
        bucket = self.deployment.manifest_bucket
        submitted = list(readable(submitted_jobs(self.storage, bucket, submission_item), damaged.append))
        read_retry_lines = {
            job.index: job for job in readable(retried_jobs(self.storage, bucket, submission_item), damaged.append)
        }
        jobs = {job.index: job for job in submitted} | read_retry_lines
        indexes = range(submission_item.jobs) if index is None else [index]
        damage = _damage_by_job(indexes, items, jobs, damaged, read_retry_lines)
        jobs = {number: job for number, job in jobs.items() if number not in damage and index in (None, number)}
        late = self._late_indices(submission_item, items, jobs)
        if index is not None and index not in (*ended, *late):
            text = f"Job {index} of submission {submission} is {_state_of(items.get(index))}."
            if index in damage:
                raise TraingridError(damage[index].sentence, damage[index].next_step)
            raise UsageError(text, "Only failed and stopped jobs can be retried.")
        in_flight = _reasons_in_flight(ended.values())
        reason_by_index = in_flight | self._reasons_against_retry(submission, ended) | dict.fromkeys(late, _LATE)
        late += [index for index, reason in in_flight.items() if reason_by_index[index] == reason]
        reason_by_index |= {number: str(part) for number, part in damage.items()}
        changed_fields = {}
        if lines is not None:
            if part := next((part for part in damaged if part.array_file), None):  # lines cannot be mapped to jobs
                raise TraingridError(f"{part.sentence} Nothing was changed.", part.next_step)
            corrected = changed_jobs(lines, submitted, jobs, self.deployment, submission)
            changed_fields = {index: change.fields for index, change in corrected.items()}
            reason_by_index = {
                index: _unended_reason(fields) for index, fields in changed_fields.items() if index not in ended
            } | reason_by_index
            reason_by_index = {index: reason for index, reason in reason_by_index.items() if index in changed_fields}
            jobs = {index: change.job for index, change in corrected.items()}
        to_retry = [job for index, job in sorted(jobs.items()) if index in ended and index not in reason_by_index]
        unreadable = self._unreadable(to_retry)
        if unreadable and len(unreadable) == len(to_retry):
            raise UsageError(*_rejection(unreadable))
        reason_by_index |= {index: f"{error.what} {error.next_step}" for index, error in unreadable.items()}
        to_retry = [job for job in to_retry if job.index not in unreadable]
        return ToRetry(
            submission=submission,
            jobs=to_retry,
            ended=ended,
            left=reason_by_index,
            late=[index for index in late if index in reason_by_index],
            changed={job.index: changed_fields[job.index] for job in to_retry if job.index in changed_fields},
        )

    def _unreadable(self, jobs: Sequence[Job]) -> dict[int, UsageError]:
        """Return the errors of jobs whose initial model they cannot read any more, by index."""
        models = InitialModels(
            deployment=self.deployment,
            ledger=self.ledger,
            submitted_job=partial(last_submitted_job, self.storage, self.deployment.manifest_bucket),
            archives=ModelArchives(deployment=self.deployment, refuse_denied=True),
        )
        errors = {}
        for job in jobs:
            if error := models.model_problem(job):
                text = f"line {job.line} cannot begin with the model of job {job.init_from}: {error.reason}."
                errors[job.index] = UsageError(text, error.next_step)
        return errors

    def _opened_items(
        self, submission_item: SubmissionItem, index: int | None, report: Callable[[Damaged], object]
    ) -> dict[int, JobItem]:
        """Return the opened jobs, or the one with an index if it is opened, by index."""
        if index is None:
            return {item.index: item for item in readable(self.ledger.jobs(submission_item.submission), report)}
        if not 0 <= index < submission_item.jobs:
            text = f"Submission {submission_item.submission} has no job with index {index}."
            raise UsageError(text, f"Its indexes are 0 to {submission_item.jobs - 1}.")
        item = self.ledger.job(submission_item.submission, index)
        return {index: item} if item else {}

    def _submission_item(self, submission: str) -> SubmissionItem:
        submission_item = self.ledger.submission(submission)
        if submission_item is None:
            raise UnknownSubmissionError(submission)
        if not submission_item.arrays:
            raise TraingridError(f"Submission {submission} is still being submitted.", "Try again in a minute.")
        return submission_item

    def _late_indices(
        self, submission_item: SubmissionItem, items: Mapping[int, JobItem], jobs: Mapping[int, Job]
    ) -> list[int]:
        """Return the jobs whose children failed before the ledger recorded a training job."""
        lines = {index: items.get(index) for index in jobs}
        waiting = {index: item for index, item in lines.items() if not item or item.state in UNLAUNCHED_STATES}
        cancels = self.ledger.cancels(submission_item.submission)
        return [
            index
            for index, child in self.children.of(submission_item, waiting).items()
            if child.status == "FAILED" and not is_cancelled(cancels, index, (waiting[index] or jobs[index]).region)
        ]

    def _reasons_against_retry(self, submission: str, ended: dict[int, JobItem]) -> dict[int, str]:
        """Return the jobs that must not be retried, with the reasons."""
        cancels = self.ledger.cancels(submission)
        running, silent = self._running(submission, ended)
        reason_by_index = {}
        for index, item in ended.items():
            tried_candidates = (item.candidate, *(previous.candidate for previous in item.tried))
            if is_cancelled(cancels, index, item.region):
                reason_by_index[index] = "it was cancelled, which is permanent; submit its line again"
            elif index in running:
                reason_by_index[index] = (
                    f"its training job {running[index]} still runs; the reconciler stops it within minutes"
                )
            elif errors := [silent[candidate] for candidate in tried_candidates if candidate in silent]:
                reason_by_index[index] = (
                    f"a training job of it may still run: {errors[0]}; retry it later, or submit its line again"
                )
        return reason_by_index

    def _running(self, submission: str, ended: Mapping[int, JobItem]) -> tuple[dict[int, str], dict[Candidate, str]]:
        """Return the active training jobs of a submission, independently of the ledger, and the errors of places."""
        running, silent = dict[int, str](), dict[Candidate, str]()
        for region in sorted(regions_of(ended.values()).union(self.deployment.grid.regions)):
            inventory = inventory_of(self.deployment, region)
            try:
                for job in chain.from_iterable(inventory.listed(state, submission) for state in ACTIVE_STATES):
                    running[job.identity.index] = job.name
            except (BotoCoreError, ClientError, TraingridError) as error:
                places = (error.backend,) if isinstance(error, PartlyListedError) else TRAITS
                silent |= {Candidate(region, backend): f"{region}: {str(error).rstrip('.')}" for backend in places}
        return running, silent


def retry_candidate(job: Job, item: JobItem, region: str = "") -> Candidate:
    """Return the candidate of a retried job: after a failure of capacity the next one, otherwise the last one.

    Args:
        region: A Region of the job, whose first candidate is returned; empty for any.
    """
    candidates = candidates_of(job)
    if region:
        return next(candidate for candidate in candidates if candidate.region == region)
    candidate = next_candidate(candidates, item.candidate) if item.failure in _CAPACITY_FAILURES else item.candidate
    return candidate if candidate in candidates else candidates[0]  # the corrected line may have others


def _reasons_in_flight(ended: Iterable[JobItem]) -> dict[int, str]:
    """Return the reasons why lines cannot be retried yet whose last attempt may still get a training job, by index."""
    now = time.time()
    waits = {item.index: math.ceil((item.creates_end_at - now) / 60) for item in ended}
    reason = "a child that was lost, or does not run, may still create its training job"
    return {index: f"{reason}; retry it in {minutes} minutes" for index, minutes in waits.items() if minutes > 0}


def _damage_by_job(
    indexes: Iterable[int],
    items: Mapping[int, JobItem],
    jobs: Mapping[int, Job],
    damaged: Sequence[Damaged],
    read_retry_lines: Container[int],
) -> dict[int, Damaged]:
    """Return the damage that prevents the retry of a job, by index: its item, its line, or a file that may have it.

    Args:
        items: The opened jobs that can be read.
        jobs: The lines that can be read.
        damaged: All parts that cannot be read.
        read_retry_lines: The jobs whose line in the file of an earlier retry was read.
    """
    by_index = {part.index: part for part in damaged if part.index is not None}
    damaged_files = {part.array_file: part for part in damaged if part.index is None and part.array_file}
    damage = {}
    for index in indexes:
        item = items.get(index)
        if item is not None and item.state not in _RETRIED_STATES:
            continue  # not retried anyway
        part = by_index.get(index)  # its item or its line
        if part is None and index not in jobs:  # no file has a readable line of it
            part = next(iter(damaged_files.values()), None)
        retry_file = item.array_file if item is not None and item.array_file.startswith(RETRY_PREFIX) else ""
        if part is None and index not in read_retry_lines:  # the latest version of its line may be damaged
            part = damaged_files.get(retry_file)
        if part is not None:
            damage[index] = part
    return damage


def _rejection(unreadable: Mapping[int, UsageError]) -> tuple[str, str]:
    """Return the text and the next step of the error for a retry in which no job can read its initial model."""
    errors = list(unreadable.values())
    more = f" The same applies to {len(errors) - 1} other lines with their models." if len(errors) > 1 else ""
    return f"{errors[0].what[:1].upper()}{errors[0].what[1:]}{more} Nothing was retried.", errors[0].next_step


def _state_of(item: JobItem | None) -> str:
    return item.state if item else JobState.PENDING


def _unended_reason(fields: Sequence[str]) -> str:
    changed_fields = ", ".join(fields)
    return f"its line has changed ({changed_fields}), but it has not failed; submit the line in a separate manifest"
