"""Submission: the jobs of a manifest, and operations on them."""

from __future__ import annotations

import logging
import re
import time
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from traingrid.api.data import download_models
from traingrid.api.description import describe
from traingrid.api.logs import LogReader, matching
from traingrid.api.merge import prepare_merge
from traingrid.api.submit import read_manifest, with_initial_models
from traingrid.errors import UsageError
from traingrid.manifest.hardware_warnings import jobs_warnings
from traingrid.merge.line import MergeRequest
from traingrid.metrics.history import MetricHistory
from traingrid.metrics.table import metric_table
from traingrid.report.document import write_report
from traingrid.report.subject import Subject
from traingrid.submission.cancel import CancelTarget

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator

    import pandas as pd

    from traingrid.api.description import JobDescription
    from traingrid.api.grid import Grid
    from traingrid.api.logs import LogLine
    from traingrid.metrics.points import MetricPoint
    from traingrid.submission.cancel import CancelReport
    from traingrid.submission.overview import SubmissionOverview
    from traingrid.submission.retry import Retried
    from traingrid.submission.status import JobStatus, SubmissionStatus

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Submission:
    """The jobs of one version of a manifest.

    `Grid.submit` and `Grid.submission` return it. It holds no state except its id: each method reads the ledger.

    Attributes:
        grid: The grid.
        id: The id, eight hexadecimal digits.
    """

    grid: Grid
    id: str

    def __repr__(self) -> str:
        return f"<Submission {self.id} of {self.grid!r}>"

    @property
    def jobs(self) -> list[JobStatus]:
        """The current status of each job, in the order of the manifest."""
        return self.status().jobs

    def status(self) -> SubmissionStatus:
        """Return the current status of the submission and its jobs.

        Raises:
            UsageError: The submission does not exist.
        """
        return self.grid.plane.status(self.id)

    def overview(self) -> SubmissionOverview:
        """Return the numbers of jobs in each state, and the running and failed jobs.

        It is faster than `status` for a submission with thousands of jobs: it reads about 2 MB for 10,000 jobs.

        Raises:
            UsageError: The submission does not exist.
        """
        return self.grid.plane.overview(self.id)

    def wait(self, timeout: float | None = None, poll: float = 5.0) -> SubmissionStatus:
        """Wait until every job has ended, and return the final status.

        Jobs that failed are part of the status; they are not an error of this method.

        Args:
            timeout: The maximum number of seconds to wait; None waits without a limit.
            poll: The seconds between two reads of the status.

        Raises:
            TimeoutError: Some jobs have not ended after `timeout` seconds. They continue.
        """
        deadline = None if timeout is None else time.monotonic() + timeout
        while not (status := self.status()).ended:
            pause = poll if deadline is None else min(poll, deadline - time.monotonic())
            if pause <= 0:
                open_jobs = sum(not job.ended for job in status.jobs)
                text = f"{open_jobs} of {len(status.jobs)} jobs of submission {self.id} have not ended"
                raise TimeoutError(f"{text} after {timeout:g} s. They continue.")
            time.sleep(pause)
        return status

    def describe(self, index: int = 0) -> JobDescription:
        """Return everything that is known about one job: its line, its attempts, and the next step after a failure.

        Args:
            index: The index of the job.

        Raises:
            UsageError: The submission or the job does not exist.
        """
        return describe(self.grid.plane, self.id, index)

    def logs(
        self,
        index: int | None = None,
        *,
        follow: bool = False,
        tail: int | None = None,
        since: datetime | timedelta | None = None,
        grep: str | None = None,
    ) -> Iterator[LogLine]:
        """Yield the lines that the training jobs have printed, on all hosts, in the order of time.

        Args:
            index: The index of one job; by default all jobs.
            follow: Wait for new lines until all jobs have ended.
            tail: Only the last lines, as many as this.
            since: Only lines after this time, or from this long ago.
            grep: Only lines in which this regular expression is found.

        Raises:
            UsageError: The submission or the job does not exist.
            TraingridError: The logs of some Regions cannot be read. The lines of the other Regions come first.
        """
        pattern = re.compile(grep) if grep is not None else None
        begin = datetime.now(UTC) - since if isinstance(since, timedelta) else since
        start = int(begin.timestamp() * 1000) if begin else 0
        reader = LogReader(plane=self.grid.plane, submission=self.id, index=index, since=start)
        return matching(reader.lines(None if pattern else tail, follow=follow), pattern, tail)

    def metrics(self, index: int | None = None) -> list[MetricPoint] | pd.DataFrame:
        """Return every value of every metric so far, of all attempts.

        The values of running jobs are at most 30 seconds old if they use the grid's training image. Other images, and
        a grid with network isolation, have no metric history: their values are read from the log, which is slower.

        Args:
            index: The index of one job; by default all jobs.

        Returns:
            A pandas DataFrame with the columns index, region, attempt, metric, value, step, epoch and time, if pandas
            is installed; otherwise a list of `MetricPoint`. Both are ordered by job, attempt and time. A spot training
            that was interrupted may compute steps again; only their last values are included.

        Raises:
            UsageError: The submission or the job does not exist.
            TraingridError: A Region does not return the data of a job.
        """
        plane = self.grid.plane
        history = MetricHistory(plane.deployment, plane.ledger, plane.storage, self.id)
        return metric_table(history.read(index))

    def download(
        self, folder: str | os.PathLike[str] | None = None, index: int | None = None, *, unlimited: bool = False
    ) -> list[Path]:
        """Download and unpack models.

        Args:
            folder: The folder for the models, each in a subfolder SUBMISSION-INDEX; by default the current folder.
            index: The index of one job; by default all jobs that have a model.
            unlimited: If true, archives of any size are unpacked.

        Returns:
            The subfolders. A call after an interrupted one continues it.

        Raises:
            UsageError: There is no job with this index.
            TraingridError: A job has no model, or it cannot be read or unpacked. The other models are complete.
        """
        parent = Path(folder or ".")
        plane = self.grid.plane
        jobs = [job for job in self.jobs if job.artifact] if index is None else [plane.job(self.id, index)]
        models = download_models(
            plane.deployment, self.id, jobs, lambda job: parent / f"{self.id}-{job.index}", unlimited=unlimited
        )
        return sorted((model.folder for model in models), key=[parent / f"{self.id}-{job.index}" for job in jobs].index)

    def report(self, path: str | os.PathLike[str]) -> Path:
        """Write the submission as one HTML file, without scripts, that can be archived, mailed or printed.

        It has the runs, best first, their curves, the Regions and their cost, failures with the recommended action, and
        everything that repeats the runs. If some jobs have not ended, the file has their states at this moment.

        Args:
            path: The file. An earlier report is replaced; another file is not.

        Returns:
            The path.

        Raises:
            UsageError: The submission or the folder does not exist, or the file exists and is not a report.
        """
        write_report(self.grid.plane, Subject.of(self.id), Path(path))
        return Path(path)

    def cancel(self, index: int | None = None, region: str = "", reason: str = "") -> CancelReport:
        """Cancel jobs, which cannot be undone: waiting jobs are not started, and training jobs are stopped.

        Args:
            index: The index of one job; by default all jobs.
            region: Only the jobs that train, or would train next, in this Region.
            reason: A reason, which the ledger records.

        Returns:
            The stopped jobs, and the errors of those that could not be stopped. The cancel is recorded nevertheless,
            and the reconciler stops the rest.

        Raises:
            UsageError: The submission, the job or the Region does not exist, or both `index` and `region` are given.
        """
        if index is not None and region:
            raise UsageError("An index and a Region were both given.", "Give one of them, or neither for all jobs.")
        plane = self.grid.plane
        target = CancelTarget(submission=self.id, index=index, region=region, by=plane.caller(), reason=reason)
        return plane.canceller.cancel(target)

    def retry(
        self, manifest: str | os.PathLike[str] | None = None, index: int | None = None, *, region: str = ""
    ) -> Retried:
        """Retry failed and stopped jobs, each with a new attempt.

        Args:
            manifest: The path of the submission's manifest with some lines fixed. Only jobs whose lines have changed
                are retried then, with the new lines. By default all failed and stopped jobs are retried.
            index: The index of the only job to retry.
            region: The Region of the lines in which the jobs train next, from their newest checkpoint. By default the
                last one, or after a failure of capacity the next one.

        Returns:
            The retried jobs, and the reasons why others were not.

        Raises:
            TraingridError: The submission does not exist, the manifest is invalid, or AWS does not answer.
            UsageError: The job does not exist, or has not failed or stopped, or both `manifest` and `index` are given,
                or no job to retry has its data in `region`.
        """
        if manifest is not None and index is not None:
            raise UsageError("A manifest and an index were both given.", "Give one of them, or neither for all jobs.")
        retrier, by = replace(self.grid.plane.retrier, region=region), self.grid.plane.caller()
        deployment = self.grid.plane.deployment
        lines, sources = None, None
        if manifest is not None:
            manifest_lines, sources = read_manifest(Path(manifest), deployment)
            lines = with_initial_models(Path(manifest), manifest_lines, deployment)
        todo = retrier.planned(self.id, lines, index)
        for sentence in jobs_warnings(todo.jobs, deployment):
            logger.warning(sentence)
        if sources:
            sources.upload()  # only after the plan has accepted the manifest
        return retrier.run(todo, by)

    def merge(
        self, *indexes: int, request: MergeRequest | None = None, announce: Callable[[str], None] = logger.info
    ) -> Submission:
        """Merge the models of some jobs into one, in a job that also compares the result with each of them.

        A second call with the same arguments returns the same submission.

        Args:
            indexes: The indexes of the jobs; none for all jobs.
            request: The method, the Region and the data; by default the mean of the weights.
            announce: Receives a sentence for each copy of a model.

        Raises:
            TraingridError: The models cannot be merged, or must not be copied to the Region; nothing was submitted.
        """
        prepared = prepare_merge(self.grid.plane, self.id, indexes, request or MergeRequest())
        return Submission(self.grid, prepared.run(announce))
