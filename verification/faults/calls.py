"""E2, E6, E7, E13: lost and late replies, throttled calls, and expired credentials."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from fnmatch import fnmatchcase
from math import ceil

from botocore.exceptions import BotoCoreError

from localcloud.faults.plan import CallFault, Effect, Stub
from traingrid.audit.violation import Violation
from traingrid.kubernetes.errors import UnavailableError
from traingrid.ledger.damage import intact
from traingrid.ledger.errors import UnknownSubmissionError
from traingrid.ledger.timestamps import epoch_seconds
from verification.deployed_grid import BATCH_ENDED, patience, until
from verification.faults.engine import ENGINES
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import otherwise_ended
from verification.faults.submissions import Submission
from verification.faults.table import Outcome

_SENT_ONCE = ("SubmitJob", *(engine.create for engine in ENGINES.values()))
"""Operations that clients do not retry: every reply is lost. Replies of other operations are lost at random."""
_FEW = 2
"""This many lost replies in a row cannot exhaust botocore's retries, even those of the client with the fewest attempts
(traingrid/aws/clients.py). Up to this number, faults therefore strike every call, and chance plays no part."""
_TRAINING_AT_ONCE = 24
"""Children of 0.25 vCPU that fit into a new account's Fargate quota of 6 vCPUs; every line to be cancelled has one."""
_SHORT = Stub(seconds=0.5)
_LONG = Stub(seconds=300.0, stop_seconds=20.0)
"""Stops so slowly that its child is still waiting for it when the child is terminated too."""
_BY_INTAKE = (("s3", "PutObject"), ("dynamodb", "PutItem"), ("dynamodb", "UpdateItem"), ("batch", "SubmitJob"))
_INTAKE_SECONDS = 15
_PERSONS_TRIES = 5
STALL_SECONDS = 65.0
"""Longer than a client's read timeout (traingrid/aws/clients.py)."""
SLOWEST_SECONDS = 3600.0
"""More than the slowest of 200 children needs when 60 % of its calls are throttled; ten minutes were observed."""
STORM_SECONDS = 300.0
_STORM = 0.9
_SLOWEST_SURVIVOR = 15 * STALL_SECONDS
"""More than the unluckiest of 50 children needs, which makes about 35 calls on EKS, each stalled with 5 % chance."""


def lost_replies(grid: FaultyGrid, count: int) -> Outcome:
    """E2: lose `count` replies of every mutating call that the intake, the children and `traingrid cancel` make."""
    struck, few = Counter[str](), list[Violation]()
    with grid.short_lived_intake(_INTAKE_SECONDS):  # a submit with an unknown result is retried only after this time
        _lose(grid, _BY_INTAKE, "lambda/*", count)
        submissions = [grid.submitted(submission) for submission in [grid.upload(2) for _ in range(count)]]
    settled(grid, submissions)
    few += _too_few(_struck(grid), _BY_INTAKE, count)
    struck += _struck(grid)
    by_children = (("dynamodb", "PutItem"), ("dynamodb", "UpdateItem"), (grid.engine.service, grid.engine.create))
    _lose(grid, by_children, "batch/*", count)
    submissions.append(grid.submit(count))
    settled(grid, submissions[-1:])
    few += _too_few(_struck(grid), by_children, count)
    struck += _struck(grid)
    by_cancel = Counter[str]()
    for started in range(0, 2 * count, _TRAINING_AT_ONCE):
        submissions.append(_cancelled_while_training(grid, min(_TRAINING_AT_ONCE, 2 * count - started)))
        by_cancel += _struck(grid)
    few += _too_few(by_cancel, _by_cancel(grid), count)
    struck += by_cancel
    return Outcome(
        volume=f"{sum(struck.values())} lost replies",
        violations=[*grid.audit(*(submission.id for submission in submissions)), *few],
        facts={"by_call": dict(struck), "lines": sum(submission.lines for submission in submissions)},
    )


