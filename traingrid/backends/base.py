"""Backend: the protocol between the supervisor and a service that runs training jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from traingrid.errors import TraingridError
from traingrid.ledger.ledger import FINAL_STATES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.job.failures import Failure
    from traingrid.job.job import Job

QUEUED = "Queued"
"""The phase of a job that waits for capacity in its service queue or in SageMaker, before its training job exists."""

# The position up to which each log stream was read: stream name to the service's own token.
LogPosition = dict[str, str]


class LaunchError(TraingridError):
    """The service did not accept the job, or its reply was lost.

    Args:
        failure: The class of the failure, which determines if the request is retried.
        what: The error with the service's own message, as a sentence.
        unresolved: True if the job may exist nevertheless, because the reply was lost or a job that cannot be described
            yet has the name.
    """

    def __init__(self, failure: Failure, what: str, *, unresolved: bool = False) -> None:
        super().__init__(what, failure.next_step)
        self.failure = failure
        self.unresolved = unresolved


class LogUnreadableError(TraingridError):
    """The log cannot be read now; the training job continues.

    Args:
        what: The cause, as a sentence.
        next_step: The next step, as a sentence.
        passes: True if reading may succeed in a while without any change.
    """

    def __init__(self, what: str, next_step: str = "", *, passes: bool = False) -> None:
        super().__init__(what, next_step)
        self.passes = passes


@dataclass(frozen=True, kw_only=True)
class Seen:
    """A service's description of a training job.

    Attributes:
        state: SageMaker's status: InProgress, Stopping, Completed, Failed, Stopped.
        phase: SageMaker's secondary status: Starting, Downloading, Training, Uploading, ...
        arn: The training job's ARN.
        reason: The failure reason; empty if the job has not failed.
        artifact: The S3 URI of the model; empty until it exists.
        metrics: The last value of each metric, once the job has ended.
        training_seconds: The training time, once the job has ended.
        billable_seconds: The billable time, once the job has ended.
        fingerprint: The fingerprint of the request, which distinguishes this job from another one with the same name.
        identified_by_tag: True if only the job's tag identifies it, because its description differs from the request.
        service_job: The id of the service job that queues it; empty if it was created directly.
    """

    state: str
    phase: str = ""
    arn: str = ""
    reason: str = ""
    artifact: str = ""
    metrics: dict[str, float] = field(default_factory=dict)
    training_seconds: int = 0
    billable_seconds: int = 0
    fingerprint: str = ""
    identified_by_tag: bool = False
    service_job: str = ""

    @property
    def ended(self) -> bool:
        """True if the state is final."""
        return self.state in FINAL_STATES

    def facts(self) -> dict[str, Any]:
        """Return the fields that the ledger records; unknown fields are omitted."""
        known: dict[str, Any] = {"state": self.state, "phase": self.phase, "training_job_arn": self.arn}
        known |= {"reason": self.reason} if self.reason else {}
        known |= {"service_job": self.service_job} if self.service_job else {}
        known |= {"artifact": self.artifact} if self.artifact else {}
        if self.ended:
            known |= {"training_seconds": self.training_seconds, "billable_seconds": self.billable_seconds}
            known |= {"metrics": self.metrics} if self.metrics else {}
        return known


class Backend(Protocol):
    """Runs training jobs in one Region. The training job's name is the idempotency token of every method."""

    def start(self, name: str, job: Job, tags: dict[str, str]) -> Seen | None:
        """Create the training job, or attach to the one that this job created before.

        Each call sends the request at most once. Calling it again is safe, because the name is unique.

        Returns:
            None if the training job was created now; otherwise the description of the existing one.

        Raises:
            LaunchError: The service rejected the request, its reply was lost, or another training job has the name.
        """

    def attach(self, name: str, job: Job, tags: dict[str, str]) -> Seen | None:
        """Return the description of the training job that this job created before, or None if none is known.

        Raises:
            LaunchError: The service did not answer, or another training job has the name.
        """

    def describe(self, name: str) -> Seen | None:
        """Return the description of a training job, or None if the service does not know the name (yet)."""

    def tags(self, seen: Seen) -> dict[str, str] | None:
        """Return the tags of a training job, or None if the service does not know it (yet, or any longer)."""

    def stop(self, name: str) -> None:
        """Request that a training job stop, without waiting. A training job that has ended does not change."""

    def fingerprint(self, name: str, job: Job) -> str:
        """Return the fingerprint of the training job that this job creates under this name."""

    def log_lines(
        self, name: str, position: LogPosition, *, whole: bool = True, discover: bool = True
    ) -> Iterable[tuple[str, str]]:
        """Yield (host, line) of the log lines after `position`, and update `position`.

        Args:
            name: The training job's name.
            position: The position up to which the log was read.
            whole: Read to the end of the log; otherwise read one page of each stream, and more only if a page is large.
            discover: List the streams; otherwise read only those in `position`.

        Raises:
            LogUnreadableError: The log cannot be read now. The next call continues from `position`.
        """
