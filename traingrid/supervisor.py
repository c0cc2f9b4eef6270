"""The supervisor: launches one job or attaches to it, follows it to its end and keeps the ledger right.

It may be killed anywhere and run again: the training job's name decides what exists, the ledger's conditional writes
decide what is recorded, and SIGTERM (`LetGoError`) only makes it let go.
"""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from traingrid import names
from traingrid.backends.base import (
    LaunchRefusedError,
    LogPosition,
    LogUnreadableError,
    NameTakenError,
    TryAgainError,
)
from traingrid.ledger import FINAL_STATES
from traingrid.progress import Progress

if TYPE_CHECKING:
    from collections.abc import Callable

    from traingrid.backends.base import Backend
    from traingrid.job import Job
    from traingrid.ledger import Item, Ledger

# Between two looks at a training job: short while it is young, so that quick runs and early failures show at once, and
# rare later, because DescribeTrainingJob is throttled per account.
_SHORTEST_INTERVAL_SECONDS = 1.0
_LONGEST_INTERVAL_SECONDS = 60.0
_INTERVAL_PER_AGE = 1 / 60


class LetGoError(BaseException):
    """The supervisor was told to end (SIGTERM) while the training job goes on.

    The signal's handler raises it wherever the program is, because a call that waits to be sent again can outlast the
    seconds until SIGKILL. No Exception, so that no library takes it for a failed call and repeats that.
    """


def interval_seconds(age: float) -> float:
    """Return how long to wait until the next look at a job that is watched for `age` seconds."""
    return min(max(age * _INTERVAL_PER_AGE, _SHORTEST_INTERVAL_SECONDS), _LONGEST_INTERVAL_SECONDS)


@dataclass(kw_only=True)
class Supervisor:
    """Supervises one job.

    Attributes:
        grid: The grid's name.
        submission: The submission's id.
        job: What to train.
        backend: Where to train it, in the job's Region.
        ledger: Where to record it.
        say: Takes lines for the person who reads the log.
    """

    grid: str
    submission: str
    job: Job
    backend: Backend
    ledger: Ledger
    say: Callable[[str], None]
    _log_trouble: str = field(default="", init=False)

    def run(self) -> Item:
        """Bring the job to its end.

        Returns:
            The job's item in the ledger, which is in a final state.

        Raises:
            LaunchRefusedError: The job cannot be launched as it is; the ledger says Failed.
            NameTakenError: Another training job has its name; the ledger says Failed.
            TryAgainError: The backend cannot start it now.
        """
        item = self.ledger.open_job(self.submission, self.job)
        attempt = item["attempt"]
        name = names.training_job(self.grid, self.submission, self.job.index, attempt)
        if item["state"] not in FINAL_STATES:
            self._launch(name, attempt)
            self._watch(name, attempt)
            item = self.ledger.job(self.submission, self.job.index) or item
        self.say(_ending(name, item))
        return item

    def _launch(self, name: str, attempt: int) -> None:
        tags = {
            names.TAG_GRID: self.grid,
            names.TAG_SUBMISSION: self.submission,
            names.TAG_JOB: str(self.job.index),
        }
        self.say(f"{self.job.name}: training job {name} in {self.job.region}, {self.job.ranks} ranks")
        try:
            self.backend.start(name, self.job, tags)
        except (LaunchRefusedError, NameTakenError) as error:
            self._record(attempt, {"state": "Failed", "reason": str(error), "training_job": name})
            raise
        except TryAgainError as error:
            self._record(attempt, {"reason": str(error)})
            raise
        self._record(attempt, {"state": "InProgress", "phase": "Starting", "reason": "", "training_job": name})

    def _watch(self, name: str, attempt: int) -> None:
        started = time.monotonic()
        progress, position, last = Progress(self.job.metrics), LogPosition(), None
        while True:
            seen = self.backend.describe(name)
            advanced = self._follow_log(name, position, progress)
            if seen and (advanced or seen != last):
                if last is None or (seen.state, seen.phase) != (last.state, last.phase):
                    self.say(f"{name}: {seen.state} ({seen.phase})")
                self._record(attempt, seen.facts() | ({"progress": progress.values} if progress.values else {}))
            if seen and seen.ended:
                return
            last = seen
            time.sleep(interval_seconds(time.monotonic() - started))

    def _follow_log(self, name: str, position: LogPosition, progress: Progress) -> bool:
        advanced = False
        try:
            for host, line in self.backend.log_lines(name, position):
                self.say(f"[{host}] {line}" if self.job.instance_count > 1 else line)
                advanced |= progress.read(line)
        except LogUnreadableError as error:  # the training job goes on, and so do we; said once, not at every look
            if str(error) != self._log_trouble:
                self._log_trouble = str(error)
                self.say(self._log_trouble)
        return advanced

    def _record(self, attempt: int, facts: Item) -> None:
        self.ledger.record_job(self.submission, self.job.index, attempt, facts)


def _ending(name: str, item: Item) -> str:
    text = f"{name}: {item['state']} after {item.get('training_seconds', 0)} s of training"
    if item.get("reason"):
        text += f": {item['reason']}"
    if item.get("artifact"):
        text += f", model in {item['artifact']}"
    return text
