"""E2, E6, E7, E13: lost and late replies, throttled calls, and expired credentials."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from math import ceil

from botocore.exceptions import BotoCoreError

from faults.arena import BATCH_ENDED, Arena, Submission, settled, until
from faults.kills import otherwise_ended
from faults.table import Outcome
from localcloud.faults import CallFault, Effect, Stub
from rehearsal.stage import patience
from traingrid.audit.violation import Violation
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.ledger.timestamps import epoch_seconds

_SENT_ONCE = ("SubmitJob", "CreateTrainingJob")
"""Operations that botocore does not retry: every reply is lost. Replies of other operations are lost at random."""
_FEW = 2
"""This many lost replies in a row cannot exhaust botocore's retries, even those of the client with the fewest attempts
(traingrid/aws/clients.py). Up to this number, faults therefore strike every call, and chance plays no part."""
_TRAINING_AT_ONCE = 24
"""Children of 0.25 vCPU that fit into a new account's Fargate quota of 6 vCPUs; every line to be cancelled has one."""
_SHORT = Stub(seconds=0.5)
_LONG = Stub(seconds=300.0, stop_seconds=20.0)
"""Stops so slowly that its child is still waiting for it when the child is terminated too."""
_BY_INTAKE = (("s3", "PutObject"), ("dynamodb", "PutItem"), ("dynamodb", "UpdateItem"), ("batch", "SubmitJob"))
_BY_CHILDREN = (("dynamodb", "PutItem"), ("dynamodb", "UpdateItem"), ("sagemaker", "CreateTrainingJob"))
_BY_CANCEL = (("dynamodb", "PutItem"), ("batch", "TerminateJob"), ("sagemaker", "StopTrainingJob"))
_INTAKE_SECONDS = 15
_PERSONS_TRIES = 5
STALL_SECONDS = 65.0
"""Longer than a client's read timeout (traingrid/aws/clients.py)."""
SLOWEST_SECONDS = 3600.0
"""More than the slowest of 200 children needs when 60 % of its calls are throttled; ten minutes were observed."""
STORM_SECONDS = 300.0
_STORM = 0.9


def lost_replies(arena: Arena, each: int) -> Outcome:
    """E2: lose `each` replies of every mutating call that the intake, the children and `traingrid cancel` make."""
    struck, few = Counter[str](), list[Violation]()
    with arena.short_lived_intake(_INTAKE_SECONDS):  # a submit with an unknown result is retried only after this time
        _lose(arena, _BY_INTAKE, "lambda/*", each)
        submissions = [arena.submitted(submission) for submission in [arena.upload(2) for _ in range(each)]]
    settled(arena, submissions)
    few += _too_few(_struck(arena), _BY_INTAKE, each)
    struck += _struck(arena)
    _lose(arena, _BY_CHILDREN, "batch/*", each)
    submissions.append(arena.submit(each))
    settled(arena, submissions[-1:])
    few += _too_few(_struck(arena), _BY_CHILDREN, each)
    struck += _struck(arena)
    by_cancel = Counter[str]()
    for begun in range(0, 2 * each, _TRAINING_AT_ONCE):
        submissions.append(_cancelled_while_training(arena, min(_TRAINING_AT_ONCE, 2 * each - begun)))
        by_cancel += _struck(arena)
    few += _too_few(by_cancel, _BY_CANCEL, each)
    struck += by_cancel
    return Outcome(
        volume=f"{sum(struck.values())} lost replies",
        violations=[*arena.audit(*(submission.id for submission in submissions)), *few],
        facts={"by_call": dict(struck), "lines": sum(submission.lines for submission in submissions)},
    )


