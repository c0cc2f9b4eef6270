"""E1, E8, E9: children that are killed at every call, told to end at any moment, or all lost with every event."""

import random
import time
from collections import Counter

from faults.arena import PATIENCE_SECONDS, Arena, Submission, settled, until
from faults.table import Outcome
from localcloud.faults import CallFault, EventFault
from localcloud.processes import ProcessGroup

EXIT_SECONDS = 5.0
"""A child that is told to end does so within this time (docs of `traingrid.supervisor`)."""

BOUNDARIES = 14
"""More calls than a child makes whose training job ends at once; kills beyond its last call do not happen."""


def at_every_call(arena: Arena, kills: int) -> Outcome:
    """E1: kill child `i` before or after its call `k`, for every `k`; half of the hosts are lost, half only a program.

    Batch tries the former again, and nobody the latter: the reconciler closes what they leave.

    Args:
        arena: Where.
        kills: How many children to kill; each boundary is met several times.
    """
    chance = random.Random(arena.seed)  # noqa: S311 - moments, no secrets
    sweep = [(effect, nth) for nth in range(1, BOUNDARIES + 1) for effect in ("kill_before", "kill_after")]
    planned = [sweep[number % len(sweep)] for number in range(kills)]
    faults = []
    for index, (effect, nth) in enumerate(planned):
        lost = chance.random() < 0.5
        faults.append(CallFault(effect=effect, nth=nth, caller=f"batch/*:{index}/1", host_lost=lost))  # type: ignore[arg-type]
        if chance.random() < 0.3:  # and the second try as well, at any of its calls
            faults.append(
                CallFault(effect="kill_after", nth=chance.randint(1, 12), caller=f"batch/*:{index}/2", host_lost=True)
            )
    arena.plan(stub_seconds=0.5, calls=tuple(faults))
    submission = arena.submit(kills)
    settled(arena, [submission], sweeps=2)
    struck = arena.cloud.faults.struck_calls()
    by_action = Counter(f"{call.service}.{call.action}" for _, call in struck)
    return Outcome(
        volume=f"{len(struck)} kills of {kills} children",
        violations=arena.audit(submission.id),
        facts={"kills_by_call": dict(by_action), "states": _states(arena, submission)},
    )


def after_the_create(arena: Arena, kills: int) -> Outcome:
    """E1: kill every child right after its training job was accepted, with its host; the next try must attach.

    Events are dropped, so that nobody but that child can tell the ledger.
    """
    fault = CallFault(effect="kill_after", action="CreateTrainingJob", caller="batch/*/1")
    arena.plan(stub_seconds=2.0, calls=(fault,), events=(EventFault(source="aws.sagemaker", drop=1.0),))
    submission = arena.submit(kills)
    settled(arena, [submission])
    until(lambda: arena.recorded(submission), "every end is recorded")
    return Outcome(
        volume=f"{len(arena.cloud.faults.struck_calls())} kills",
        violations=arena.audit(submission.id),
        facts={"states": _states(arena, submission)},
    )


def at_any_moment(arena: Arena, children: int) -> Outcome:
    """E8: SIGTERM at a random moment, and SIGKILL a random time later, which a child does not wait for."""
    chance = random.Random(arena.seed)  # noqa: S311 - moments, no secrets
    arena.plan(stub_seconds=4.0)
    submission = arena.submit(children)
    told = _tell_to_end(arena, chance, children)
    slow = sum(_outlives(group, asked + EXIT_SECONDS) for group, asked, killed_after in told if killed_after > 5)
    settled(arena, [submission], sweeps=2)
    violations = arena.audit(submission.id)
    return Outcome(
        volume=f"{len(told)} SIGTERM",
        violations=violations,
        facts={f"slower_than_{EXIT_SECONDS:.0f}_s": slow, "states": _states(arena, submission)},
    )


def _tell_to_end(arena: Arena, chance: random.Random, times: int) -> list[tuple[ProcessGroup, float, float]]:
    """Send so many SIGTERM, each with its SIGKILL; return whom, when, and how long until the SIGKILL."""
    told: list[tuple[ProcessGroup, float, float]] = []
    deadline = time.monotonic() + PATIENCE_SECONDS
    while len(told) < times and time.monotonic() < deadline:
        known = {group.pid for group, _, _ in told}
        fresh = [group for group in arena.running() if group.pid not in known]
        if fresh:
            group, grace = chance.choice(fresh), chance.uniform(0.0, 30.0)
            group.stop(grace)
            told.append((group, time.monotonic(), grace))
        elif not arena.children_left():
            break
        time.sleep(chance.uniform(0.0, 0.1))
    return told


def _outlives(group: ProcessGroup, moment: float) -> bool:
    time.sleep(max(0.0, moment - time.monotonic()))
    return group.wait(0) is None


def everything_lost(arena: Arena, lines: int) -> Outcome:
    """E9: kill all children while their training jobs run, and drop every event: the reconciler alone is left."""
    arena.plan(stub_seconds=10.0, events=(EventFault(source="aws.sagemaker", drop=1.0),))
    submission = arena.submit(lines)
    until(lambda: len(arena.active()) == lines, "every line trains")
    killed = _kill_all(arena)
    settled(arena, [submission])
    left = sum(state not in ("Completed", "Failed", "Stopped") for state in arena.states(submission.id).values())
    settled(arena, [submission], sweeps=2)
    return Outcome(
        volume=f"{lines} lines",
        violations=arena.audit(submission.id),
        facts={"killed": killed, "open_before_the_sweeps": left, "states": _states(arena, submission)},
    )


def _states(arena: Arena, submission: Submission) -> dict[str, int]:
    return dict(Counter(arena.states(submission.id).values()))


def _kill_all(arena: Arena) -> int:
    groups = arena.running()
    for group in groups:
        group.lose(host_lost=False)
    return len(groups)
