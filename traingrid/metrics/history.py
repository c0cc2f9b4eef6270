"""Metric history: reads all values of the metrics of a submission's jobs, from parts in S3 or from the log.

The training image writes the parts (training_container/metric_history). S3 lists an object as soon as it is written
(https://docs.aws.amazon.com/AmazonS3/latest/userguide/Welcome.html#ConsistencyModel), and one process writes the parts
of a training job one after the other, so a reader finds new parts behind the last key that it has read.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeVar

from botocore.exceptions import BotoCoreError, ClientError

from traingrid import names
from traingrid.aws.clients import CALLS_AT_ONCE, ClientFactory, client
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError, UsageError
from traingrid.job.job import job_in_region
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import readable, warn
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.metrics.log import MetricLog
from traingrid.metrics.points import MetricPoint, Record, drop_superseded, records_of_part
from traingrid.submission.submitted_jobs import retried_jobs, submitted_jobs
from traingrid.threads import map_in_order

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator

    from traingrid.grid.deployment import Deployment
    from traingrid.job.job import Job
    from traingrid.ledger.items import RecordedAttempt
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.submission_item import SubmissionItem

Answer = TypeVar("Answer")
_NAME = re.compile(r"(?P<run>\d{8}T\d{9}Z)-\d{6}\.jsonl")
_MAX_BYTES = 8 * 2**20
"""More than any part has (training_container/metric_history/parts.py). The rest of a larger object is ignored."""


@dataclass(kw_only=True)
class _Attempt:
    """The records of an attempt, and the position of its reader.

    Attributes:
        prefixes: The possible prefixes of its parts.
        has_parts: True if its training job was asked to write parts.
        log: Its log; None if the regular expressions of its metrics are not known.
        runs: The records of each run of its container, by the start of the run.
        last: The last key that was read.
        from_log: The records that were read from the log.
        complete: True if nothing can be added.
    """

    index: int
    recorded: RecordedAttempt
    prefixes: tuple[S3Uri, ...]
    has_parts: bool
    log: MetricLog | None
    runs: dict[str, list[Record]] = field(default_factory=dict)
    last: dict[S3Uri, str] = field(default_factory=dict)
    from_log: list[Record] = field(default_factory=list)
    complete: bool = False

    @property
    def has_ended(self) -> bool:
        return self.recorded.state in FINAL_STATES

    @property
    def uses_log(self) -> bool:
        """True if its metrics are read from the log: a job without parts, or one that has ended without writing any."""
        return self.log is not None and not self.runs and (self.has_ended or not self.has_parts)

    def points(self) -> Iterator[MetricPoint]:
        log_records = sorted(self.from_log, key=lambda record: record.time)
        runs = [self.runs[run] for run in sorted(self.runs)] if self.runs else [log_records]
        for record in drop_superseded(runs):
            for metric, value in record.values.items():
                yield MetricPoint(
                    index=self.index,
                    region=self.recorded.region,
                    attempt=self.recorded.attempt,
                    metric=metric,
                    value=value,
                    step=record.step,
                    epoch=record.epoch,
                    time=record.time,
                )


class MetricHistory:
    """All values of the metrics of a submission's jobs. Each call reads only new parts and new lines.

    Args:
        storage: S3 in the home Region.
        make_client: Makes clients for the training Regions.
    """

    def __init__(
        self,
        deployment: Deployment,
        ledger: Ledger,
        storage: Storage,
        submission: str,
        make_client: ClientFactory = client,
    ) -> None:
        self._deployment, self._ledger, self._home, self._submission = deployment, ledger, storage, submission
        self._make_client = make_client
        self._attempts: dict[tuple[int, int], _Attempt] = {}
        self._jobs: dict[int, list[Job]] = {}
        self._arrays = 0
        self._storages: dict[str, Storage] = {}
        self._logs: dict[str, Any] = {}

    def read(self, index: int | Collection[int] | None = None) -> list[MetricPoint]:
        """Return all values so far, by job, attempt and time.

        Args:
            index: The index of one job, or the indexes of several; by default all jobs.

        Raises:
            UsageError: The submission or the job does not exist.
            TraingridError: A Region does not return the data of a job.
        """
        attempts = self._known_attempts(index)
        open_attempts = [attempt for attempt in attempts if not attempt.complete]
        for region in {attempt.recorded.region for attempt in open_attempts}:
            self._connect(region)
        uris_by_attempt = map_in_order(self._new_parts, open_attempts, CALLS_AT_ONCE)
        parts = [(attempt, uri) for attempt, uris in zip(open_attempts, uris_by_attempt, strict=True) for uri in uris]
        contents = list(map_in_order(lambda part: self._records(*part), parts, CALLS_AT_ONCE))
        for (attempt, uri), (prefix, run, records) in zip(parts, contents, strict=True):
            attempt.runs.setdefault(run, []).extend(records)
            attempt.last[prefix] = uri.key
        for attempt in open_attempts:
            attempt.complete = attempt.has_ended and bool(attempt.runs or attempt.log is None)
        with_log = [attempt for attempt in open_attempts if attempt.uses_log]
        list(map_in_order(self._read_log, with_log, CALLS_AT_ONCE))
        return [point for attempt in attempts for point in attempt.points()]

    def _known_attempts(self, index: int | Collection[int] | None) -> list[_Attempt]:
        """Return the attempts of the ledger that have a training job, by job and number."""
        submission_item = self._ledger.submission(self._submission)
        if submission_item is None:
            raise UnknownSubmissionError(self._submission)
        if isinstance(index, int) and not 0 <= index < submission_item.jobs:
            text = f"Submission {self._submission} has no job with index {index}."
            raise UsageError(text, f"Its indexes are 0 to {submission_item.jobs - 1}.")
        if len(submission_item.arrays) != self._arrays:
            self._jobs = self._definitions(submission_item)
            self._arrays = len(submission_item.arrays)
        if isinstance(index, int):
            item = self._ledger.job(self._submission, index)
            items = [item] if item else []
        else:
            jobs = readable(self._ledger.jobs(self._submission), warn)
            items = [item for item in jobs if index is None or item.index in index]
        return [
            self._attempt_state(item.index, number, recorded)
            for item in items
            for number, recorded in sorted(item.attempts().items())
            if recorded.training_job
        ]

    def _definitions(self, submission_item: SubmissionItem) -> dict[int, list[Job]]:
        """Return each job as it was submitted, followed by the job of the last retry."""
        bucket = self._deployment.manifest_bucket
        jobs = {job.index: [job] for job in readable(submitted_jobs(self._home, bucket, submission_item), warn)}
        retried = readable(retried_jobs(self._home, bucket, submission_item), warn)
        for index, job in {job.index: job for job in retried}.items():
            jobs.setdefault(index, []).append(job)
        return jobs

    def _attempt_state(self, index: int, number: int, recorded: RecordedAttempt) -> _Attempt:
        """Return the state of an attempt with its current item."""
        attempt = self._attempts.get((index, number))
        if attempt is None:
            jobs = self._jobs.get(index, [])
            attempt = _Attempt(
                index=index,
                recorded=recorded,
                prefixes=tuple(self._prefixes(index, recorded, jobs)),
                has_parts=any(job.metric_history for job in jobs) and not self._is_isolated,
                log=MetricLog.of(recorded.training_job, jobs[-1].metrics) if jobs and jobs[-1].metrics else None,
            )
        self._attempts[index, number] = attempt
        attempt.recorded = recorded
        if attempt.log:  # AWS Batch adds an id to the name of a queued training job when it creates it
            attempt.log.training_job = recorded.training_job
        return attempt

    @property
    def _is_isolated(self) -> bool:
        return self._deployment.grid.training.network_isolation

    def _prefixes(self, index: int, recorded: RecordedAttempt, jobs: Iterable[Job]) -> Iterator[S3Uri]:
        """Yield the prefixes at which the attempt may have written its parts: more than one if a retry moved them."""
        region, grid = recorded.region, self._deployment.grid.name
        account = self._deployment.account_of(region)
        outputs = [job_in_region(job, region).output for job in jobs if region in job.regions]
        outputs = outputs or [names.output_prefix(grid, account, region, self._submission, index)]
        name = names.training_job(grid, self._submission, index, recorded.attempt)
        for output in dict.fromkeys(outputs):
            bucket, _, key = names.metric_parts(output, name).removeprefix("s3://").partition("/")
            yield S3Uri(bucket, key)

    def _connect(self, region: str) -> None:
        """Make the clients of a Region, in this thread, because making clients is not thread-safe."""
        if region not in self._storages:
            role = self._deployment.acting_role_in(region)
            self._storages[region] = Storage(region, self._make_client, role)
            self._logs[region] = self._make_client("logs", region, role)

    def _new_parts(self, attempt: _Attempt) -> list[S3Uri]:
        """Return the URIs of the attempt's new parts, in the order of their names."""
        storage = self._storages[attempt.recorded.region]

        def new_parts() -> list[S3Uri]:
            parts: list[S3Uri] = []
            for prefix in attempt.prefixes:
                keys = storage.keys_after(prefix, attempt.last.get(prefix, ""))
                parts += [S3Uri(prefix.bucket, key) for key in keys if _NAME.fullmatch(key.removeprefix(prefix.key))]
            return parts

        return _reply(attempt, new_parts)

    def _records(self, attempt: _Attempt, part: S3Uri) -> tuple[S3Uri, str, list[Record]]:
        """Return a part's prefix, its run and its records."""
        folder, _, name = part.key.rpartition("/")
        storage = self._storages[attempt.recorded.region]
        content = _reply(attempt, lambda: storage.read(part, limit=_MAX_BYTES))
        return S3Uri(part.bucket, f"{folder}/"), name.partition("-")[0], list(records_of_part(content))

    def _read_log(self, attempt: _Attempt) -> None:
        """Read the new lines of the attempt's log. CloudWatch Logs may return the last ones after the attempt's end."""
        assert attempt.log  # noqa: S101  # for the type checker: `uses_log` is only true with a log
        before = len(attempt.from_log)
        logs = self._logs[attempt.recorded.region]
        new = attempt.log.new_records(logs)
        _reply(attempt, lambda: attempt.from_log.extend(new))
        attempt.complete = attempt.has_ended and len(attempt.from_log) == before


def _reply(attempt: _Attempt, ask: Callable[[], Answer]) -> Answer:
    """Return the answer to a request for the data of an attempt."""
    try:
        return ask()
    except (BotoCoreError, ClientError) as error:
        attempt_text = f"{attempt.recorded.training_job} in {attempt.recorded.region}"
        raise TraingridError(f"The metrics of {attempt_text} cannot be read: {error}.", "Try again later.") from error
