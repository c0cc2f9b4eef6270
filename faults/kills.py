"""E1: children that are killed at every call."""

import random
from collections import Counter

from faults.arena import Arena, Submission, settled, until
from faults.table import Outcome
from localcloud.faults import CallFault, EventFault

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


def _states(arena: Arena, submission: Submission) -> dict[str, int]:
    return dict(Counter(arena.states(submission.id).values()))