def _cancelled_while_training(grid: FaultyGrid, lines: int) -> Submission:
    """Cancel lines while they train, and lose replies to these cancels: up to half as many of each call as lines.

    When a training job has stopped already, its child ends by itself, and no terminate call is made for it.
    """
    with grid.children_at_once(lines):
        grid.plan(stubs=(_LONG,))
        submission = grid.submit(lines)
        until(lambda: len(grid.active()) == lines, "every line trains")
        _lose(grid, _by_cancel(grid), "*", lines // 2, _LONG)
        for index in range(lines):
            _cancelled(grid, submission, index)
        settled(grid, [submission], passes=2)
    return submission


def _by_cancel(grid: FaultyGrid) -> tuple[tuple[str, str], ...]:
    """Return the mutating calls of a cancel, which does not end children that watch training jobs on EKS."""
    terminate = (("batch", "TerminateJob"),) if grid.engine.name == "sagemaker" else ()
    return (("dynamodb", "PutItem"), *terminate, (grid.engine.service, grid.engine.stop))


def _cancelled(grid: FaultyGrid, submission: Submission, index: int) -> None:
    """Cancel a line as a user does, who repeats the command if AWS has not answered any of its attempts."""
    for _ in range(_PERSONS_TRIES):
        with suppress(BotoCoreError, UnavailableError):
            if not grid.cancel(submission, index).errors:
                return
    raise TimeoutError(f"job {index} of {submission.id} could not be cancelled in {_PERSONS_TRIES} attempts")


def _too_few(struck: Counter[str], calls: tuple[tuple[str, str], ...], required: int) -> Iterator[Violation]:
    """Yield a violation for each call that lost fewer replies than required, counted over all callers."""
    for call in map(".".join, calls):
        lost = sum(times for label, times in struck.items() if fnmatchcase(label, f"* {call}"))
        if lost < required:
            sentence = f"only {lost} replies to {call} were lost"
            yield Violation(invariant="E2", kind="other", submission="", what=sentence)


def _lose(grid: FaultyGrid, calls: tuple[tuple[str, str], ...], caller: str, times: int, stub: Stub = _SHORT) -> None:
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
    grid.plan(stubs=(stub,), calls=tuple(faults))


def _struck(grid: FaultyGrid) -> Counter[str]:
    calls = (call for _, call in grid.cloud.faults.struck_calls())
    return Counter(f"{call.caller.partition('/')[0] or 'person'}: {call.service}.{call.action}" for call in calls)


def throttled(grid: FaultyGrid, share: float, lines: int) -> Outcome:
    """E6: throttle a share of the children's calls to the engine and DynamoDB, and check that every line completes.

    All children run concurrently, because they only back off and wait, as AWS requests. If nearly all calls were
    throttled, a child would wait for hours; such a storm therefore ends after `STORM_SECONDS`, as outages do.
    """
    services = (grid.engine.service, "dynamodb")
    counted = [_to_all("delay", service, 1.0) for service in services]  # delay of 0 s: only counts
    strikes = [_to_all("throttle", service, share) for service in services]
    grid.plan(stub_seconds=0.5, calls=(*counted, *strikes) if share else tuple(counted))
    effects = Counter[str]()
    with grid.children_at_once(lines):
        submission = grid.submit(lines)
        if share > _STORM:
            time.sleep(STORM_SECONDS)
            effects += _effects(grid)
            grid.plan(stub_seconds=0.5, calls=tuple(counted))
        grid.ended(submission.batch_job, seconds=patience(lines) + SLOWEST_SECONDS)
    settled(grid, [submission])
    until(lambda: grid.recorded(submission), "every end is recorded")
    effects += _effects(grid)
    return Outcome(
        volume=f"{lines} lines" + (f", for {STORM_SECONDS:.0f} s" if share > _STORM else ""),
        struck=effects["throttle"] if share else None,
        violations=[*grid.audit(submission.id), *otherwise_ended(grid, [submission], {"Completed"})],
        facts={
            "calls_per_line": round(effects["delay"] / lines, 1),
            "throttled_per_line": round(effects["throttle"] / lines, 1),
            **_delays(grid, submission),
            "states": dict(Counter(grid.states(submission.id).values())),
            "children": _child_states(grid, submission),
        },
    )


def _effects(grid: FaultyGrid) -> Counter[str]:
    return Counter(fault.effect for fault, _ in grid.cloud.faults.struck_calls())


def stalled(grid: FaultyGrid, lines: int) -> Outcome:
    """E7: delay some replies beyond the caller's timeout, and check that every line completes.

    The delayed calls take effect nevertheless, and the caller repeats them.
    """
    return _survived(grid, lines, CallFault(effect="delay", caller="batch/*", share=0.05, seconds=STALL_SECONDS))


def expired(grid: FaultyGrid, lines: int) -> Outcome:
    """E13: report expired credentials to children repeatedly, and check that every line completes."""
    return _survived(grid, lines, CallFault(effect="expire", caller="batch/*", share=0.2))


def _survived(grid: FaultyGrid, lines: int, fault: CallFault) -> Outcome:
    grid.plan(stub_seconds=0.5, calls=(fault,))
    with grid.children_at_once(lines):
        submission = grid.submit(lines)
        grid.ended(submission.batch_job, seconds=_SLOWEST_SURVIVOR)
        settled(grid, [submission])
    until(lambda: grid.recorded(submission), "every end is recorded")
    return Outcome(
        volume=f"{lines} lines",
        struck=_struck(grid).total(),
        violations=[*grid.audit(submission.id), *otherwise_ended(grid, [submission], {"Completed"})],
        facts={"by_call": dict(_struck(grid)), **_delays(grid, submission)},
    )


def _to_all(effect: Effect, service: str, share: float) -> CallFault:
    return CallFault(effect=effect, service=service, caller="batch/*", share=share)


def _delays(grid: FaultyGrid, submission: Submission) -> dict[str, float]:
    """Return the seconds from the submission until 50 %, 95 % and all of its lines have ended."""
    submission_item = grid.plane.ledger.submission(submission.id)
    if submission_item is None:
        raise UnknownSubmissionError(submission.id)
    began, items = epoch_seconds(submission_item.submitted_at), list(intact(grid.plane.ledger.jobs(submission.id)))
    seconds = sorted(epoch_seconds(item.updated_at) - began for item in items)
    shares = {"p50_seconds": 0.5, "p95_seconds": 0.95, "last_seconds": 1.0}
    return {name: seconds[ceil(share * len(seconds)) - 1] for name, share in shares.items()}


def _child_states(grid: FaultyGrid, submission: Submission) -> dict[str, int]:
    """Return how many children ended in each of Batch's final states."""
    children = grid.plane.batch.children(submission.batch_job, submission.lines)
    return dict(Counter(child["status"] for child in children if child["status"] in BATCH_ENDED))
