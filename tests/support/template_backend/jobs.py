"""Jobs: the service, which a new backend replaces by the client of a real one."""

import time
from dataclasses import dataclass, field
from typing import Any

from traingrid.backends.sagemaker.request import fingerprint
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.state import FINAL_STATES, JobState


class NameTakenError(Exception):
    """A training job has this name, and perhaps another request."""


@dataclass(kw_only=True)
class StoredJob:
    """A training job of the service.

    Attributes:
        request: The request that created it.
        tags: Its tags.
        state: Its state.
        lines: Its log.
    """

    request: dict[str, Any]
    tags: dict[str, str]
    state: JobState = JobState.IN_PROGRESS
    lines: list[str] = field(default_factory=list)
    created_at: float = field(default_factory=time.time)

    @property
    def arn(self) -> str:
        """The address that the ledger records: it differs from that of a later job with the same name."""
        return f"arn:memory:training-job/{self.request['TrainingJobName']}/{self.created_at}"


class MemoryService:
    """A service that accepts each name once.

    Attributes:
        jobs: The training jobs, by name.
        loses_replies: True if requests take effect, but their replies do not arrive.
    """

    def __init__(self) -> None:
        self.jobs: dict[str, StoredJob] = {}
        self.loses_replies = False

    def create(self, job: StoredJob) -> None:
        """Create a training job, unless its name is taken: one step of the service, not a check before the creation.

        Raises:
            NameTakenError: The name is taken.
            TimeoutError: The reply was lost.
        """
        if self.jobs.setdefault(job.request["TrainingJobName"], job) is not job:
            raise NameTakenError
        if self.loses_replies:
            raise TimeoutError

    def write(self, name: str, line: str) -> None:
        """Add a line to the log of a training job."""
        self.jobs[name].lines.append(line)

    def stop(self, name: str) -> bool:
        """Stop a training job; return False if it has ended or does not exist."""
        job = self.jobs.get(name)
        if job is None or job.state in FINAL_STATES:
            return False
        job.state = JobState.STOPPING
        return True


def describe_stored_job(job: StoredJob) -> TrainingJobDescription:
    """Return the description of a training job."""
    return TrainingJobDescription(state=job.state, phase=job.state, arn=job.arn, fingerprint=fingerprint(job.request))
