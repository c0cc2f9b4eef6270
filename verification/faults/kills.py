"""E1: children killed before and after every call, combined with other faults."""

import random
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field
from itertools import cycle, islice
from typing import Any, Literal

from localcloud.faults.plan import CallFault, Capacity, CapacityQuota, EventFault, Lag, Stub
from traingrid.audit.violation import Violation
from traingrid.ledger.damage import intact
from verification.deployed_grid import until
from verification.faults.engine import Engine
from verification.faults.faulty_grid import ENDLESS_SECONDS, FaultyGrid, settled
from verification.faults.races import CLAIM, SHUFFLED, cancel_each, count_created
from verification.faults.submissions import Submission
from verification.faults.table import Outcome

Kill = Literal["kill_before", "kill_after"]
KILLS: tuple[Kill, Kill] = ("kill_before", "kill_after")
_LINES_AT_ONCE = 150
_AGAIN = 0.3
"""Share of the children whose next attempt is killed as well, at any of its calls."""

_UNHEARD = (EventFault(source="aws.sagemaker", drop=1.0),)
"""Without these events, only the children can record the result of a training job in the ledger."""

_PODS = 2
"""Pods that a namespace may have at the same time, in the scenario with a quota."""

_LOST = "NodeShutdown: Pod was terminated in response to imminent node shutdown."
_NO_CAPACITY = "CapacityError: Unable to provision requested ML compute capacity. Please retry."


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """Faults and conditions that children experience in addition to being killed.

    Attributes:
        calls: Upper bound on the calls of a child's attempt at which it can be killed; later kills do not happen.
        parts: Fields of a plan, used by the submissions in turn.
        states: States in which lines may end.
        killed_first: Kill every child right after its create, and apply `calls` to its next attempt.
        retries: The lines' `retries` field.
        fields: Additional fields of the lines.
        at: Returns the calls to kill at, as service, operation and the smallest ordinal of its call; every call if
            empty.
        meanwhile: Function that is called once a submission's children run.
    """

    calls: int
    parts: tuple[dict[str, Any], ...]
    states: frozenset[str] = frozenset({"Completed"})
    killed_first: bool = False
    retries: int = 0
    fields: Mapping[str, str] = field(default_factory=dict)
    at: Callable[[Engine], tuple[tuple[str, str, int], ...]] = field(default=lambda _: ())
    meanwhile: Callable[[FaultyGrid, Submission, random.Random], None] = field(default=lambda *_: None)


SCENARIOS = {
    "fresh": Scenario(calls=14, parts=({"stub_seconds": 0.5},)),
    "attach": Scenario(calls=12, parts=({"stub_seconds": 2.0, "events": _UNHEARD},), killed_first=True),
    "quota": Scenario(calls=24, parts=({"stub_seconds": 0.5, "quotas": (CapacityQuota(instances=2),)},)),
    "capacity": Scenario(
        calls=26,
        parts=(
            {"stub_seconds": 0.5, "stubs": (Stub(name="*-1", seconds=0.2, outcome="Failed", reason=_NO_CAPACITY),)},
            {"stub_seconds": 0.5, "capacity": (Capacity(region="us-east-1", times=3, seconds=0.2),)},
        ),
        retries=5,
    ),
    "retry": Scenario(
        calls=26,
        parts=({"stub_seconds": 0.5, "stubs": (Stub(name="*-1", seconds=0.2, outcome="Failed", reason=_LOST),)},),
        retries=5,
    ),
    "streams": Scenario(
        calls=24,
        parts=({"stub_seconds": 0.5},),
        fields={"input_mode": "Pipe", "streams": "rank", "processes_per_host": "2"},
    ),
    "lag": Scenario(
        calls=14, parts=tuple({"stub_seconds": 0.5, "lags": (Lag(seconds=seconds),)} for seconds in (1.0, 5.0, 2.5))
    ),
    "cancel": Scenario(
        calls=12,
        parts=({"stub_seconds": ENDLESS_SECONDS, "calls": (CLAIM, *SHUFFLED)},),
        states=frozenset({"Stopped"}),
        meanwhile=cancel_each,
    ),
    "finish": Scenario(
        calls=4,
        parts=(
            {"stub_seconds": 0.5, "events": _UNHEARD},
            {"stub_seconds": 0.5, "stubs": (Stub(name="*[02468]-1", seconds=0.5, outcome="Failed"),)},
        ),
        states=frozenset({"Completed", "Failed"}),
        at=lambda engine: (
            ("dynamodb", "UpdateItem", 2),
            (engine.service, engine.describe, 2),
            ("dynamodb", "GetItem", 1),
            (engine.log, "*", 1),
        ),
    ),
}


