"""Event files: copies the TensorBoard data of jobs in all Regions into one local folder, and keeps it up to date.

TensorBoard that reads private buckets itself shows an empty page without a reason
(https://github.com/kubeflow/pipelines/issues/5426), and it reads one Region's buckets only.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.aws.clients import CALLS_AT_ONCE
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError
from traingrid.job.job import job_in_region
from traingrid.ledger.damage import warn
from traingrid.submission.submitted_jobs import last_submitted_jobs
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from traingrid.api.control_plane import ControlPlane
    from traingrid.job.job import Job
    from traingrid.submission.status import JobStatus

_MAX_NAME_LENGTH = 60
_PIECE = 8 * 2**20


@dataclass(frozen=True, kw_only=True)
class _EventFolder:
    """The folder of a job's event files in S3, and its place in the local folder."""

    region: str
    source: S3Uri
    target: Path


@dataclass(frozen=True, kw_only=True)
class _EventFile:
    """A file of a job, and its place in the local folder."""

    region: str
    source: S3Uri
    target: Path
    size: int


@dataclass(kw_only=True)
class TensorBoardRuns:
    """The TensorBoard data of some submissions, in a local folder with a subfolder for each job.

    Attributes:
        folder: The local folder, TensorBoard's logdir.
        errors: The error of each Region that could not be read the last time.
    """

    plane: ControlPlane
    submissions: Sequence[str]
    folder: Path
    errors: dict[str, str] = field(default_factory=dict)
    _jobs: dict[str, tuple[int, dict[int, Job]]] = field(default_factory=dict)
    _storages: dict[str, Storage] = field(default_factory=dict)

    def sync(self) -> int:
        """Copy new files and the new bytes of known ones; return the number of changed files.

        A Region that does not answer is noted in `errors`, and the others are copied.

        Raises:
            UsageError: A submission does not exist.
            TraingridError: No job of the submissions writes TensorBoard data to a place that traingrid knows.
        """
        self.errors.clear()
        folders = [folder for submission in self.submissions for folder in self._event_folders(submission)]
        if not folders:
            text = "No job of these submissions writes TensorBoard data to S3."
            raise TraingridError(text, "The grid's own training image does: docs/training.md#logs-metrics-and-results.")
        for region in {folder.region for folder in folders}:
            if region not in self._storages:  # in this thread, because making clients is not thread-safe
                self._storages[region] = Storage(region, role=self.plane.deployment.acting_role_in(region))
        files_by_folder = map_in_order(self._list_files, folders, CALLS_AT_ONCE)
        return sum(map_in_order(self._update, [file for files in files_by_folder for file in files], CALLS_AT_ONCE))

    def _event_folders(self, submission: str) -> Iterator[_EventFolder]:
        """Yield the folder of each job that writes TensorBoard data."""
        jobs = self._submitted_jobs(submission)
        for status in self.plane.status(submission).jobs:
            job = jobs.get(status.index)
            if job and status.training_job and (source := _event_folder(job, status.region)):
                target = self.folder / _folder_name(submission, status)
                yield _EventFolder(region=status.region, source=source, target=target)

    def _submitted_jobs(self, submission: str) -> dict[int, Job]:
        """Return the jobs as they were submitted last, read again only after a retry."""
        submission_item = self.plane.head(submission)
        cached = self._jobs.get(submission)
        if cached is None or cached[0] != len(submission_item.arrays):
            jobs = last_submitted_jobs(self.plane.storage, self.plane.deployment.manifest_bucket, submission_item, warn)
            cached = (len(submission_item.arrays), jobs)
        self._jobs[submission] = cached
        return cached[1]

    def _list_files(self, folder: _EventFolder) -> list[_EventFile]:
        """Return the event files of a folder; if the Region does not answer, record the error and return none."""
        region, source = folder.region, folder.source
        try:
            keys_and_sizes = list(self._storages[region].sizes(source))
        except (BotoCoreError, ClientError) as error:
            self.errors[region] = str(error)
            return []
        files = []
        for key, size in keys_and_sizes:
            target = _target(folder.target, key.removeprefix(source.key))
            if target is not None:
                files.append(_EventFile(region=region, source=S3Uri(source.bucket, key), target=target, size=size))
        return files

    def _update(self, file: _EventFile) -> bool:
        """Append the new bytes of a file, because TensorBoard keeps files open; return True if it has changed."""
        have = file.target.stat().st_size if file.target.exists() else -1
        if have == file.size:
            return False
        if have > file.size:  # another file: event files only grow
            file.target.unlink()
            have = 0
        file.target.parent.mkdir(parents=True, exist_ok=True)
        try:
            with file.target.open("ab") as local:
                for start in range(max(have, 0), file.size, _PIECE):
                    local.write(
                        self._storages[file.region].read_range(file.source, start, min(start + _PIECE, file.size))
                    )
        except (BotoCoreError, ClientError, TraingridError) as error:
            self.errors[file.region] = str(error)
        return True


def _event_folder(job: Job, region: str) -> S3Uri | None:
    """Return the folder of a job's TensorBoard data, or None if it writes none to S3."""
    uri = job.hyperparameters.get("tensorboard_s3", "")
    if not uri and not job.tensorboard:
        return None
    output = job_in_region(job, region).output if region in job.regions else job.output
    bucket, _, key = (uri or f"{output}tensorboard/").removeprefix("s3://").partition("/")
    return S3Uri(bucket, key if key.endswith("/") or not key else f"{key}/")


def _folder_name(submission: str, status: JobStatus) -> str:
    """Return the name of a job's folder, which TensorBoard shows as the name of the run."""
    name = re.sub(r"[^\w.-]+", "-", status.name, flags=re.ASCII).strip("-.")[:_MAX_NAME_LENGTH]
    return f"{submission}-{status.index}" + (f"-{name}" if name else "")


def _target(folder: Path, relative: str) -> Path | None:
    """Return the local path of a file; None for keys that name a folder or a path outside of the job's folder."""
    parts = relative.split("/")
    if not relative or any(part in ("", ".", "..") or "\0" in part for part in parts):
        return None
    return folder.joinpath(*parts)
