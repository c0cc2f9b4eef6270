"""Training: a fake training service and a fake clock."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace

from traingrid.aws.log_events import LogPosition
from traingrid.backends.base import LaunchError, StopReason
from traingrid.child.attempt import Clock
from traingrid.job.failures import SERVICE_ERROR
from traingrid.job.job import Job
from traingrid.job.observed import TrainingJobDescription
from traingrid.job.ownership import conflict
from traingrid.job.state import JobState

FIRST_MOMENT = 1_790_000_000
"""The time at which a fake clock begins, in seconds since 1970."""
TRAINING = TrainingJobDescription(state=JobState.IN_PROGRESS, phase="Training", arn="arn:x")
COMPLETED = TrainingJobDescription(
    state=JobState.COMPLETED,
    phase="Completed",
    arn="arn:x",
    artifact="s3://out/model.tar.gz",
    metrics={"validation_top1": 0.97},
    training_seconds=12,
    billable_seconds=12,
)
STOPPED = TrainingJobDescription(state=JobState.STOPPED, phase="Stopped", arn="arn:x")
NO_CAPACITY = TrainingJobDescription(
    state=JobState.FAILED,
    phase="Failed",
    reason="CapacityError: Unable to provision requested ML compute capacity.",
)


@dataclass
class FakeTime:
    """A clock that advances by sleeps; `naps` holds their durations, and `on_sleep` is called during each."""

    seconds: float = 0.0
    naps: list[float] = field(default_factory=list)
    on_sleep: Callable[[], None] = lambda: None

    def sleep(self, seconds: float) -> None:
        self.seconds += seconds
        self.naps.append(seconds)
        self.on_sleep()

    @property
    def clock(self) -> Clock:
        return Clock(now=lambda: self.seconds, sleep=self.sleep, wall=lambda: FIRST_MOMENT + self.seconds)


class FakeBackend:
    """A training service of one Region with scripted jobs, which advance one step at each description.

    Attributes:
        created: The names of all training jobs, in the order of their creation; `jobs` holds their requests.
        stopped: The names of stopped training jobs; `stop_reasons` holds the reasons.
        refusals: The errors of the next creations, in order, before one is accepted.
        unseen: The number of descriptions that do not find a new job yet.
        loses_reply: Whether creations are accepted but their replies are lost.
        on_create: Called while a job is being created.
        theirs: The fingerprint of another training job with our name; `their_tags` holds its tags.
    """

    def __init__(self, *script: TrainingJobDescription, lines: tuple[str, ...] = ()) -> None:
        self.script = list(script)
        self.lines = lines
        self.refusals: list[LaunchError] = []
        self.log_trouble: Exception | None = None
        self.created: list[str] = []
        self.jobs: list[Job] = []
        self.stopped: list[str] = []
        self.stop_reasons: list[StopReason] = []
        self.unseen = 0
        self.loses_reply = False
        self.on_create: Callable[[], None] = lambda: None
        self.theirs = ""
        self.their_tags: dict[str, str] | None = {}

    def attach(self, name: str, _job: Job, _tags: dict[str, str]) -> TrainingJobDescription | None:
        seen = self.describe(name)
        if seen and seen.fingerprint:
            raise LaunchError(*conflict("traingrid", self.their_tags or {}, seen, "ours"))
        return seen

    def start(self, name: str, job: Job, tags: dict[str, str]) -> TrainingJobDescription | None:
        seen = self.attach(name, job, tags)
        if seen:
            return seen
        if name in self.created:
            raise LaunchError(SERVICE_ERROR, "ResourceInUse", unresolved=True)
        if self.refusals:
            raise self.refusals.pop(0)
        self.on_create()
        self.created.append(name)
        self.jobs.append(job)
        if self.loses_reply:
            raise LaunchError(SERVICE_ERROR, "no answer", unresolved=True)
        return None

    def describe(self, name: str) -> TrainingJobDescription | None:
        if self.theirs:
            return replace(TRAINING, fingerprint=self.theirs)
        if name not in self.created:
            return None
        if self.unseen:
            self.unseen -= 1
            return None
        return self.script.pop(0) if len(self.script) > 1 else self.script[0]

    def tags(self, _seen: TrainingJobDescription) -> dict[str, str] | None:
        return self.their_tags

    def has_news(self, _name: str) -> bool:
        return False

    def stop(self, name: str, reason: StopReason = "cancel", /) -> None:
        self.stopped.append(name)
        self.stop_reasons.append(reason)
        self.script = [replace(TRAINING, state=JobState.STOPPING, phase="Stopping"), STOPPED]

    def fingerprint(self, _name: str, _job: Job) -> str:
        return ""

    def log_lines(self, name: str, position: LogPosition, **how: bool) -> Iterator[tuple[str, str]]:
        start = int(position.get("stream", "0"))
        position["stream"] = str(len(self.lines))
        yield from (("algo-1", line) for line in self.lines[start:])
        if self.log_trouble:
            raise self.log_trouble