def of_children(grid: FaultyGrid, scenario: str, kills: int) -> Outcome:
    """E1: kill child `i` before or after its call `k`, for every `k`; half of the kills also lose the host.

    Batch retries every child, so that each line completes without the reconciler.

    Args:
        scenario: Key of `SCENARIOS`.
        kills: Number of children to kill; at full volume each boundary is hit several times.
    """
    chosen, chance = SCENARIOS[scenario], random.Random(grid.seed)  # noqa: S311 - moments, no secrets
    boundaries = _boundaries(chosen, kills, grid.engine)
    struck, submissions, creates_sent = list[str](), list[Submission](), 0
    for parts, lines in zip(cycle(chosen.parts), _sizes(kills, len(chosen.parts)), strict=False):
        counter = CallFault(effect="delay", action=grid.engine.create, caller="batch/*")  # only counts these calls
        own = _faults(chosen, islice(boundaries, lines), chance, grid.engine)
        calls = (counter, *parts.get("calls", ()), *own)
        grid.plan(**{**parts, "calls": calls})
        with grid.quota_of_pods(_PODS) if scenario == "quota" else nullcontext():
            submissions.append(grid.submit(lines, chosen.retries, chosen.fields))
            chosen.meanwhile(grid, submissions[-1], chance)
            settled(grid, submissions[-1:], passes=2 if "Stopped" in chosen.states else 0)
        struck += kills_of(grid)
        creates_sent += sum(fault is counter for fault, _ in grid.cloud.faults.struck_calls())
    for submission in submissions:
        until(lambda current=submission: grid.recorded(current), "every end is recorded")  # type: ignore[misc]  # mypy infers no type for this lambda
    return Outcome(
        volume=f"{len(struck)} kills of {kills} children",
        struck=len(struck),
        violations=[
            *grid.audit(*(submission.id for submission in submissions)),
            *otherwise_ended(grid, submissions, chosen.states),
        ],
        facts={
            "kills_by_call": dict(Counter(struck)),
            "states": states(grid, submissions),
            "creates_sent": creates_sent,
            "training_jobs": count_created(grid, [submission.id for submission in submissions]),
        },
    )


def after_the_create(grid: FaultyGrid, kills: int) -> Outcome:
    """E1: kill every child, with its host, right after its training job was accepted; the next attempt must attach.

    Events are dropped, so that only that child can write to the ledger.
    """
    grid.plan(stub_seconds=2.0, calls=(_after_the_create("batch/*/1", grid.engine),), events=_UNHEARD)
    submission = grid.submit(kills)
    settled(grid, [submission])
    until(lambda: grid.recorded(submission), "every end is recorded")
    return Outcome(
        volume=f"{len(grid.cloud.faults.struck_calls())} kills",
        violations=grid.audit(submission.id),
        facts={"states": states(grid, [submission])},
    )


def kills_of(grid: FaultyGrid) -> list[str]:
    """Return the kills of the active plan, each as the call that it preceded or followed."""
    struck = grid.cloud.faults.struck_calls()
    return [
        f"{fault.effect.removeprefix('kill_')} {call.service}.{call.action}"
        for fault, call in struck
        if fault.effect in KILLS
    ]


def states(grid: FaultyGrid, submissions: Iterable[Submission]) -> dict[str, int]:
    """Return the number of jobs in each state, over some submissions."""
    return dict(Counter(state for submission in submissions for state in grid.states(submission.id).values()))


def otherwise_ended(
    grid: FaultyGrid, submissions: Iterable[Submission], expected: Iterable[str]
) -> Iterator[Violation]:
    """Yield a violation for each line that ended in a state that it would not have reached without faults."""
    allowed = set(expected)
    for submission in submissions:
        for item in intact(grid.plane.ledger.jobs(submission.id)):
            if item.state not in allowed:
                sentence = f"job {item.index} of {submission.id} is {item.state} ({item.failure}: {item.reason})"
                sentence += f"; without the faults it would be {sorted(allowed)}"
                yield Violation(invariant="I1", kind="lost", submission=submission.id, what=sentence)


def _sizes(kills: int, kinds: int) -> list[int]:
    """Return the sizes of the submissions that together have this many children, split evenly; each is an array."""
    number = max(-(-kills // _LINES_AT_ONCE), min(kinds, kills // 2))
    return [kills // number + (place < kills % number) for place in range(number)]


def _boundaries(scenario: Scenario, kills: int, engine: Engine) -> Iterator[dict[str, Any]]:
    """Yield the boundary at which each child is killed, as fields of a fault.

    Cycles through all boundaries. If there are more boundaries than kills, picks evenly spaced ones.
    """
    places = scenario.at(engine) or (("*", "*", 1),)
    boundaries = [
        {"effect": effect, "service": service, "action": action, "nth": least + place}
        for place in range(scenario.calls)
        for service, action, least in places
        for effect in KILLS
    ]
    distance = max(1.0, len(boundaries) / kills)
    for number in range(kills):
        yield boundaries[int(number * distance) % len(boundaries)]


def _faults(
    scenario: Scenario, boundaries: Iterable[dict[str, Any]], chance: random.Random, engine: Engine
) -> Iterator[CallFault]:
    attempt = 1 + scenario.killed_first
    for index, boundary in enumerate(boundaries):
        child = f"batch/*:{index}"
        if scenario.killed_first:
            yield _after_the_create(f"{child}/1", engine)
        yield CallFault(**boundary, caller=f"{child}/{attempt}", host_lost=chance.random() < 0.5)
        if chance.random() < _AGAIN:
            effect, nth = chance.choice(KILLS), chance.randint(1, scenario.calls)
            yield CallFault(effect=effect, nth=nth, caller=f"{child}/{attempt + 1}", host_lost=chance.random() < 0.5)


def _after_the_create(caller: str, engine: Engine) -> CallFault:
    return CallFault(effect="kill_after", action=engine.create, caller=caller)
