"""Logs: merges the logs of the training jobs of a submission by time, across hosts and Regions."""

from __future__ import annotations

import heapq
import logging
import math
import re
import time
from bisect import bisect_right
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from botocore.exceptions import BotoCoreError, ClientError

from traingrid.api.child_log import PrintedLog
from traingrid.aws.log_events import MAX_EVENTS, LogEvent, LogPosition
from traingrid.backends import logs_of
from traingrid.backends.base import LogGoneError, LogUnreadableError
from traingrid.errors import TraingridError

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence
    from concurrent.futures import Executor, Future

    from traingrid.api.control_plane import ControlPlane
    from traingrid.backends.base import ReadableLogs
    from traingrid.job.backend_traits import BackendName
    from traingrid.submission.status import JobStatus

logger = logging.getLogger(__name__)
_STREAMS_AT_ONCE = 4
_EVENTS_IN_MEMORY, _MIN_PAGE = 200_000, 100
_READS_PER_SECOND = 5.0
"""Reads of streams per second while logs are followed: half of the quota of the slowest Regions, which children share
(traingrid/child/polling_pace.py)."""
_TIME = itemgetter(0)
_MIN_POLL, _DISCOVER_SECONDS = 1.0, 10.0


_RANK = re.compile(r"\[\d+,(?:mpirank:)?(\d+)(?:,[^\]]*)?\]<std(?:out|err)>:")
"""The mark of a rank's output: Open MPI's `--tag-output`, as the grid's image writes it, and the form of AWS's images
(https://github.com/aws/sagemaker-training-toolkit, `[1,mpirank:0,algo-1]<stdout>:`)."""


class LogLine(NamedTuple):
    """A line of a training job's log.

    Attributes:
        milliseconds: The time at which the host wrote it, in milliseconds since 1970.
        job: The index of the job.
        region: The Region of the training job.
        host: The name of the host, as SageMaker names hosts, for example "algo-1".
        text: The line, with control characters as the program wrote them.
    """

    milliseconds: int
    job: int
    region: str
    host: str
    text: str

    @property
    def rank(self) -> int:
        """The rank that printed it.

        0 also for a line without a mark: those of `train`, of the launcher, and of programs that mark none.
        """
        match = _RANK.match(self.text)
        return int(match[1]) if match else 0

    @property
    def time(self) -> datetime:
        """The time in UTC."""
        return datetime.fromtimestamp(self.milliseconds / 1000, UTC)


class Stream(NamedTuple):
    """A log stream of a job, whose index is `job`, with the logs that contain it."""

    job: int
    region: str
    name: str
    logs: ReadableLogs

    def lines(self, events: Iterable[LogEvent]) -> list[LogLine]:
        """Return events of the stream as lines."""
        (job, region, name, logs) = self
        host = logs.log_host(name)
        return [LogLine(at, job, region, host, text) for at, text in events]


