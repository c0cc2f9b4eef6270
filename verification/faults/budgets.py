"""E18: a budget is reached while lines launch; children and the reconciler are killed meanwhile."""

import json
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field

from localcloud.faults.plan import CallFault, EventFault
from traingrid.audit.violation import Violation
from traingrid.aws.clients import client
from traingrid.ledger.timestamps import epoch_seconds
from traingrid.ledger.user_requests import CANCEL_ALL, CANCEL_PREFIX
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import KILLS, kills_of, otherwise_ended, states
from verification.faults.races import SHUFFLED, count_created
from verification.faults.submissions import Submission
from verification.faults.table import Outcome

_LINES_AT_ONCE = 12
_MAX_CALLS = 12
"""Upper bound of the call at which a child is killed: about the calls of a launch."""

_HOURLY_DOLLARS = 3600.0
"""Price of an instance-hour, so that each line, which has one instance, costs a dollar per second."""

_BUDGET_PER_LINE = 2.0
"""Dollars of the budget for each line: it is reached while some lines still launch."""

TRAINING_SECONDS = 300.0
"""Duration of a training job that is not stopped: far longer than the budget allows."""

_SHARE = 0.02
"""Share of the reconciler's calls that kill it, before and after."""

_STOP_SECONDS = 15.0
"""Seconds after the pass that stops all jobs until they have ended: the grace after SIGTERM, and a creation that was
in flight, whose child or the next pass stops it."""

_ROUNDING = 2.0
"""Seconds by which the ledger's times of a job may differ from SageMaker's: both are whole seconds."""

_EVENTS_LOST = (EventFault(source="aws.sagemaker", drop=0.3),)
"""Events without which the pass must read when a training job started."""


@dataclass(frozen=True, kw_only=True)
class _Pass:
    """A pass of the deployed reconciler: when it ran, in seconds since 1970, and if it succeeded."""

    began: float
    ended: float
    succeeded: bool


@dataclass(frozen=True, kw_only=True)
class _Round:
    """A submission with a budget, and the passes during its life."""

    grid: FaultyGrid
    submission: Submission
    budget: float
    began: float
    passes: list[_Pass] = field(default_factory=list)

    def run(self, seconds: float) -> None:
        """Run passes until the ledger has the end of every line.

        Raises:
            TimeoutError: It has not after this many seconds.
        """
        deadline = time.monotonic() + seconds
        while not self.grid.recorded(self.submission):
            if time.monotonic() > deadline:
                raise TimeoutError(f"timed out after {seconds:.0f} s waiting until {self.submission.id} ends")
            began = time.time()
            reply = client("lambda", "us-east-1").invoke(
                FunctionName=self.grid.output("ReconcileFunction"), Payload=json.dumps({"grace_seconds": 60})
            )
            reply["Payload"].read()
            self.passes.append(_Pass(began=began, ended=time.time(), succeeded="FunctionError" not in reply))
            time.sleep(0.5)

    def violations(self) -> Iterator[Violation]:
        """Yield a violation for more or less than one cancel, a cancel below the budget, and too many dollars."""
        cancels = self.grid.plane.ledger.cancels(self.submission.id)
        if list(cancels) != [CANCEL_ALL] or self._writes() != 1:
            yield self._violation(f"has the cancels {sorted(cancels)}, written {self._writes()} times")
            return
        at, jobs = epoch_seconds(cancels[CANCEL_ALL].at), self._jobs()
        before = sum(max(min(end, at + 1) - start, 0.0) for start, end in jobs)
        if before < self.budget - _ROUNDING * len(jobs):
            yield self._violation(f"was cancelled after ${before:.2f} of ${self.budget:.2f}")
        limit = self.budget + len(jobs) * (self._window(at) + _STOP_SECONDS)
        if self.spent() > limit:
            yield self._violation(f"cost ${self.spent():.2f}; the budget and the overshoot are ${limit:.2f}")

    def spent(self) -> float:
        """Return the dollars of all training jobs, at a dollar per second."""
        return sum(end - start for start, end in self._jobs())

    def _window(self, at: float) -> float:
        """Return the seconds from the last pass that did not find the budget reached to the one that stopped jobs."""
        good = [finished for finished in self.passes if finished.succeeded]
        first = max((finished.began for finished in good if finished.ended < at), default=self.began)
        last = min((finished.ended for finished in good if finished.began >= at), default=self.passes[-1].ended)
        return last - first

    def _jobs(self) -> list[tuple[float, float]]:
        """Return the start and end of each training job that has started."""
        details = [job.details for job in self.grid.world(self.submission.id).training_jobs]
        return [
            (detail.started_at, detail.ended_at)
            for detail in details
            if detail and detail.started_at and detail.ended_at
        ]

    def _writes(self) -> int:
        key = {"submission": {"S": self.submission.id}, "item": {"S": f"{CANCEL_PREFIX}{CANCEL_ALL}"}}
        items = [entry["parameters"]["Item"] for entry in self.grid.cloud.record.entries("dynamodb", "PutItem")]
        return sum(all(item.get(name) == value for name, value in key.items()) for item in items)

    def _violation(self, problem: str) -> Violation:
        text = f"submission {self.submission.id} {problem}"
        return Violation(invariant="E18", kind="other", submission=self.submission.id, what=text)


