"""Backend: the protocol between the supervisor and a service that runs training jobs."""

from collections.abc import Iterable, Iterator
from typing import Literal, Protocol

from traingrid.aws.log_events import LogEvent, LogPosition
from traingrid.errors import TraingridError
from traingrid.job.failures import Failure
from traingrid.job.job import Job
from traingrid.job.observed import Describer, TrainingJobDescription

StopReason = Literal["cancel", "capacity", "deadline", "return_to_spot", "spot_elsewhere"]
"""Why a child stops a training job: a cancel, or the name of one of the failure classes `EARLY_STOPS`."""


class LaunchError(TraingridError):
    """The service did not accept the job, or its reply was lost.

    Args:
        failure: The class of the failure, which determines if the request is retried.
        text: The error with the service's own message, as a sentence.
        unresolved: True if the job may exist nevertheless, because the reply was lost or a job that cannot be described
            yet has the name.
    """

    def __init__(self, failure: Failure, text: str, *, unresolved: bool = False) -> None:
        super().__init__(text, failure.next_step)
        self.failure = failure
        self.unresolved = unresolved


class LogUnreadableError(TraingridError):
    """The log cannot be read now; the training job continues.

    Args:
        text: The cause, as a sentence.
        next_step: The next step, as a sentence.
        passes: True if reading may succeed in a while without any change.
    """

    def __init__(self, text: str, next_step: str = "", *, passes: bool = False) -> None:
        super().__init__(text, next_step)
        self.passes = passes


class LogGoneError(LogUnreadableError):
    """The log of a training job that has ended does not exist any longer."""


class Backend(Describer, Protocol):
    """Runs training jobs in one Region. The training job's name is the idempotency token of every method.

    docs/backends.md lists the guarantees, and has a template.
    """

    def start(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        """Create the training job, or attach to the one that this job created before.

        Each call sends the request at most once. Calling it again is safe, because the name is unique.

        Returns:
            None if the training job was created now; otherwise the description of the existing one.

        Raises:
            LaunchError: The service rejected the request, its reply was lost, or another training job has the name.
        """

    def attach(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        """Return the description of the training job that this job created before, or None if none is known.

        Raises:
            LaunchError: The service did not answer, or another training job has the name.
        """

    def stop(self, name: str, reason: StopReason = "cancel", /) -> None:
        """Request that a training job stop, without waiting. A training job that has ended does not change.

        Args:
            reason: The reason, which a service that can store it returns in later descriptions.
        """

    def has_news(self, name: str, /) -> bool:
        """Return True if the service reported a change of a training job since it was last described.

        Always False for a service whose events update the ledger.
        """

    def fingerprint(self, name: str, job: Job) -> str:
        """Return the fingerprint of the training job that this job creates under this name."""

    def log_lines(
        self, name: str, position: LogPosition, *, to_end: bool = True, discover: bool = True
    ) -> Iterable[tuple[str, str]]:
        """Yield (host, line) of the log lines after `position`, and update `position`.

        Args:
            position: The position up to which the log was read.
            to_end: Read to the end of the log; otherwise one page of each stream, and more only if a page is large.
            discover: List the streams; otherwise read only those in `position`.

        Raises:
            LogUnreadableError: The log cannot be read now. The next call continues from `position`.
        """


class ReadableLogs(Protocol):
    """The logs of a Region's training jobs, as commands read them: by stream, with the time of each line."""

    def log_names(self, name: str) -> list[str]:
        """Return the names of the training jobs whose logs are the log of `name`."""

    def log_streams(self, training_job: str) -> list[str]:
        """Return the names of the log streams of a training job: one for each host, or for each start of a host."""

    def log_host(self, stream: str) -> str:
        """Return the name of the host that wrote a log stream, for example "algo-1"."""

    def log_pages(self, stream: str, position: LogPosition, limit: int, since: int = 0) -> Iterator[list[LogEvent]]:
        """Yield the pages of a log stream after `position`, and update `position` with each.

        Args:
            position: The position up to which each stream was read.
            limit: The maximum number of lines of a page.
            since: The time from which lines are read, in milliseconds since 1970; 0 for all.
        """

    def last_log_events(self, stream: str, count: int, position: LogPosition, since: int = 0) -> list[LogEvent]:
        """Return the last `count` lines of a log stream, and set `position` to its end; see `log_pages`."""
