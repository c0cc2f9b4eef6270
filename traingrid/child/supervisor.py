"""Supervisor: runs one job to its end, attempt by attempt, and records its state in the ledger.

It may be interrupted anywhere and restarted. The training job's name identifies an existing training job, and the
ledger's conditional writes decide which child records a state or starts the next attempt. On SIGTERM (`LetGoError`) the
supervisor ends and leaves the training job running.

Batch makes at most ten attempts per child, so no temporary error may end a child. The supervisor waits out quotas,
throttling, lost connections and expired credentials (traingrid/child/launch.py, traingrid/aws/outage.py). Batch's
attempts remain for lost hosts and for our own bugs.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from traingrid.backoff import QUOTA_CAP, backoff_seconds
from traingrid.child.attempt import Attempt, Clock
from traingrid.child.capacity import Capacity
from traingrid.child.capacity_wait import CapacityWait
from traingrid.child.deadline import InstanceChange, leave_spot
from traingrid.child.launch import CREATING, Launched, launch
from traingrid.child.next_attempt import NextAttempt, attempt_after, pace
from traingrid.child.polling_pace import PollingPace
from traingrid.child.spot_policy import SpotPolicy, Transfer, job_until_deadline, may_leave_spot
from traingrid.child.watch import Watch
from traingrid.job.backend_traits import backend_field
from traingrid.job.candidates import Candidate, candidates_of, sentence_part
from traingrid.job.data_layout import streams_folder
from traingrid.job.failures import (
    CAPACITY,
    EARLY_STOPS,
    FAILURES,
    SPOT_ELSEWHERE,
    SPOT_INTERRUPTION,
    STOPPED_BY_USER,
    Failure,
    failure_of_end,
    may_try_again,
)
from traingrid.job.initial_model import needs_model_copy
from traingrid.job.job import job_in_region, job_on_demand
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.record_outcome import with_reason_of_stop
from traingrid.log import log_context

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.backends.base import Backend
    from traingrid.job.backend_traits import BackendName
    from traingrid.job.facts import JobFacts
    from traingrid.job.job import Job
    from traingrid.job.observed import TrainingJobDescription
    from traingrid.ledger.facts import AttemptFacts
    from traingrid.ledger.items import JobItem
    from traingrid.ledger.ledger import Ledger

logger = logging.getLogger(__name__)
_WITHOUT_SPOT = (CAPACITY, SPOT_INTERRUPTION)
"""The failures that show that the Region has no spot instances at the moment."""


class LetGoError(BaseException):
    """The supervisor received SIGTERM and must end, while the training job continues.

    The signal handler raises it at any point of the program, because a call that waits for a retry can take longer than
    the time until SIGKILL. It is not an Exception, so that no library handles it as a failed call and retries that.
    """


@dataclass(kw_only=True)
class Supervisor:
    """Supervises one job.

    Attributes:
        job: The job, in the form for its first Region.
        backend_in: Returns the backend with a name in a Region.
        batch_child: The id of this Batch child; empty without one.
        array_file: The file of its array, as named by `traingrid.submission.files.array_file`; empty without one.
        until_started: Whether to watch only until the training job runs.
        copy_data: Copies the data, the initial model and the newest checkpoint of an attempt into its Region, and
            returns True if they are verified; returns False if the attempt is over. Only called for a job that needs
            one of them.
        release_copy: Lets another child continue the last copy of a cancelled job; does nothing without one.
        find_transfer: Returns the transfer of the job's newest checkpoint to another Region; None if the job cannot
            continue there. Only called for a spot job with a deadline.
        find_channels: Returns the attempt with the channels that its data folder has; None if the attempt is over. Only
            called for a job with a folder, also one that is streamed.
    """

    grid: str
    submission: str
    job: Job
    backend_in: Callable[[str, BackendName], Backend]
    ledger: Ledger
    batch_child: str = ""
    array_file: str = ""
    until_started: bool = False
    copy_data: Callable[[Attempt], bool] = lambda _: False
    release_copy: Callable[[], None] = lambda: None
    find_transfer: Callable[[Attempt, str], Transfer | None] = lambda *_: None
    find_channels: Callable[[Attempt], Attempt | None] = lambda attempt: attempt
    pace: PollingPace = field(default_factory=PollingPace)
    clock: Clock = field(default_factory=Clock)
    _backends: dict[Candidate, Backend] = field(default_factory=dict, init=False)
    _current: Attempt | None = field(default=None, init=False)

    def run(self) -> JobItem:
        """Run the job to its end, or only until it starts if `until_started` is set.

        A user may have retried the line, perhaps with other settings, while this child slept or waited in the queue.
        Then the job belongs to another array, and this child, which has the old line, does not change it.

        Returns:
            The job's item in the ledger.
        """
        item = self.ledger.open_job(self.submission, self.job, self.job.regions, self.array_file)
        while item.is_of_array(self.array_file) and item.state not in FINAL_STATES:
            self._current = attempt = self._attempt(item)
            with log_context(**attempt.log_fields):
                self._run_attempt(attempt, item)
            item = attempt.item()
            if self.until_started and item.state == JobState.IN_PROGRESS and item.attempt == attempt.number:
                break
        if item.is_of_array(self.array_file):
            logger.info(_ending(item), extra={"event": "ended", **_facts(item)})
        else:
            message = (
                f"line {self.job.line} was submitted again as {item.array_file}; the child of that array continues"
            )
            logger.info(message, extra={"event": "submitted_again"})
        return item

    def let_go(self) -> bool:
        """Stop the training job if the job is cancelled, or its attempt is over, before the process ends on SIGTERM.

        A child that was frozen may have just created the training job of an attempt that ended meanwhile.

        Returns:
            True if the job is cancelled; its training job, if any, is stopping. False if the training job continues,
            or if the child's next try must find the end.
        """
        if self._current is None:
            return False
        cancelled = self._current.is_cancelled()
        if cancelled or self._current.is_over():
            with log_context(**self._current.log_fields):
                self._current.stop()
        if cancelled:
            self.release_copy()  # LetGoError may have interrupted the release at the end of `copy_data`
        return cancelled

    def _run_attempt(self, attempt: Attempt, item: JobItem) -> None:
        """Launch and watch the attempt's training job, and record how it ended."""
        if needs_copy(attempt.job, item):
            if not self.copy_data(attempt):
                return
            item = attempt.item()
        if attempt.job.by_layout or streams_folder(attempt.job, attempt.job.inputs):
            with_channels = self.find_channels(attempt)
            if with_channels is None:
                return
            self._current = attempt = with_channels
        policy = self._policy(attempt)
        if leave_spot(policy, item):
            return
        asked_at, capacity = None if item.was_seen else self.clock.now(), policy.capacity
        if launch(attempt, item, policy) is Launched.RUNS:
            watch = Watch(
                attempt=attempt,
                until_started=self.until_started and not may_leave_spot(self.job),
                asked_at=asked_at,
                pace=self.pace,
                on_start=capacity.record_instances,
                capacity_wait=CapacityWait(attempt=attempt),
                deadline=InstanceChange(attempt=attempt, policy=policy),
            )
            if training_job := watch.run():
                self._conclude(attempt, training_job, policy)
        capacity.end()

    def _policy(self, attempt: Attempt) -> SpotPolicy:
        return SpotPolicy(
            job=job_in_region(self.job, attempt.job.region),
            capacity=Capacity(attempt=attempt),
            find_transfer=partial(self.find_transfer, attempt),
        )

    def _attempt(self, item: JobItem) -> Attempt:
        if item.candidate not in self._backends:
            self._backends[item.candidate] = self.backend_in(*item.candidate)
        job = job_in_region(self.job, item.region)
        return Attempt(
            grid=self.grid,
            submission=self.submission,
            number=item.attempt,
            job=job_on_demand(job) if item.on_demand else job_until_deadline(job, item),
            batch_child=self.batch_child,
            array_file=self.array_file,
            backend=self._backends[item.candidate],
            backend_name=item.backend,
            candidates=self._candidates,
            ledger=self.ledger,
            clock=self.clock,
        )

    @property
    def _candidates(self) -> tuple[Candidate, ...]:
        return candidates_of(self.job)

    def _conclude(self, attempt: Attempt, training_job: TrainingJobDescription, policy: SpotPolicy) -> None:
        """Record the end of an attempt, or start the next one, by one conditional write."""
        item, cancelled, capacity = attempt.item(), attempt.is_cancelled(), policy.capacity
        failure = failure_of_end(training_job, item.stopped_for)
        if cancelled and failure and failure.name in EARLY_STOPS and training_job.state == JobState.STOPPED:
            failure = STOPPED_BY_USER  # the cancel was recorded while the training job stopped for another attempt
        if failure is CAPACITY or (failure is SPOT_ELSEWHERE and not training_job.training_seconds):
            capacity.missing()
        elif failure is None or training_job.training_seconds:
            capacity.record_instances()
        is_decided = failure is not None and failure.name == item.stopped_for and item.next_region
        may_change = failure is not None and failure.retried and not is_decided
        change = policy.change(item, lacks_capacity=failure in _WITHOUT_SPOT) if may_change else None
        candidates = attempt.uncancelled() if failure and failure.retried and not cancelled else ()
        following = attempt_after(failure, item, change, candidates or self._candidates) if failure else None
        # A late job makes one more attempt, with other instances.
        if failure and following and not cancelled and self._may_try_again(failure, item, is_late=following.is_late):
            self._go_on(attempt, training_job, failure, item, following)
        else:
            name = failure.name if failure else ""
            facts: JobFacts = {**training_job.facts(), "failure": name, "training_job": attempt.name}
            attempt.record_description(with_reason_of_stop(facts, attempt.cancel()))

    def _may_try_again(self, failure: Failure, item: JobItem, *, is_late: bool) -> bool:
        may_try = may_try_again(failure, item.failures_since_retry, self.job.retries, len(self._candidates))
        return may_try or (is_late and failure.retried)

    def _go_on(
        self,
        attempt: Attempt,
        training_job: TrainingJobDescription,
        failure: Failure,
        item: JobItem,
        following: NextAttempt,
    ) -> None:
        candidate, reason = attempt.candidate, training_job.reason or (item.reason if item.stopped_for else "")
        outcome = attempt.outcome(failure, training_job.state, reason)
        facts: AttemptFacts = {**outcome, **pace(attempt.job, item), **item.checkpoint_facts}
        facts |= {"training_job": attempt.name, "billable_seconds": training_job.billable_seconds}
        facts |= {"on_demand": True} if item.on_demand else {}
        target, is_late, on_demand = following
        region, backend = target
        if not self.ledger.next_attempt(attempt.key, facts, region, on_demand=on_demand, backend=backend):
            return  # another child of this index was faster, or the job ended meanwhile; the caller reads the ledger
        tries = [candidate, *(previous.candidate for previous in item.tried)].count(target) if failure.counted else 0
        seconds = backoff_seconds(tries, QUOTA_CAP) if tries else 0.0
        message = (
            f"{attempt.name}: {reason or training_job.phase} {failure.sentence} "
            f"Next {sentence_part(target, self._candidates)}{' on demand' * is_late}, in {seconds:.0f} s."
        )
        fields = {"event": "next_attempt", "failure": failure.name, "reason": reason, "target": region}
        fields |= backend_field(backend, "target_backend")
        logger.info(message, extra=fields)
        self.clock.sleep(seconds)


