"""E2, E6: calls whose replies are lost, and calls that are throttled."""

import time
from collections import Counter

from faults.arena import BATCH_ENDED, Arena, Submission, settled, until
from faults.table import Outcome
from localcloud.faults import CallFault

_BY_INTAKE = (("s3", "PutObject"), ("dynamodb", "PutItem"), ("dynamodb", "UpdateItem"), ("batch", "SubmitJob"))
_BY_CHILDREN = (("dynamodb", "PutItem"), ("dynamodb", "UpdateItem"), ("sagemaker", "CreateTrainingJob"))
_BY_CANCEL = (("dynamodb", "PutItem"), ("batch", "TerminateJob"), ("sagemaker", "StopTrainingJob"))
STORM_SECONDS = 45.0


def lost_replies(arena: Arena, each: int) -> Outcome:
    """E2: lose the reply of every kind of call that changes something, `each` times, in intake, children and cancel."""
    struck: Counter[str] = Counter()
    _lose(arena, _BY_INTAKE, "lambda/*", each)
    submissions = [arena.submitted(submission) for submission in [arena.upload(2) for _ in range(each)]]
    settled(arena, submissions)
    struck += _struck(arena)
    _lose(arena, _BY_CHILDREN, "batch/*", each)
    submissions.append(arena.submit(each))
    settled(arena, submissions[-1:])
    struck += _struck(arena)
    arena.plan(stub_seconds=300.0)
    submissions.append(arena.submit(each))
    until(lambda: len(arena.active()) == each, "every line trains")
    _lose(arena, _BY_CANCEL, "*", each, stub_seconds=300.0)
    for index in range(each):
        arena.cancel(submissions[-1], index)
    settled(arena, submissions[-1:], sweeps=2)
    struck += _struck(arena)
    return Outcome(
        volume=f"{sum(struck.values())} lost replies",
        violations=arena.audit(*(submission.id for submission in submissions)),
        facts={"by_call": dict(struck), "lines": sum(submission.lines for submission in submissions)},
    )


def _lose(arena: Arena, calls: tuple[tuple[str, str], ...], caller: str, times: int, stub_seconds: float = 0.5) -> None:
    faults = [
        CallFault(effect="lose_reply", service=service, action=action, caller=caller, times=times, share=0.7)
        for service, action in calls
    ]
    arena.plan(stub_seconds=stub_seconds, calls=tuple(faults))


def _struck(arena: Arena) -> Counter[str]:
    calls = (call for _, call in arena.cloud.faults.struck_calls())
    return Counter(f"{call.caller.partition('/')[0] or 'person'}: {call.service}.{call.action}" for call in calls)


def throttled(arena: Arena, share: float, lines: int) -> Outcome:
    """E6: throttle a share of what children ask of SageMaker and DynamoDB, and see that they come to their end.

    The highest share is a storm that passes: a child that waits as AWS asks it to needs half an hour to get its dozen
    calls through 95 %, which is right and of no use in a test.
    """
    faults = tuple(
        CallFault(effect="throttle", service=service, caller="batch/*", share=share)
        for service in ("sagemaker", "dynamodb")
        if share
    )
    arena.plan(stub_seconds=0.5, calls=faults)
    started = time.monotonic()
    submission = arena.submit(lines)
    storm = Counter[str]()
    if share > 0.9:
        time.sleep(STORM_SECONDS)
        storm = _struck(arena)
        arena.plan(stub_seconds=0.5)
    settled(arena, [submission])
    ended = _seconds_until_ended(arena, submission, started)
    return Outcome(
        volume=f"{lines} lines at {share:.0%}" + (f" for {STORM_SECONDS:.0f} s" if storm else ""),
        violations=arena.audit(submission.id),
        facts={
            "throttled": sum((storm or _struck(arena)).values()),
            "seconds_until_the_last_line_ended": ended,
            "states": dict(Counter(arena.states(submission.id).values())),
            "children": _child_states(arena, submission),
        },
    )


def _seconds_until_ended(arena: Arena, submission: Submission, started: float) -> float:
    until(lambda: arena.recorded(submission), "every end is recorded")
    return round(time.monotonic() - started, 1)


def _child_states(arena: Arena, submission: Submission) -> dict[str, int]:
    """Return how the children ended, and that none needed more tries than Batch gives."""
    children = arena.plane.batch.children(submission.batch_job, submission.lines)
    return dict(Counter(child["status"] for child in children if child["status"] in BATCH_ENDED))
