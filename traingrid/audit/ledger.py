"""Audit of the ledger: checks that no line is lost (I1), and that recorded outcomes match SageMaker (I4)."""

from collections.abc import Iterable, Iterator

from traingrid.audit.snapshot import SETTLED_SECONDS, World
from traingrid.audit.violation import Violation
from traingrid.backends.training_job import TrainingJob, owns
from traingrid.job.backend_traits import TRAITS
from traingrid.job.failures import TAKEN_NAMES
from traingrid.job.state import FINAL_STATES, JobState
from traingrid.ledger.items import JobItem, Line, RecordedAttempt
from traingrid.ledger.submission_item import SubmissionItem
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.submission.batch_children import GONE

_DETAILS = ("artifact", "billable_seconds")
"""The attributes of `Details` that the ledger also records of an attempt, under the same names."""


def damaged_items(world: World) -> Iterator[Violation]:
    """Find items that cannot be read (I1): the states of their lines are unknown."""
    for part in world.damaged:
        yield Violation(invariant="I1", kind="other", submission=part.submission, what=part.sentence.rstrip("."))


def lost_submissions(world: World) -> Iterator[Violation]:
    """Find submissions that were claimed and never submitted to Batch (I1)."""
    for submission, submission_item in world.submissions.items():
        is_late = world.at_rest or world.read_at - epoch_seconds(submission_item.claimed_at) > SETTLED_SECONDS
        if not submission_item.is_submitted and is_late:
            sentence = f"submission {submission} was claimed at {submission_item.claimed_at} and never submitted"
            yield Violation(invariant="I1", kind="lost", submission=submission, what=sentence)


def lost_lines(world: World) -> Iterator[Violation]:
    """Find lines that have not ended and that no child or training job is responsible for (I1)."""
    running = {job.line for job in world.training_jobs if job.is_active and owns(world.lines.get(job.line), job)}
    for submission, submission_item in world.submissions.items():
        if submission_item.is_submitted:
            for index in range(submission_item.jobs):
                line = submission, index
                item = world.lines.get(line)
                if item is None and world.may_have(submission, index):
                    continue
                if not _is_accounted_for(world, line, item, submission_item, running=line in running):
                    sentence = f"job {index} of {submission} {_why_lost(item)}"
                    yield Violation(invariant="I1", kind="lost", submission=submission, what=sentence)
    for submission, index in world.lines:
        if world.may_have(submission):
            continue
        if submission not in world.submissions or index >= world.submissions[submission].jobs:
            sentence = f"the ledger has job {index} of {submission}, which is not in its manifest"
            yield Violation(invariant="I1", kind="other", submission=submission, what=sentence)


def _is_accounted_for(
    world: World, line: Line, item: JobItem | None, submission_item: SubmissionItem, *, running: bool
) -> bool:
    if item and item.state in FINAL_STATES:
        return True
    if world.at_rest:
        return False
    age = world.read_at - (item or submission_item).changed_at
    return running or age < SETTLED_SECONDS or world.children.get(line, "UNKNOWN") not in GONE


def _why_lost(item: JobItem | None) -> str:
    if item:
        return f"is {item.state} (attempt {item.attempt}), but no child or training job is running for it"
    return "has no ledger item, and no child or training job is running for it"


def changed_ends(world: World) -> Iterator[Violation]:
    """Find lines whose final state has changed although they are still at the same attempt (I1)."""
    previous = world.before.lines if world.before else {}
    for (submission, index), was in previous.items():
        item = world.lines.get((submission, index))
        if item is None and world.may_have(submission, index):
            continue
        same = item is None or item.attempt <= was.attempt
        state = item.state if item else "gone"
        if was.state in FINAL_STATES and same and state != was.state:
            sentence = f"job {index} of {submission} had ended {was.state} and is {state} now"
            yield Violation(invariant="I1", kind="other", submission=submission, what=sentence)


def deleted_since(world: World) -> list[str]:
    """Return the names of recorded training jobs that a service has lost, although it keeps them: no violation.

    A cluster does not keep objects: a stopped one is deleted at once, and the others by the reconciler days later.
    """
    listed_names = {job.name for job in world.training_jobs}
    ended_items = (item for item in world.lines.values() if item.state in FINAL_STATES and item.training_job_arn)
    kept_items = (item for item in ended_items if item.training_job and TRAITS[item.backend].keeps_jobs)
    return sorted({item.training_job for item in kept_items} - listed_names)


def untrue_ends(world: World) -> Iterator[Violation]:
    """Find outcomes in the ledger that differ from SageMaker's (I4)."""
    job_by_attempt = {(job.line, job.identity.attempt): job for job in world.training_jobs}
    for line, item in world.lines.items():
        for number, attempt in item.attempts().items():
            details = [name for name in _DETAILS if number == item.attempt or getattr(attempt, name) is not None]
            for sentence in _outcome_differences(attempt, job_by_attempt.get((line, number)), line, details):
                yield Violation(invariant="I4", kind="other", submission=line[0], what=sentence)


def _outcome_differences(
    recorded: RecordedAttempt, job: TrainingJob | None, line: Line, details: Iterable[str]
) -> Iterator[str]:
    """Yield the differences between the recorded outcome of an attempt and its training job.

    Args:
        details: The names of the details to compare; of earlier attempts the ledger keeps only some.
    """
    if recorded.state not in FINAL_STATES:
        return
    if job is None:
        if recorded.state == JobState.COMPLETED and not recorded.training_job_arn:  # one with an ARN was deleted since
            number = recorded.attempt
            yield f"job {line[1]} of {line[0]} is Completed, but SageMaker has no training job of attempt {number}"
        return
    # The line was closed before the ledger had seen a training job; one that was created later was stopped at once.
    was_described = bool(recorded.training_job_arn) or recorded.billable_seconds is not None
    closed_before = job.state == JobState.STOPPED and not was_described
    if job.is_active or closed_before or job.ours is False or recorded.failure in TAKEN_NAMES:
        return
    if recorded.state != job.state:
        yield f"{job.name} in {job.region} ended as {job.state}, but the ledger has {recorded.state}"
    if job.details and job.details.is_exact:
        for name in details:
            value = getattr(job.details, name)
            kept_value = getattr(recorded, name)
            if (kept_value or None) != (value or None):
                yield f"{name} of {job.name} is {value!r}, but the ledger has {kept_value!r}"
