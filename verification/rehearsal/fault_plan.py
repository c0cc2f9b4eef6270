"""Fault plan of a rehearsal: draws faults from a seed, and counts how often each struck."""

import random
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from localcloud.faults.faults import Faults
from localcloud.faults.plan import CallFault, Capacity, CapacityQuota, Effect, EventFault, FaultPlan, Lag, Stub
from traingrid.job.job import Job
from traingrid.job.sizes import MAX_ARRAY

STUB_SECONDS = 1.0
"""Duration of a training job in a rehearsal."""
_LAST_CALL = 12
"""Approximate number of calls of a child with a short training job; kills beyond its last call do not happen."""

_EFFECTS: dict[Effect, str] = {
    "kill_before": "killed before a call",
    "kill_after": "killed after a call",
    "lose_reply": "reply lost",
    "error_before": "internal error instead of a call",
    "error_after": "internal error after a call took effect",
    "throttle": "throttled",
    "delay": "answered late",
}
_WHO = {"batch": "child", "lambda": "function", "": "person"}


@dataclass(frozen=True, kw_only=True)
class Struck:
    """A kind of fault, and how often it struck.

    Attributes:
        what: Description of the fault.
        where: The calls that it struck, most frequent first; empty for faults that do not strike calls.
    """

    what: str
    times: int
    where: str = ""


def plan_of(jobs: Sequence[Job], seed: int) -> FaultPlan:
    """Return the faults to inject while these jobs are submitted and trained; all trainings are stubs.

    The numbers ensure that every kind of fault strikes a manifest of a few lines, and that none delays a line for long.

    Args:
        seed: The same seed and jobs give the same plan.
    """
    chance = random.Random(seed)  # noqa: S311 - selects faults, not secrets
    some = max(1, len(jobs) // 8)
    crowded, _ = Counter(job.region for job in jobs).most_common(1)[0]
    return FaultPlan(
        seed=seed,
        calls=(*_kills(len(jobs), chance), *_of_functions(chance), *_of_children(some)),
        events=(
            EventFault(source="aws.s3", duplicate=1.0, copies=3, delay=0.5, seconds=1.0),
            EventFault(source="aws.sagemaker", drop=0.25, duplicate=0.3, copies=3, delay=0.3, reorder=0.2, seconds=1.5),
        ),
        quotas=(CapacityQuota(region=chance.choice(jobs).region, instances=0, times=some),),
        capacity=(Capacity(region=crowded, seconds=0.3, times=some), Capacity(seconds=0.3, times=some)),
        lags=(Lag(seconds=0.4),),
        stubs=(Stub(seconds=STUB_SECONDS),),
    )


def _kills(lines: int, chance: random.Random) -> Iterator[CallFault]:
    """Yield kills of some children right after their create, of some at any call, and of some in two attempts."""
    order = chance.sample(range(min(lines, MAX_ARRAY)), min(lines, MAX_ARRAY))
    after_create, other_lines = order[: max(1, lines // 4)], order[max(1, lines // 4) :]
    at_any_call = other_lines[: max(1, lines // 3)]
    for index in after_create:
        yield _kill(lines, index, 1, "kill_after", action="CreateTrainingJob")
    for index in at_any_call:
        effect: Effect = chance.choice(("kill_before", "kill_after"))
        yield _kill(lines, index, 1, effect, nth=chance.randint(1, _LAST_CALL), host_lost=chance.random() < 0.5)
    for index in (*after_create, *at_any_call):
        if chance.random() < 0.3:  # also kill the next attempt
            yield _kill(lines, index, 2, "kill_after", nth=chance.randint(1, _LAST_CALL))


def _kill(lines: int, index: int, attempt: int, effect: Effect, **fault: Any) -> CallFault:
    child = f"batch/*:{index}/{attempt}" if lines > 1 else f"batch/*/{attempt}"  # one line is a plain job
    return CallFault(effect=effect, caller=child, **fault)


def _of_functions(chance: random.Random) -> Iterator[CallFault]:
    """Yield faults of functions: each mutating call of the intake once, and throttling of all functions."""
    lost: Effect = chance.choice(("kill_after", "lose_reply"))  # in both cases the array exists, unknown to the intake
    yield CallFault(effect=lost, service="batch", action="SubmitJob", caller="lambda/*", times=1)
    for service, action in (("s3", "PutObject"), ("dynamodb", "PutItem"), ("dynamodb", "UpdateItem")):
        yield CallFault(effect="lose_reply", service=service, action=action, caller="lambda/*", times=1)
    yield CallFault(effect="throttle", caller="lambda/*", share=0.05)
    yield CallFault(effect="lose_reply", service="s3", action="PutObject", caller="", times=1)  # the user's upload


def _of_children(some: int) -> Iterator[CallFault]:
    for service, action in (
        ("sagemaker", "CreateTrainingJob"),
        ("dynamodb", "UpdateItem"),
        ("dynamodb", "PutItem"),
    ):
        yield CallFault(effect="lose_reply", service=service, action=action, caller="batch/*", times=some)
    for service in ("sagemaker", "dynamodb"):
        yield CallFault(effect="throttle", service=service, caller="batch/*", share=0.1)
        yield CallFault(effect="error_before", service=service, caller="batch/*", share=0.03)
        yield CallFault(effect="error_after", service=service, caller="batch/*", share=0.03)
        yield CallFault(effect="delay", service=service, caller="batch/*", share=0.2, seconds=0.2)


def struck(faults: Faults, created: int) -> list[Struck]:
    """Return the faults that have struck since the plan was activated.

    Args:
        created: Number of training jobs that were created, each of which was invisible at first.
    """
    counts = faults.struck()
    of_calls: dict[str, Counter[str]] = {}
    for fault, call in faults.struck_calls():
        who = _WHO.get(call.caller.partition("/")[0], "other")
        of_calls.setdefault(f"{who}: {_EFFECTS[fault.effect]}", Counter())[call.action] += 1
    planned_faults = [
        Struck(what=kind, times=calls.total(), where=", ".join(f"{call} {n}" for call, n in calls.most_common(4)))
        for kind, calls in sorted(of_calls.items())
    ]
    for part, word in (("drop", "lost"), ("duplicate", "repeated"), ("delay", "late"), ("reorder", "overtaken")):
        times = sum(number for name, number in counts.items() if name.startswith("events/") and name.endswith(part))
        planned_faults.append(Struck(what=f"event {word}", times=times))
    for part, word in (("capacity", "no capacity for a training job"), ("quotas", "quota used up")):
        times = sum(number for name, number in counts.items() if name.startswith(f"{part}/"))
        planned_faults.append(Struck(what=word, times=times))
    planned_faults += [
        Struck(what=f"training job unknown for {lag.seconds:g} s", times=created) for lag in faults.plan.lags[:1]
    ]
    return [kind_of_fault for kind_of_fault in planned_faults if kind_of_fault.times]