@dataclass(kw_only=True)
class LogReader:
    """Reads the logs of the training jobs of a submission's last attempts.

    A Region that does not answer does not prevent the logs of others from being read.

    Attributes:
        index: The index of one job; None for all jobs.
        since: The time from which lines are read, in milliseconds since 1970.
        errors: The last error of each Region whose logs could not be read.
    """

    plane: ControlPlane
    submission: str
    index: int | None = None
    since: int = 0
    errors: dict[str, str] = field(default_factory=dict)
    _logs: dict[tuple[str, BackendName], ReadableLogs] = field(default_factory=dict)
    _printed: dict[str, ReadableLogs] = field(default_factory=dict)
    _position: LogPosition = field(default_factory=dict)

    def lines(self, tail: int | None = None, *, follow: bool = False) -> Iterator[LogLine]:
        """Yield the lines of all hosts in the order of time.

        Args:
            tail: Only the last lines, as many as this.
            follow: Wait for new lines until all jobs have ended. Lines that arrive late are out of order.

        Raises:
            TraingridError: The logs of some Regions could not be read; those of the others have been yielded.
        """
        streams = self.streams(self.jobs())
        with ThreadPoolExecutor(_STREAMS_AT_ONCE, thread_name_prefix="logs") as pool:
            yield from self._all_lines(streams, pool) if tail is None else self._last(streams, tail, pool)
            if follow:
                yield from self._followed_lines(streams, pool)
        if self.errors:
            errors = "; ".join(f"{region}: {error}" for region, error in sorted(self.errors.items()))
            raise TraingridError(f"The logs of {', '.join(sorted(self.errors))} cannot be read completely. {errors}.")

    def jobs(self) -> list[JobStatus]:
        """Return the jobs whose logs are read.

        Raises:
            UsageError: The submission or the job does not exist.
        """
        if self.index is not None:
            return [self.plane.job(self.submission, self.index)]
        return self.plane.status(self.submission).jobs

    def streams(self, jobs: Iterable[JobStatus]) -> list[Stream]:
        """Return the log streams of jobs: one for each start of each host."""
        streams = []
        for job in jobs:
            if job.training_job:
                with self._recording_errors(job.region):
                    streams += self._streams_of(job)
        return streams

    def _streams_of(self, job: JobStatus) -> list[Stream]:
        """Return the streams of a job; of a log that is gone, the lines that the child has printed."""
        logs = self._logs_of(job)
        try:
            names = [
                name for training_job in logs.log_names(job.training_job) for name in logs.log_streams(training_job)
            ]
        except LogGoneError as error:
            if job.training_job not in self._printed:
                self._printed[job.training_job] = PrintedLog(self.plane, self.submission, job.index, job.training_job)
                logger.warning("%s These are the lines that its child has printed.", error)
            logs = self._printed[job.training_job]
            try:
                names = logs.log_streams(job.training_job)
            except TraingridError:  # Batch has forgotten the child
                raise error from None
            if not names:
                raise
        return [Stream(job.index, job.region, name, logs) for name in names]

    def _logs_of(self, job: JobStatus) -> ReadableLogs:
        place = job.region, job.backend
        if place not in self._logs:
            self._logs[place] = logs_of(self.plane.deployment, *place)
        return self._logs[place]

    def _all_lines(self, streams: Sequence[Stream], pool: Executor) -> Iterator[LogLine]:
        """Yield all lines after the position. The next page of each stream is read while the last one is merged."""
        limit = _EVENTS_IN_MEMORY // (2 * len(streams) or 1)
        limit = max(_MIN_PAGE, min(limit, MAX_EVENTS))
        return _merged_lines([_ReadAhead(self._pages(stream, limit), pool) for stream in streams])

    def _pages(self, stream: Stream, limit: int) -> Iterator[list[LogLine]]:
        with self._recording_errors(stream.region):
            for events in stream.logs.log_pages(stream.name, self._position, limit, self.since):
                yield stream.lines(events)

    def _last(self, streams: Sequence[Stream], count: int, pool: Executor) -> list[LogLine]:
        """Return the last lines of all streams together."""

        def read(stream: Stream) -> list[LogLine]:
            with self._recording_errors(stream.region):
                events = stream.logs.last_log_events(stream.name, count, self._position, self.since)
                return stream.lines(events)
            return []

        merged = heapq.merge(*pool.map(read, streams))
        return list(deque(merged, count))

    def _followed_lines(self, streams: list[Stream], pool: Executor) -> Iterator[LogLine]:
        """Yield new lines until all jobs have ended."""
        discover_at, is_open = time.monotonic() + _DISCOVER_SECONDS, True
        while is_open:
            time.sleep(max(_MIN_POLL, len(streams) / _READS_PER_SECOND))
            self.errors.clear()  # the position is that of the last page that was read
            jobs = self.jobs()
            is_open = not all(job.ended for job in jobs)
            if time.monotonic() >= discover_at or not is_open:
                streams = self.streams(jobs)
                discover_at = time.monotonic() + _DISCOVER_SECONDS
            yield from self._all_lines(streams, pool)

    @contextmanager
    def _recording_errors(self, region: str) -> Iterator[None]:
        """Record an error of a Region instead of raising it, and log it once."""
        try:
            yield
        except (BotoCoreError, ClientError, LogUnreadableError) as error:
            if self.errors.get(region) != str(error):
                logger.warning("the logs in %s cannot be read now: %s", region, error)
            self.errors[region] = str(error)


def matching(
    lines: Iterator[LogLine], pattern: re.Pattern[str] | None, tail: int | None = None, rank: int | None = None
) -> Iterator[LogLine]:
    """Return the lines of a rank in which a pattern is found; with `tail`, only the last of those.

    Args:
        pattern: The pattern; None returns all lines.
        tail: The number of lines.
        rank: The rank; None returns the lines of all ranks.
    """
    if pattern is None and rank is None:
        return lines
    matches = (
        line for line in lines if (rank is None or line.rank == rank) and (pattern is None or pattern.search(line.text))
    )
    return matches if tail is None else iter(deque(matches, tail))


class _ReadAhead:
    """The pages of a stream, of which the next one is read while the last one is merged.

    Attributes:
        lines: Lines that were read and not merged yet.
        ended: True if there are no more.
    """

    def __init__(self, reader: Iterator[list[LogLine]], pool: Executor) -> None:
        self._reader, self._pool = reader, pool
        self._page: Future[list[LogLine] | None] = pool.submit(next, reader, None)
        self.lines: list[LogLine] = []
        self.ended = False

    def fill(self) -> None:
        """Read until there is a line, or the stream has ended."""
        while not self.lines and not self.ended:
            page = self._page.result()
            if page is None:
                self.ended = True
            else:
                self.lines = page
                self._page = self._pool.submit(next, self._reader, None)

    def take(self, until: float) -> list[LogLine]:
        """Remove and return the lines up to a time in milliseconds, inclusive."""
        end = bisect_right(self.lines, until, key=_TIME)
        lines, self.lines = self.lines[:end], self.lines[end:]
        return lines


def _merged_lines(streams: Sequence[_ReadAhead]) -> Iterator[LogLine]:
    """Yield the lines of all streams in the order of time.

    Up to the earliest end of a page, all lines are known; they are sorted together, which is several times as fast as a
    heap with one line of each stream.
    """
    while True:
        for stream in streams:
            stream.fill()
        complete_until = min(
            (stream.lines[-1].milliseconds for stream in streams if not stream.ended), default=math.inf
        )
        lines = [line for stream in streams for line in stream.take(complete_until)]
        if not lines:
            return
        yield from sorted(lines, key=_TIME)
