"""The protocol between the supervisor and whatever runs training jobs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from traingrid.errors import TraingridError
from traingrid.ledger import FINAL_STATES

if TYPE_CHECKING:
    from collections.abc import Iterable

    from traingrid.failures import Failure
    from traingrid.job import Job

QUEUED = "Queued"
"""The phase of a job whose training job does not exist yet, because its service queue, or SageMaker, has no room."""

# Where each log stream was read up to: stream name to the service's own token.
LogPosition = dict[str, str]


class LaunchError(TraingridError):
    """The service did not take the job.

    Args:
        failure: What that means, and whether the same request may be taken later.
        what: What happened and where, in the service's own words.
        unresolved: Whether the job may exist nevertheless, because the answer was lost or the name is taken by a job
            that cannot be described yet.
    """

    def __init__(self, failure: Failure, what: str, *, unresolved: bool = False) -> None:
        super().__init__(what, failure.next_step)
        self.failure = failure
        self.unresolved = unresolved


class LogUnreadableError(TraingridError):
    """The log cannot be read now; the training job continues.

    Args:
        what: The cause.
        next_step: The next step.
        passes: True if reading may succeed in a while without any change.
    """

    def __init__(self, what: str, next_step: str = "", *, passes: bool = False) -> None:
        super().__init__(what, next_step)
        self.passes = passes


@dataclass(frozen=True, kw_only=True)
class Seen:
    """What a service says of a training job.

    Attributes:
        state: Its status in SageMaker's words: InProgress, Stopping, Completed, Failed, Stopped.
        phase: The finer secondary status: Starting, Downloading, Training, Uploading, ...
        arn: The training job's ARN.
        reason: Why it failed; empty otherwise.
        artifact: The S3 URI of the model; empty before there is one.
        metrics: The last value of each metric, once it has ended.
        training_seconds: How long it trained, once it has ended.
        billable_seconds: What it is billed for, once it has ended.
        fingerprint: Of what was asked for, to tell one's own job from a stranger of the same name.
        told_by_tag: Whether only its tag tells one's own job: the service describes it in other words than it got.
        service_job: The id of the service job that queues it; empty for one that was created directly.
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
    told_by_tag: bool = False
    service_job: str = ""

    @property
    def ended(self) -> bool:
        """Whether the state is final."""
        return self.state in FINAL_STATES

    def facts(self) -> dict[str, Any]:
        """Return what the ledger keeps of this; nothing that is not known yet."""
        known: dict[str, Any] = {"state": self.state, "phase": self.phase, "training_job_arn": self.arn}
        known |= {"reason": self.reason} if self.reason else {}
        known |= {"service_job": self.service_job} if self.service_job else {}
        known |= {"artifact": self.artifact} if self.artifact else {}
        if self.ended:
            known |= {"training_seconds": self.training_seconds, "billable_seconds": self.billable_seconds}
            known |= {"metrics": self.metrics} if self.metrics else {}
        return known


class Backend(Protocol):
    """Runs training jobs in one Region. The name is the idempotency token of everything here."""

    def start(self, name: str, job: Job, tags: dict[str, str]) -> Seen | None:
        """Create the training job, or attach to the one that this very job has created before.

        The request is sent once. It may be sent again at any time by calling this again: the name is taken once.

        Returns:
            None if it was created now; else what is known of the one that exists.

        Raises:
            LaunchError: It was not taken, or it is not known whether it was, or another training job has the name.
        """

    def attach(self, name: str, job: Job, tags: dict[str, str]) -> Seen | None:
        """Return what is known of the training job that this very job has created before, or None if none is known.

        Raises:
            LaunchError: It is not known whether there is one, or another training job has the name.
        """

    def describe(self, name: str) -> Seen | None:
        """Return what is known of a training job, or None if none of this name is known (yet)."""

    def tags(self, seen: Seen) -> dict[str, str] | None:
        """Return the tags of a training job, or None if it is not known (yet, or any more)."""

    def stop(self, name: str) -> None:
        """Ask for a training job to be stopped, and return at once. One that has ended stays as it is."""

    def fingerprint(self, name: str, job: Job) -> str:
        """Return the fingerprint of the training job of this name that this very job becomes."""

    def log_lines(
        self, name: str, position: LogPosition, *, whole: bool = True, discover: bool = True
    ) -> Iterable[tuple[str, str]]:
        """Yield (host, line) of log lines since `position`, and update `position`.

        Args:
            name: The training job.
            position: How far the log was read.
            whole: Read to the end of the log; otherwise one page of each stream, and more only if a page is large.
            discover: List the streams; otherwise only those in `position` are read.

        Raises:
            LogUnreadableError: It cannot be read now; `position` stays where reading goes on.
        """
