"""Watch: follows the training job of an attempt to its end, or until it runs.

The state comes from the ledger, in which events record it (lambda/record_job_event). The watch calls SageMaker rarely,
and if the ledger records a failure. Amazon EKS sends no events: its backend watches the cluster's API itself, so that
a training job is described as soon as it changes, and every `UNANNOUNCED_SECONDS` if a change was missed. The watch
reads the logs of all hosts at intervals, and to their end after the job ends.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from traingrid.backoff import VISIBLE_WITHIN, look_seconds
from traingrid.child.epoch_pace import EpochPace
from traingrid.child.log_following import LogFollower
from traingrid.child.polling_pace import PollingPace, spread
from traingrid.child.progress import MetricProgress
from traingrid.job.observed import INTERRUPTED, WAITING_PHASES, TrainingJobDescription
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.record_outcome import facts_of_deleted
from traingrid.log import TRAINING

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.child.attempt import Attempt
    from traingrid.child.capacity_wait import CapacityWait
    from traingrid.child.deadline import InstanceChange
    from traingrid.ledger.items import JobItem

logger = logging.getLogger(__name__)
PROGRESS_INTERVAL_SECONDS = 15.0
"""The interval between two writes of progress. A training may print a line per second; the ledger needs fewer
updates."""
UNANNOUNCED_SECONDS = 60.0
"""The interval between two descriptions of a training job on Amazon EKS that has not changed."""
_NEWS_SECONDS = 2.0
_NOT_RUNNING = WAITING_PHASES | {"PreparingTrainingStack", INTERRUPTED}


@dataclass(kw_only=True)
class Watch:
    """Watches one attempt.

    Attributes:
        until_started: Whether to watch only until the training job runs.
        asked_at: The time of the first create request, by the attempt's clock; None if another child sent it.
        on_start: Called when the training job runs; may be called repeatedly.
        capacity_wait: The time within which the training job must get its instances; None to wait without limit.
        deadline: The time at which a training job with a deadline must be stopped; None without one.
    """

    attempt: Attempt
    until_started: bool = False
    asked_at: float | None = None
    pace: PollingPace = field(default_factory=PollingPace)
    on_start: Callable[[], None] = lambda: None
    capacity_wait: CapacityWait | None = None
    deadline: InstanceChange | None = None
    _progress: MetricProgress = field(init=False)
    _epoch_pace: EpochPace = field(init=False, default_factory=EpochPace)
    _log: LogFollower = field(init=False)
    _written: float = field(init=False, default=float("-inf"))
    _unwritten: bool = field(init=False, default=False)
    _logged: tuple[str, str, str] = field(init=False, default=("", "", ""))
    _stopped: bool = field(init=False, default=False)

    def __post_init__(self) -> None:
        self._progress = MetricProgress(self.attempt.job.metrics)
        self._log = LogFollower(attempt=self.attempt, pace=self.pace)

    def run(self) -> TrainingJobDescription | None:
        """Watch the training job.

        Returns:
            The ended training job, with its log and progress read to their end, before its end is recorded. None if
            the ledger already has the end, the job is at another attempt, the training job runs and needs no more
            watching, or it was deleted, which is recorded.
        """
        clock, started = self.attempt.clock, self.attempt.clock.now()
        # A training job that was just requested has been described a moment ago.
        describe_at = started if self.asked_at is None else started + spread(self._describe_seconds(0.0))
        while True:
            age = clock.now() - started
            item = self.attempt.item()
            if item.attempt != self.attempt.number:
                return None
            training_job = None
            if clock.now() >= describe_at or item.failure or self._is_due(item) or self.attempt.has_news():
                describe_at = clock.now() + spread(self._describe_seconds(age))
                training_job = self.attempt.backend.describe(self.attempt.name)
                logger.debug(
                    "%s is described as %s", self.attempt.name, training_job.state if training_job else "unknown"
                )
                # A cluster's API always returns the latest state of an object; SageMaker may not return a new one yet
                # (https://kubernetes.io/docs/reference/using-api/api-concepts/#the-resourceversion-parameter).
                if training_job is None and (age >= VISIBLE_WITHIN or not self.attempt.has_events):
                    self.attempt.record(facts_of_deleted(self.attempt.name, self.attempt.backend_name))
                    return None
            if training_job and training_job.has_ended:
                self._follow_log(last=True)
                return training_job
            if training_job:
                self.attempt.record_description(training_job.facts())
                changes = {name: getattr(training_job, name) for name in ("state", "phase", "reason")}
                item = replace(item, **changes, phase_at=int(training_job.phase_at or item.phase_at))
                if self._gives_up(item, training_job):
                    started = describe_at = clock.now()  # its end is expected soon
                    continue
            self._follow(item)
            self._log_state(item)
            if item.state in FINAL_STATES:
                return None
            if self._is_enough(item):
                return self._let_go()
            self._stop_if_cancelled()
            self._sleep(look_seconds(age), describe_at)

    def _describe_seconds(self, age: float) -> float:
        """Return the seconds until the next description, which are fewer if no event reports a change."""
        seconds = self.pace.describe_seconds(age)
        return seconds if self.attempt.has_events else min(seconds, UNANNOUNCED_SECONDS)

    def _sleep(self, seconds: float, describe_at: float) -> None:
        """Sleep; without events only until the training job changes or must be described."""
        if self.attempt.has_events:
            self.attempt.clock.sleep(seconds)
            return
        wake_at = min(self.attempt.clock.now() + seconds, describe_at)
        while (left := wake_at - self.attempt.clock.now()) > 0 and not self.attempt.has_news():
            self.attempt.clock.sleep(min(left, _NEWS_SECONDS))

    def _is_due(self, item: JobItem) -> bool:
        """Return True if the training job may have to be stopped now."""
        if self.deadline and self.deadline.is_over(item, runs=_runs(item)):
            return True
        return bool(self.capacity_wait and not _runs(item) and self.capacity_wait.is_over(item))

    def _gives_up(self, item: JobItem, training_job: TrainingJobDescription) -> bool:
        """Stop the training job if its deadline requires it, or it has waited long enough; a cancel comes first."""
        if training_job.state == JobState.STOPPING or self.attempt.is_cancelled():
            return False
        if self.deadline and self.deadline.look(item, training_job, runs=_runs(item)):
            return True
        return bool(self.capacity_wait and self.capacity_wait.look(item, training_job))

    def _log_state(self, item: JobItem) -> None:
        """Log the state if it has changed, with the reason if the training job waits."""
        wait = item.reason if item.state == JobState.IN_PROGRESS else ""
        state = (item.state, item.phase, wait)
        if state != self._logged:
            self._logged = state
            fields: dict[str, Any] = {"event": "state", "state": item.state, "phase": item.phase}
            if self.asked_at is not None and _runs(item):  # record the launch time once
                fields["launch_seconds"] = round(self.attempt.clock.now() - self.asked_at, 1)
                self.asked_at = None
            if wait:
                fields["reason"] = wait
            logger.info("%s: %s (%s)%s", self.attempt.name, item.state, item.phase, wait and f": {wait}", extra=fields)

    def _is_enough(self, item: JobItem) -> bool:
        return self.until_started and _runs(item)

    def _let_go(self) -> TrainingJobDescription | None:
        """Leave the job to the events; return it if it ended before the ledger recorded that no child watches it."""
        self.attempt.record({"batch_child": ""})
        training_job = self.attempt.backend.describe(self.attempt.name)
        return training_job if training_job and training_job.has_ended else None

    def _stop_if_cancelled(self) -> None:
        """Stop a cancelled training job once; the cancel command may have run before the training job existed."""
        if not self._stopped and self.attempt.is_cancelled():
            self._stopped = True
            self.attempt.stop()

    def _follow(self, item: JobItem) -> None:
        """Report the start of the training job, and follow its log once it has started.

        The hosts of a spot training job that starts again after an interruption log to new streams.
        """
        if _runs(item):
            self.on_start()
        else:
            self._log.expect_start()
            self._epoch_pace.restart()
        if _runs(item) or item.state in FINAL_STATES:
            self._follow_log(last=item.state in FINAL_STATES)

    def _follow_log(self, *, last: bool) -> None:
        """Write new lines of the log, and record progress unless it was recorded a moment ago."""
        attempt, advanced = self.attempt, False
        for host, line in self._log.rest() if last else self._log.lines():
            message = f"[{host}] {line}" if attempt.job.instance_count > 1 else line
            logger.info("%s", message, extra={"event": TRAINING, "host": host})
            advanced |= self._progress.read(line)
        self._unwritten |= advanced
        now = attempt.clock.now()
        if advanced:
            self._epoch_pace.read(self._progress.values.get("epoch"), now)
        if self._unwritten and (last or now - self._written >= PROGRESS_INTERVAL_SECONDS):
            attempt.ledger.record_progress(attempt.key, self._progress.values, self._epoch_pace.seconds)
            self._written, self._unwritten = now, False


def _runs(item: JobItem) -> bool:
    """Return True if the training job has its instances."""
    return item.state == JobState.IN_PROGRESS and item.phase not in _NOT_RUNNING
