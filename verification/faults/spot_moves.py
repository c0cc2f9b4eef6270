"""E29: spot jobs with deadlines that change their Region or their instances, while children are killed at any call."""

import itertools
import json
import random
from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta

from localcloud.faults.plan import CallFault, SpotCapacity
from traingrid import names
from traingrid.audit.violation import Violation
from traingrid.aws.clients import client
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.failures import DEADLINE, SPOT_ELSEWHERE
from traingrid.ledger.damage import intact
from traingrid.ledger.items import JobItem, RecordedAttempt
from traingrid.ledger.shortages import ended
from verification.deployed_grid import until
from verification.faults.account import ACCOUNT
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import KILLS, kills_of, otherwise_ended, states
from verification.faults.live_jobs import Monitor
from verification.faults.races import SHUFFLED, count_created
from verification.faults.submissions import REGIONS, Submission
from verification.faults.table import Outcome

_LINES_AT_ONCE = 12
_ABSENT_SECONDS = (45.0, 15.0)
"""The times for which the Regions have no spot instances."""
_CAPACITY = tuple(
    SpotCapacity(region=region, trace=((0.0, False), (seconds, True)))
    for region, seconds in zip(REGIONS, _ABSENT_SECONDS, strict=True)
)
_FOLDER = "checkpoint-000001-step-000000001"
_FILES = {f"part-{number}": [1, "c"] for number in range(4)}
_STATE = f"{_FOLDER}/state.json"
_OBJECTS = {
    **{f"{_FOLDER}/{name}": b"x" for name in _FILES},
    _STATE: json.dumps({"files": _FILES, "best": False}).encode(),
}
"""A complete checkpoint, which each line has from the beginning: the stubs of training jobs write none."""
_MOMENTS = (
    ("sagemaker", "StopTrainingJob", 1),
    ("s3", "CopyObject", len(_OBJECTS)),
    ("dynamodb", "UpdateItem", 12),
    ("*", "*", 60),
)
"""The calls at which a child is killed: service, operation, and an upper bound of its number. A child that moves with a
checkpoint makes about 60 calls."""


def moved(grid: FaultyGrid, lines: int) -> Outcome:
    """E29: kill each line's child at its calls while it decides, stops, copies its checkpoint, and continues.

    At first no Region has spot instances, and half of the lines have a replica. In every other round the lines have so
    little time that those that wait must change to instances on demand. A line may never have two training
    jobs, nor begin with a part of a checkpoint.
    """
    chance, struck, submissions = random.Random(grid.seed), list[str](), list[Submission]()  # noqa: S311 - moments
    monitor = Monitor(grid=grid)
    with monitor.watching():
        for start in range(0, lines, _LINES_AT_ONCE):
            for shortage in intact(grid.plane.ledger.shortages()):
                grid.plane.ledger.replace_shortage(shortage, ended(shortage))
            some = max(4, min(_LINES_AT_ONCE, lines - start))
            kills = (*_kills(some, chance), *SHUFFLED)
            with grid.children_at_once(2 * _LINES_AT_ONCE):
                id_of_submission = grid.upload(some, retries=20, fields=_fields(is_urgent=start % 24 > 0))
                _write_checkpoints(id_of_submission, some)
                grid.plan(stub_seconds=3.0, spot=_CAPACITY, calls=kills)
                submissions.append(grid.submitted(id_of_submission))
                again = grid.submit_again(submissions[-1])
                settled(grid, submissions[-1:])
                grid.at_rest(again)
            struck += kills_of(grid)
    for submission in submissions:
        until(lambda current=submission: grid.recorded(current), "every end is recorded")  # type: ignore[misc]  # see kills.py
    ids = [submission.id for submission in submissions]
    items = [item for submission in ids for item in intact(grid.plane.ledger.jobs(submission))]
    return Outcome(
        volume=f"{len(struck)} kills, {len(items)} lines",
        struck=len(struck),
        violations=[
            *grid.audit(*ids),
            *otherwise_ended(grid, submissions, {"Completed"}),
            *monitor.found.values(),
            *_copies_of_parts(grid, items),
            *_unused(items),
        ],
        facts={
            "kills_by_call": dict(Counter(struck)),
            "states": states(grid, submissions),
            "training_jobs": count_created(grid, ids),
            "earlier_attempts": dict(_earlier(items)),
            "copies": sum(bool(attempt.checkpoint_from) for item in items for attempt in item.attempts().values()),
        },
    )