def reached(grid: FaultyGrid, lines: int, training_seconds: float = TRAINING_SECONDS) -> Outcome:
    """E18: let submissions reach their budgets while their lines launch.

    Each child is killed at one of its calls, and the reconciler, which runs all the time, at some of its calls; in
    every round before or after it has written the cancel. A third of the events is lost. Every line must end as
    stopped, by one cancel, after the budget is reached and within the overshoot.

    Args:
        training_seconds: Duration of a training job that is not stopped.
    """
    chance, struck, rounds = random.Random(grid.seed), list[str](), list[_Round]()  # noqa: S311 - moments, no secrets
    with grid.unscheduled():
        for number, start in enumerate(range(0, lines, _LINES_AT_ONCE)):
            some = min(_LINES_AT_ONCE, lines - start)
            faults = (*_kills(grid, some, number, chance), *SHUFFLED)
            grid.plan(stub_seconds=training_seconds, calls=faults, events=_EVENTS_LOST)
            with grid.children_at_once(some):
                rounds.append(_round(grid, some))
                rounds[-1].run(training_seconds + 300.0)
            struck += kills_of(grid)
            grid.plan(stub_seconds=training_seconds)
            settled(grid, [rounds[-1].submission], passes=1)
    submissions = [budget_round.submission for budget_round in rounds]
    ids = [submission.id for submission in submissions]
    return Outcome(
        volume=f"{len(struck)} kills, {lines} lines",
        struck=len(struck),
        violations=[
            *grid.audit(*ids),
            *otherwise_ended(grid, submissions, {"Stopped"}),
            *(violation for budget_round in rounds for violation in budget_round.violations()),
        ],
        facts={
            "kills_by_call": dict(Counter(struck)),
            "states": states(grid, submissions),
            "training_jobs": count_created(grid, ids),
            "sweeps": sum(len(budget_round.passes) for budget_round in rounds),
            "budget": sum(budget_round.budget for budget_round in rounds),
            "spent": round(sum(budget_round.spent() for budget_round in rounds), 1),
        },
    )


def _round(grid: FaultyGrid, lines: int) -> _Round:
    budget, began = _BUDGET_PER_LINE * lines, time.time()
    fields = {"dollars_per_hour": f"{_HOURLY_DOLLARS:g}", "budget_dollars": f"{budget:g}"}
    return _Round(grid=grid, submission=grid.submit(lines, fields=fields), budget=budget, began=began)


def _kills(grid: FaultyGrid, lines: int, number: int, chance: random.Random) -> Iterator[CallFault]:
    """Yield the kills of a round: one for each child, and those of the reconciler."""
    function = f"lambda/{grid.output('ReconcileFunction')}"
    yield CallFault(effect=KILLS[number % 2], service="dynamodb", action="PutItem", caller=function, nth=1, times=1)
    for effect in KILLS:
        yield CallFault(effect=effect, caller=function, share=_SHARE)
    for index in range(lines):
        effect, nth = chance.choice(KILLS), chance.randint(1, _MAX_CALLS)
        yield CallFault(effect=effect, nth=nth, caller=f"batch/*:{index}/1", host_lost=chance.random() < 0.5)