def _cancelled_while_training(arena: Arena, lines: int) -> Submission:
    """Cancel lines while they train, and lose replies to these cancels: up to half as many of each call as lines.

    When a training job has stopped already, its child ends by itself, and no terminate call is made for it.
    """
    with arena.children_at_once(lines):
        arena.plan(stubs=(_LONG,))
        submission = arena.submit(lines)
        until(lambda: len(arena.active()) == lines, "every line trains")
        _lose(arena, _BY_CANCEL, "*", lines // 2, _LONG)
        for index in range(lines):
            _cancelled(arena, submission, index)
        settled(arena, [submission], sweeps=2)
    return submission


def _cancelled(arena: Arena, submission: Submission, index: int) -> None:
    """Cancel a line as a user does, who repeats the command if AWS has not answered any of its attempts."""
    for _ in range(_PERSONS_TRIES):
        with suppress(BotoCoreError):
            if not arena.cancel(submission, index).errors:
                return
    raise TimeoutError(f"job {index} of {submission.id} could not be cancelled in {_PERSONS_TRIES} attempts")


def _too_few(struck: Counter[str], calls: tuple[tuple[str, str], ...], each: int) -> Iterator[Violation]:
    """Yield a violation for each call that lost fewer replies than required, counted over all callers."""
    for call in map(".".join, calls):
        lost = sum(times for label, times in struck.items() if label.endswith(f" {call}"))
        if lost < each:
            what = f"only {lost} replies to {call} were lost"
            yield Violation(invariant="E2", kind="other", submission="", what=what)


def _lose(arena: Arena, calls: tuple[tuple[str, str], ...], caller: str, times: int, stub: Stub = _SHORT) -> None:
    faults = [
        CallFault(
            effect="lose_reply",
            service=service,
            action=action,
            caller=caller,
            times=times,
            share=1.0 if action in _SENT_ONCE or times <= _FEW else 0.7,
        )
        for service, action in calls
    ]
    arena.plan(stubs=(stub,), calls=tuple(faults))


def _struck(arena: Arena) -> Counter[str]:
    calls = (call for _, call in arena.cloud.faults.struck_calls())
    return Counter(f"{call.caller.partition('/')[0] or 'person'}: {call.service}.{call.action}" for call in calls)


def throttled(arena: Arena, share: float, lines: int) -> Outcome:
    """E6: throttle a share of the children's calls to SageMaker and DynamoDB, and check that every line completes.

    All children run concurrently, because they only back off and wait, as AWS requests. If nearly all calls were
    throttled, a child would wait for hours; such a storm therefore ends after `STORM_SECONDS`, as outages do.
    """
    counted = [_to_all("delay", service, 1.0) for service in ("sagemaker", "dynamodb")]  # delay of 0 s: only counts
    strikes = [_to_all("throttle", service, share) for service in ("sagemaker", "dynamodb")]
    arena.plan(stub_seconds=0.5, calls=(*counted, *strikes) if share else tuple(counted))
    effects = Counter[str]()
    with arena.children_at_once(lines):
        submission = arena.submit(lines)
        if share > _STORM:
            time.sleep(STORM_SECONDS)
            effects += _effects(arena)
            arena.plan(stub_seconds=0.5, calls=tuple(counted))
        arena.ended(submission.batch_job, seconds=patience(lines) + SLOWEST_SECONDS)
    settled(arena, [submission])
    until(lambda: arena.recorded(submission), "every end is recorded")
    effects += _effects(arena)
    return Outcome(
        volume=f"{lines} lines" + (f", for {STORM_SECONDS:.0f} s" if share > _STORM else ""),
        struck=effects["throttle"] if share else None,
        violations=[*arena.audit(submission.id), *otherwise_ended(arena, [submission], {"Completed"})],
        facts={
            "calls_per_line": round(effects["delay"] / lines, 1),
            "throttled_per_line": round(effects["throttle"] / lines, 1),
            **_delays(arena, submission),
            "states": dict(Counter(arena.states(submission.id).values())),
            "children": _child_states(arena, submission),
        },
    )


def _effects(arena: Arena) -> Counter[str]:
    return Counter(fault.effect for fault, _ in arena.cloud.faults.struck_calls())


def stalled(arena: Arena, lines: int) -> Outcome:
    """E7: delay some replies beyond the caller's timeout, and check that every line completes.

    The delayed calls take effect nevertheless, and the caller repeats them.
    """
    return _survived(arena, lines, CallFault(effect="delay", caller="batch/*", share=0.05, seconds=STALL_SECONDS))


def expired(arena: Arena, lines: int) -> Outcome:
    """E13: report expired credentials to children repeatedly, and check that every line completes."""
    return _survived(arena, lines, CallFault(effect="expire", caller="batch/*", share=0.2))


def _survived(arena: Arena, lines: int, fault: CallFault) -> Outcome:
    arena.plan(stub_seconds=0.5, calls=(fault,))
    with arena.children_at_once(lines):
        submission = arena.submit(lines)
        settled(arena, [submission])
    until(lambda: arena.recorded(submission), "every end is recorded")
    return Outcome(
        volume=f"{lines} lines",
        struck=_struck(arena).total(),
        violations=[*arena.audit(submission.id), *otherwise_ended(arena, [submission], {"Completed"})],
        facts={"by_call": dict(_struck(arena)), **_delays(arena, submission)},
    )


def _to_all(effect: Effect, service: str, share: float) -> CallFault:
    return CallFault(effect=effect, service=service, caller="batch/*", share=share)


def _delays(arena: Arena, submission: Submission) -> dict[str, float]:
    """Return the seconds from the submission until 50 %, 95 % and all of its lines have ended."""
    head = arena.plane.ledger.submission(submission.id)
    if head is None:
        raise UnknownSubmissionError(submission.id)
    begun, items = epoch_seconds(head.submitted_at), list(arena.plane.ledger.jobs(submission.id))
    seconds = sorted(epoch_seconds(item.updated_at) - begun for item in items)
    shares = {"p50_seconds": 0.5, "p95_seconds": 0.95, "last_seconds": 1.0}
    return {name: seconds[ceil(share * len(seconds)) - 1] for name, share in shares.items()}


def _child_states(arena: Arena, submission: Submission) -> dict[str, int]:
    """Return how many children ended in each of Batch's final states."""
    children = arena.plane.batch.children(submission.batch_job, submission.lines)
    return dict(Counter(child["status"] for child in children if child["status"] in BATCH_ENDED))