def needs_copy(job: Job, item: JobItem) -> bool:
    """Return True if data, the initial model or a checkpoint may have to be copied before the launch.

    The phase Creating is recorded after the copy is verified, so a training job may exist already.
    """
    is_needed = bool(job.copy_from) or needs_model_copy(job) or needs_checkpoint(job, item)
    return is_needed and not item.was_seen and item.phase != CREATING


def needs_checkpoint(job: Job, item: JobItem) -> bool:
    """Return True if an attempt in another Region may have checkpoints, and none is chosen for this attempt yet."""
    trained = {previous.region for previous in item.tried if previous.training_job}
    return bool(job.checkpoints and trained - {item.region}) and not item.checkpoint_note


def _ending(item: JobItem) -> str:
    text = f"{item.training_job or item.name}: {item.state}"
    if item.state in FINAL_STATES:
        text += f" after {item.training_seconds} s of training"
    if item.reason:
        text += f": {item.reason}"
    if item.model:
        text += f", model in {item.model}"
    failure = FAILURES.get(item.failure)
    if failure:
        text += f" {failure.sentence} {failure.next_step}"
    return text


def _facts(item: JobItem) -> dict[str, Any]:
    """Return the facts for the log about a job's end, or about its state when the child leaves it."""
    fields = (
        "attempt",
        "training_job",
        "region",
        "backend",
        "state",
        "failure",
        "reason",
        "training_seconds",
        "artifact",
    )
    return item.fields(fields)
