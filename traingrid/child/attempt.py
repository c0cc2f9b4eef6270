"""Attempt: one attempt at a job, with its training job's name and its operations on the ledger and the backend."""

from __future__ import annotations

import logging
import secrets
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from traingrid import names
from traingrid.job.backend_traits import DEFAULT_BACKEND, TRAITS, backend_field
from traingrid.job.candidates import Candidate, sentence_part
from traingrid.job.ownership import is_of_grid, tags_of
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.items import JobKey
from traingrid.ledger.preconditions import Precondition
from traingrid.ledger.user_requests import cancel_of

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.backends.base import Backend
    from traingrid.job.backend_traits import BackendName
    from traingrid.job.facts import JobFacts
    from traingrid.job.failures import Failure
    from traingrid.job.job import Job
    from traingrid.job.observed import TrainingJobDescription
    from traingrid.ledger.facts import AttemptFacts
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.ledger import Ledger
    from traingrid.ledger.user_requests import Cancel

logger = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Clock:
    """The clock of a child, which tests replace.

    Attributes:
        now: Returns monotonic seconds, because the wall clock may jump.
        sleep: Waits for a number of seconds.
        wall: Returns seconds since 1970, for times that children share.
    """

    now: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    wall: Callable[[], float] = time.time


@dataclass(frozen=True, kw_only=True)
class Attempt:
    """An attempt at a job.

    Attributes:
        number: The number of the attempt, from 1.
        job: The job to train, with the S3 URIs of the attempt's Region.
        batch_child: The id of the Batch child that watches the training job; empty if none does.
        array_file: The S3 object that the child's array was submitted with.
        backend: The backend that runs the training job.
        candidates: The places in which the job may train, in order.
        request: The name of this process's requests for the training job, in the ledger.
    """

    grid: str
    submission: str
    number: int
    job: Job
    batch_child: str
    array_file: str
    backend: Backend
    ledger: Ledger
    clock: Clock
    backend_name: BackendName = DEFAULT_BACKEND
    candidates: tuple[Candidate, ...] = ()
    request: str = field(default_factory=lambda: secrets.token_hex(4))

    @property
    def candidate(self) -> Candidate:
        """The place of the attempt."""
        return Candidate(self.job.region, self.backend_name)

    @property
    def name(self) -> str:
        """The name of the training job."""
        return names.training_job(self.grid, self.submission, self.job.index, self.number)

    @property
    def fingerprint(self) -> str:
        """The fingerprint that distinguishes this training job from another one with the same name."""
        return self.backend.fingerprint(self.name, self.job)

    @property
    def tags(self) -> dict[str, str]:
        """The tags of the training job."""
        return tags_of(self.grid, self.submission, self.job.index, self.fingerprint)

    @property
    def log_fields(self) -> dict[str, Any]:
        """The fields that the log lines of the attempt share."""
        fields = {"attempt": self.number, "training_job": self.name, "region": self.job.region}
        return fields | backend_field(self.backend_name)

    @property
    def key(self) -> JobKey:
        """The attempt's key in the ledger."""
        return JobKey(submission=self.submission, index=self.job.index, attempt=self.number)

    @property
    def has_events(self) -> bool:
        """True if events of the service record the training job's changes in the ledger."""
        return TRAITS[self.backend_name].has_events

    def has_news(self) -> bool:
        """Return True if the training job has changed since its last description, and no event records that."""
        return not self.has_events and self.backend.has_news(self.name)

    def item(self) -> JobItem:
        """Return the job's current ledger item, which may belong to another attempt."""
        item = self.ledger.job(self.submission, self.job.index)
        if item is None:  # a person has deleted it, so the job's state is unknown and the child must not act
            raise LookupError(f"the ledger has no item for job {self.job.index} of submission {self.submission}")
        return item

    def claim(self, facts: JobFacts) -> bool:
        """Record facts of this attempt, and that this process is about to request its training job; see `record`."""
        return self.ledger.record_job(self.key, facts, Precondition(array_file=self.array_file), opens=self.request)

    def record(self, facts: JobFacts, *, answered: bool = False) -> bool:
        """Record facts of this attempt in the ledger.

        Args:
            answered: Whether none of this process's requests for the training job can be in flight any more.

        Returns:
            False if the ledger did not change: the attempt has ended, or the job is at another attempt or is assigned
            to another array.
        """
        required, closes = Precondition(array_file=self.array_file), self.request if answered else ""
        return self.ledger.record_job(self.key, facts, required, closes=closes)

    def record_description(self, facts: JobFacts, *, answered: bool = False) -> bool:
        """Record the training job as its service describes it; see `record` and `Ledger.record_description`."""
        required, closes = Precondition(array_file=self.array_file), self.request if answered else ""
        return self.ledger.record_description(self.key, facts, required, closes=closes)

    def close_request(self) -> None:
        """Record that none of this process's requests for the training job can be in flight any more."""
        self.ledger.close_request(self.key, self.request)

    def is_over(self) -> bool:
        """Return True if the ledger has a final state of this attempt, or the job is at another attempt.

        An array loses a line only to a later attempt, so the array does not matter.
        """
        item = self.item()
        return item.attempt != self.number or item.state in FINAL_STATES

    def is_cancelled(self) -> bool:
        """Return True if this job, or its Region, or the submission is cancelled."""
        return self.cancel() is not None

    def cancel(self) -> Cancel | None:
        """Return the recorded cancel that includes this job, or None."""
        return cancel_of(self.ledger.cancels(self.submission), self.job.index, self.job.region)

    def uncancelled(self) -> tuple[Candidate, ...]:
        """Return the candidates in which this job may continue, because no cancel includes it there."""
        cancels = self.ledger.cancels(self.submission)
        return tuple(place for place in self.candidates if cancel_of(cancels, self.job.index, place.region) is None)

    def outcome(self, failure: Failure, state: JobState, reason: str) -> AttemptFacts:
        """Return the outcome of this attempt, as the list of earlier attempts keeps it."""
        tried: AttemptFacts = {"region": self.job.region, "state": state, "failure": failure.name, "reason": reason}
        if self.backend_name != DEFAULT_BACKEND:
            tried["backend"] = self.backend_name
        return tried

    def skip(self, failure: Failure, reason: str, target: Candidate, *, on_demand: bool | None = None) -> None:
        """Start the next attempt if this one has no training job, and no request for one is open.

        Args:
            reason: The reason, as a sentence.
            on_demand: Use on-demand instances from the next attempt on.
        """
        outcome, item, (region, backend) = self.outcome(failure, JobState.STOPPED, reason), self.item(), target
        tried: AttemptFacts = {**outcome, **item.checkpoint_facts}
        tried |= {"on_demand": True} if item.on_demand else {}
        if self.ledger.next_attempt(self.key, tried, region, unrequested=True, on_demand=on_demand, backend=backend):
            next_place = sentence_part(target, self.candidates)
            fields = {"event": "next_attempt", "failure": failure.name, "reason": reason, "target": region}
            fields |= backend_field(backend, "target_backend")
            option = " on demand" if on_demand else ""
            logger.info("%s: %s Next %s%s.", self.name, reason, next_place, option, extra=fields)

    def stop(self) -> bool:
        """Stop the training job unless it has ended, and record that it is stopping.

        Returns:
            False if the service does not know the training job (yet), or another grid or program created it.
        """
        training_job = self.backend.describe(self.name)
        if training_job is None or not self._is_ours(training_job):
            return False
        if not training_job.has_ended and training_job.state != JobState.STOPPING:
            self.backend.stop(self.name)
            cancel = self.cancel()
            stop_reason = "cancelled" if cancel else "its attempt is over"
            logger.info("%s: %s; stopping the training job", self.name, stop_reason, extra={"event": "stopping"})
            reason: JobFacts = {"reason": cancel.while_stopping} if cancel else {}
            self.record({"state": JobState.STOPPING, "phase": "Stopping", **reason})
        return True

    def _is_ours(self, training_job: TrainingJobDescription) -> bool:
        return training_job.fingerprint == self.fingerprint or is_of_grid(self.backend.tags(training_job), self.grid)
