"""Audit of training jobs: none duplicated (I2), orphaned (I3), running after a cancel (I5) or misplaced (I7)."""

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import pairwise

from traingrid.audit.snapshot import SETTLED_SECONDS, World
from traingrid.audit.violation import Violation
from traingrid.backends.training_job import TrainingJob, is_strangers, owns
from traingrid.ledger.items import Line, attempts
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.ledger.user_requests import is_cancelled

# A CreateTrainingJob request may be in flight while a cancel is recorded. It is answered or times out within 70 s: 10 s
# to connect and 60 s to read (traingrid/aws/clients.py). The same again allows for the difference between two clocks.
_IN_FLIGHT_SECONDS = 140
# The ledger records whole seconds; SageMaker records fractions of a second.
_ROUNDING_SECONDS = 1


def duplicate_training_jobs(world: World) -> Iterator[Violation]:
    """Find lines with two training jobs at the same time (I2)."""
    by_line: dict[Line, list[TrainingJob]] = defaultdict(list)
    for job in sorted(world.training_jobs, key=lambda job: (job.identity.attempt, job.created_at)):
        by_line[job.line].append(job)
    for (submission, index), jobs in by_line.items():
        for previous, later in pairwise(jobs):
            if later.identity.attempt == previous.identity.attempt:
                sentence = f"{later.name} exists in {previous.region} and in {later.region}"
            elif previous.is_active:
                sentence = f"{later.name} was created while {previous.name} in {previous.region} is {previous.state}"
            elif previous.ended_at and later.created_at < previous.ended_at - _ROUNDING_SECONDS:
                sentence = f"{later.name} was created before {previous.name} had ended"
            else:
                continue
            sentence = f"job {index} of {submission} has two training jobs: {sentence}"
            yield Violation(invariant="I2", kind="duplicate", submission=submission, what=sentence)


def orphans(world: World) -> Iterator[Violation]:
    """Find running training jobs without a line that has not ended, and ended ones that no line records (I3)."""
    for job in world.training_jobs:
        item = world.lines.get(job.line)
        submission, index = job.line
        if is_strangers(item, job) or (item is None and world.may_have(submission, index)):
            continue
        if job.is_active and not owns(item, job) and (world.at_rest or job.state != "Stopping"):
            owner = f"its line is {item.state} at attempt {item.attempt}" if item else "it has no line"
            if job.orphaned_pods:
                owner = f"its object is gone, but not its pods: {', '.join(job.orphaned_pods)}"
            sentence = f"{job.name} in {job.region} is {job.state}, and {owner}"
            yield Violation(invariant="I3", kind="orphan", submission=submission, what=sentence)
        elif not job.is_active and job.identity.attempt not in attempts(item):
            sentence = (
                f"{job.name} in {job.region} ended as {job.state}, but the ledger has no such attempt at job {index}"
            )
            yield Violation(invariant="I3", kind="other", submission=submission, what=sentence)


def uncancelled(world: World) -> Iterator[Violation]:
    """Find training jobs that run, or were created, after their line was cancelled (I5)."""
    for submission, intents in world.cancels.items():
        for scope, intent in intents.items():
            yield from _late_cancels(world, submission, scope, intent.at)


def _late_cancels(world: World, submission: str, scope: str, requested_at: str) -> Iterator[Violation]:
    """Yield the training jobs of one cancel that still run, or were created later than a request in flight explains."""
    if not requested_at:
        return  # the item is damaged, so it is not known when the cancel was due
    requested_time = epoch_seconds(requested_at)
    due = world.at_rest or world.read_at - requested_time > SETTLED_SECONDS
    late_counts: Counter[Line] = Counter()
    for job in world.training_jobs:
        item = world.lines.get(job.line)
        if job.line[0] != submission or not is_cancelled({scope}, job.line[1], job.region) or is_strangers(item, job):
            continue
        seconds_late = job.created_at - requested_time
        late_counts[job.line] += seconds_late > _ROUNDING_SECONDS
        if job.is_active and due:
            sentence = f"{job.name} in {job.region} is {job.state} though it was cancelled at {requested_at}"
        elif seconds_late > _IN_FLIGHT_SECONDS or (seconds_late > _ROUNDING_SECONDS and late_counts[job.line] > 1):
            sentence = f"{job.name} was created {seconds_late:.0f} s after its line was cancelled"
        else:
            continue
        yield Violation(invariant="I5", kind="other", submission=submission, what=sentence)


def misplaced(world: World) -> Iterator[Violation]:
    """Find training jobs whose Region or role differs from their line's (I7)."""
    for job in world.training_jobs:
        item = world.lines.get(job.line)
        attempt = attempts(item).get(job.identity.attempt)
        if is_strangers(item, job):
            continue
        role = job.details.role if job.details else ""
        if attempt and attempt.region != job.region:
            sentence = f"{job.name} is in {job.region}, but its line is for {attempt.region}"
        elif role and role != world.roles.get(job.region, role):
            sentence = f"{job.name} runs as {role}, not as the execution role of {job.region}"
        else:
            continue
        yield Violation(invariant="I7", kind="other", submission=job.line[0], what=sentence)