def _fields(*, is_urgent: bool) -> Mapping[str, str]:
    """Return the fields of the lines.

    Urgent ones have time for two restarts of 12 minutes, two looks, twice their duration, because they report no
    epochs, and 25 s.
    """
    seconds = 2 * (720 + 60) + 2 * 60 + 25 if is_urgent else 6 * 3600
    finish_by = datetime.now(UTC) + timedelta(seconds=seconds)
    return {"spot": "true", "finish_by": f"{finish_by:%Y-%m-%dT%H:%M:%SZ}", "estimated_runtime": "1m"}


def _folder(submission: str, index: int, region: str) -> S3Uri:
    return S3Uri.parse(names.checkpoint_prefix(names.output_prefix("grid", ACCOUNT, region, submission, index)))


def _write_checkpoints(submission: str, lines: int) -> None:
    """Write the checkpoint of each line into its own Region."""
    for index, (name, body) in itertools.product(range(lines), _OBJECTS.items()):
        region = REGIONS[index % 2]
        uri = _folder(submission, index, region) / name
        client("s3", region).put_object(Bucket=uri.bucket, Key=uri.key, Body=body)


def _kills(lines: int, chance: random.Random) -> Iterator[CallFault]:
    """Yield a kill for each line, and for half of them another one at their child's next try."""
    for index in range(lines):
        for attempt in range(1, 2 + (chance.random() < 0.5)):
            service, action, most = chance.choice(_MOMENTS)
            yield CallFault(
                effect=chance.choice(KILLS),
                service=service,
                action=action,
                nth=chance.randint(1, most),
                caller=f"batch/*:{index}/{attempt}",
                host_lost=chance.random() < 0.5,
            )


def _earlier(items: list[JobItem]) -> Counter[str]:
    return Counter(attempt.failure for item in items for attempt in item.tried)


def _copies_of_parts(grid: FaultyGrid, items: list[JobItem]) -> Iterator[Violation]:
    """Yield a violation for each training job that was created before the last object of its checkpoint was copied."""
    created = {
        entry["parameters"]["TrainingJobName"]: entry["seq"]
        for entry in reversed(grid.cloud.record.entries("sagemaker", "CreateTrainingJob"))
    }
    copied = {
        (entry["parameters"]["Bucket"], entry["parameters"]["Key"]): entry["seq"]
        for entry in reversed(grid.cloud.record.entries("s3", "CopyObject"))
    }
    for item in items:
        for attempt in item.attempts().values():
            if attempt.checkpoint_from and not _is_whole(item, attempt, created, copied):
                text = f"{attempt.training_job} began with a part of the checkpoint of {attempt.checkpoint_from}"
                yield Violation(invariant="E29", kind="other", submission=item.submission, what=text)


def _is_whole(
    item: JobItem, attempt: RecordedAttempt, created: Mapping[str, int], copied: Mapping[tuple[str, str], int]
) -> bool:
    folder = _folder(item.submission, item.index, attempt.region)
    ends = [copied.get((folder.bucket, (folder / name).key)) for name in _OBJECTS]
    return all(end is not None and end < created[attempt.training_job] for end in ends)


def _unused(items: list[JobItem]) -> Iterator[Violation]:
    """Yield a violation for each kind of change that no line has made, because the experiment then proves less."""
    for failure in {SPOT_ELSEWHERE.name, DEADLINE.name} - _earlier(items).keys():
        yield Violation(invariant="E29", kind="other", submission="", what=f"no attempt ended with {failure}")
