"""Folders in use: the folders of data that jobs which have not ended read, for commands that list or remove copies."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid.job.data_layout import folder_of
from traingrid.job.initial_model import initial_model_uri
from traingrid.job.job import job_in_region
from traingrid.ledger.damage import readable
from traingrid.ledger.submissions import group_by_submission
from traingrid.submission.submitted_jobs import retried_jobs, written_jobs

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from traingrid.aws.s3 import Storage
    from traingrid.job.job import Job
    from traingrid.ledger.damage import Damaged
    from traingrid.ledger.ledger import LedgerItem
    from traingrid.ledger.submissions import SubmissionState


@dataclass(kw_only=True)
class FoldersInUse:
    """The folders that jobs read which have not ended.

    Attributes:
        jobs: A job that reads the objects below each S3 prefix, such as "job 3 of 0123abcd", by prefix.
        unknown: The Regions in which jobs may read any folder, by a description of these jobs; None for any Region.
    """

    jobs: dict[str, str] = field(default_factory=dict)
    unknown: dict[str, frozenset[str] | None] = field(default_factory=dict)

    def user_of(self, folder: str, region: str) -> str:
        """Return a job that reads or may read objects of a folder, as words for a message; empty if there is none.

        Args:
            folder: The folder's URI.
        """
        searched = f"{folder.rstrip('/')}/"
        for prefix, job in self.jobs.items():
            if searched.startswith(prefix) or prefix.startswith(searched):
                return job
        return next((jobs for jobs, regions in self.unknown.items() if regions is None or region in regions), "")


@dataclass(frozen=True, kw_only=True)
class FolderFinder:
    """Finds the folders in use; `bucket` is the manifest bucket."""

    storage: Storage
    bucket: str

    def find(self, items: Iterable[LedgerItem | Damaged]) -> FoldersInUse:
        """Return the folders that open jobs read, including jobs that no child has opened.

        Args:
            items: All submissions, jobs and cancels of the ledger. A job of which an item or a line is damaged may
                read any folder.
        """
        in_use = FoldersInUse()
        for name, submission in group_by_submission(items).items():
            submission_item = submission.head
            in_use.unknown |= {_part_words(part): None for part in submission.damaged}
            if submission_item is None or (len(submission.opened) >= submission_item.jobs and not submission.live):
                continue
            damaged: list[Damaged] = []
            jobs = list(self._jobs(submission, damaged.append))
            in_use.unknown |= {
                _part_words(part): None for part in damaged if part.index not in _ended_indices(submission)
            }
            if not jobs and not submission_item.is_submitted:
                in_use.unknown[f"{name}, which is being submitted"] = None
            for job in jobs:
                _add(in_use, job, f"job {job.index} of {name}")
        return in_use

    def _jobs(self, submission: SubmissionState, report: Callable[[Damaged], object]) -> Iterator[Job]:
        """Yield every form in which an open line was submitted, because a child of any array may still run."""
        submission_item = submission.head
        if submission_item is None:
            return
        forms = (
            written_jobs(self.storage, self.bucket, submission_item),
            retried_jobs(self.storage, self.bucket, submission_item),
        )
        for jobs in forms:
            for job in readable(jobs, report):
                if job.index in submission.live or job.index not in submission.opened:
                    yield job


def _part_words(part: Damaged) -> str:
    """Return the words for jobs whose folders are unknown because their item or line is damaged."""
    return f"a job that cannot be read ({part.place} {part.problem})"


def _ended_indices(submission: SubmissionState) -> set[int]:
    return submission.opened - submission.live.keys() - submission.unreadable


def _add(in_use: FoldersInUse, job: Job, name: str) -> None:
    """Add the folders and objects that a job, or its copy, may read in any of its Regions."""
    inputs = (job.inputs, *(replica.inputs for replica in job.replicas.values()))
    channels = [channel for inputs_of_region in inputs for channel in inputs_of_region.values()]
    if any(channel.lists_objects for channel in channels):
        in_use.unknown[f"{name}, whose manifest file may list any object"] = frozenset(job.regions)
    in_use.jobs |= {channel.uri: name for channel in channels if channel.uri}
    if job.by_layout:  # any object in the folder may belong to a channel
        in_use.jobs |= {f"{str(folder_of(inputs_of_region)).rstrip('/')}/": name for inputs_of_region in inputs}
    for region in job.regions:
        job_there = job_in_region(job, region)
        if model := initial_model_uri(job_there):
            in_use.jobs[model] = name
        if job_there.checkpoints:
            in_use.jobs[job_there.checkpoints] = name
    for folder in (job.copy_from, job.copy_to):
        if folder:
            in_use.jobs[f"{folder}/"] = name
