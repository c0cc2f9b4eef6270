"""E28: children that are frozen between their claim and their record, while their lines are closed and retried."""

import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from statistics import median
from unittest.mock import patch

from localcloud.faults.plan import CallFault, EventFault, Stub
from traingrid.audit.violation import Violation
from traingrid.backends.training_job import TrainingJob
from traingrid.job.state import JobState
from traingrid.ledger.damage import intact
from traingrid.ledger.items import JobItem
from traingrid.reconciler.reconciler import Reconciler
from verification.deployed_grid import until
from verification.faults.engine import Engine
from verification.faults.faulty_grid import ENDLESS_SECONDS, FaultyGrid, settled
from verification.faults.kills import otherwise_ended, states
from verification.faults.submissions import Submission
from verification.faults.table import Outcome

AT_ONCE_SECONDS = 15.0
"""A child must stop its late training job within this time; on an idle machine it takes less than one second."""
_LINES_AT_ONCE = 12
_HELD_SECONDS = 40.0
"""Longer than a retry and its child need, and shorter than the read timeout of the child that waits for the reply."""
_TRAINING_SECONDS = 30.0
"""The duration of the second attempts, which run when the first children continue."""
_UNHEARD = (EventFault(source="aws.sagemaker", drop=1.0),)
_OVERLAP = "has two training jobs"
_NO_WAIT = "traingrid.submission.retry_plan._reasons_in_flight"


@dataclass(frozen=True, kw_only=True)
class Place:
    """Where a child is frozen.

    Attributes:
        name: Its name in the facts of the experiment's row.
        service: The service of the call whose reply the child does not read.
        nth: The ordinal of the call among those of the child with this action.
        is_created: The training job exists then; the next pass must stop it, as its line was closed.
        is_held: Freeze the request in the network instead of the child.
        is_killed: Kill the child right after its late create, when it continues.
    """

    name: str
    service: str
    action: str
    nth: int = 1
    is_created: bool = False
    is_held: bool = False
    is_killed: bool = False

    def fault(self, index: int) -> CallFault:
        """Return the fault of the first child of a line."""
        effect, seconds = ("delay", _HELD_SECONDS) if self.is_held else ("freeze", 0.0)
        caller = f"batch/*:{index}/1"
        place = {"service": self.service, "action": self.action, "caller": caller, "nth": self.nth}
        return CallFault.model_validate({"effect": effect, "seconds": seconds, **place})


def places(engine: Engine) -> tuple[Place, ...]:
    """Return the calls of a launch: the last one before the claim, the claim, and all until the record."""
    service = Place(name="service", service=engine.service, action="create services", is_created=True)
    return (
        Place(name="claim", service="dynamodb", action="UpdateItem"),
        Place(name="describe", service=engine.service, action=engine.describe),
        Place(name="held create", service=engine.service, action=engine.create, is_held=True),
        Place(name="describe, then killed", service=engine.service, action=engine.describe, is_killed=True),
        *((service,) if engine.name == "eks" else ()),  # at an index of a Job; the operator creates that of an MPIJob
        Place(name="cancels", service="dynamodb", action="Query"),
        Place(name="create", service=engine.service, action=engine.create, is_created=True),
        Place(name="record", service="dynamodb", action="UpdateItem", nth=2, is_created=True),
    )


def frozen(grid: FaultyGrid, lines: int) -> Outcome:
    """E28: freeze the first child of each line, close and retry the line, and let the child continue beside the second.

    The retry must leave a line whose first training job may still be created. Then its wait is left out, as if it had
    passed, and AWS had accepted the late request nevertheless: the first child must stop its training job at once, and
    the next pass must stop the training job of a child that is killed before it can.
    """
    submissions, rounds = list[Submission](), list[_FrozenRound]()
    with grid.unscheduled(), grid.children_at_once(2 * _LINES_AT_ONCE):
        for start in range(0, lines, _LINES_AT_ONCE):
            rounds.append(_FrozenRound(grid, min(_LINES_AT_ONCE, max(lines - start, 2))))
            rounds[-1].run()
            submissions.append(rounds[-1].submission)
    violations = [violation for round_ in rounds for violation in round_.violations]
    seconds = [late for round_ in rounds for late in round_.seconds]
    # The audit also finds each overlap, whose duration the rounds have measured.
    audited = [one for one in grid.audit(*(violation.id for violation in submissions)) if _OVERLAP not in one.what]
    return Outcome(
        volume=f"{sum(round_.struck for round_ in rounds)} frozen children",
        struck=sum(round_.struck for round_ in rounds),
        violations=[*violations, *audited, *otherwise_ended(grid, submissions, {"Completed"})],
        facts={
            "states": states(grid, submissions),
            "retries_that_waited": sum(round_.waited for round_ in rounds),
            "late_training_jobs": dict(sum((round_.late for round_ in rounds), Counter[str]())),
            "seconds_beside_the_next_attempt": {
                "median": round(median(seconds), 2) if seconds else None,
                "most": round(max(seconds), 2) if seconds else None,
            },
        },
    )


class _FrozenRound:
    """One submission, all of whose first children are frozen at the same time.

    Attributes:
        struck: The number of children that were frozen, or whose create was held.
        waited: The number of lines that the retry left because their training jobs could still be created.
        late: The number of training jobs that first children created, by place.
        seconds: The time for which each of them was live, without those of killed children.
    """

    def __init__(self, grid: FaultyGrid, lines: int) -> None:
        self._grid, self._places = grid, places(grid.engine)
        self.violations = list[Violation]()
        self.late, self.seconds, self.waited = Counter[str](), list[float](), 0
        calls = tuple(self._place(index).fault(index) for index in range(lines))
        stubs = (Stub(name="*-1", seconds=ENDLESS_SECONDS), Stub(name="*-2", seconds=_TRAINING_SECONDS))
        grid.plan(stubs=stubs, calls=calls, events=_UNHEARD)
        self._stubs = stubs
        self.submission = grid.submit(lines)
        until(lambda: len(grid.cloud.faults.struck_calls()) >= lines, "every first child is frozen")
        self.struck = len(grid.cloud.faults.struck_calls())
        grid.plan(stubs=stubs, events=_UNHEARD)  # the children of the retries have the same indexes
        self._first = [process for process in grid.running() if self.submission.batch_job in process.label]

    def _place(self, index: int) -> Place:
        return self._places[index % len(self._places)]

    def run(self) -> None:
        """Close and retry the lines, let the first children continue, and measure their late training jobs."""
        grid, last = self._grid, {item.index: item for item in self._closed()}
        done = grid.plane.retrier.retry(self.submission.id, "test")
        early = [index for index in done.indices if last[index].open_requests]
        self.violations += [self._violation(index, "was retried while a create was open") for index in early]
        self.waited = len(done.left)
        self._run_pass()
        until(lambda: not any(job.is_active for job in self._late()), "a pass stops training jobs of closed lines")
        with patch(_NO_WAIT, lambda _: {}):
            grid.plane.retrier.retry(self.submission.id, "test")
        until(self._all_train, "the next attempt of every line trains")
        kills = [index for index in last if self._place(index).is_killed]
        grid.plan(stubs=self._stubs, calls=tuple(map(self._kill, kills)), events=_UNHEARD)
        for group in self._first:
            group.thaw()
        grid.ended(self.submission.batch_job)
        self._measure()
        settled(grid, [self.submission])
        until(lambda: grid.recorded(self.submission), "every end is recorded")

    def _closed(self) -> Iterator[JobItem]:
        """Record each line as failed, as the reconciler does for a child that Batch has lost, and yield its item."""
        ledger = self._grid.plane.ledger
        for item in list(intact(ledger.jobs(self.submission.id))):
            ledger.record_job(item.key, {"state": JobState.FAILED, "reason": "Its child's host does not answer."})
            yield item

    def _all_train(self) -> bool:
        items = list(intact(self._grid.plane.ledger.jobs(self.submission.id)))
        return all(item.attempt == 2 and item.state in ("InProgress", "Completed") for item in items)

    def _kill(self, index: int) -> CallFault:
        caller = f"batch/{self.submission.batch_job}:{index}/1"
        return CallFault(effect="kill_after", action=self._grid.engine.create, caller=caller)

    def _measure(self) -> None:
        """Check that no late training job is left, and that one pass stops those of killed children."""
        alive = [job for job in self._late() if job.is_active]
        with suppress(TimeoutError):
            until(lambda: not any(job.is_active for job in self._of_living()), "late jobs end", AT_ONCE_SECONDS)
        for job in self._of_living():
            if job.is_active:
                self.violations.append(self._violation(job.identity.index, f"{job.name} runs beside the next attempt"))
            elif job.ended_at and not self._place(job.identity.index).is_created:
                self.seconds.append(job.ended_at - job.created_at)
        places = (self._place(job.identity.index) for job in self._late())
        self.late = Counter(place.name for place in places if not place.is_created)
        if alive:
            self._run_pass()
            time.sleep(1.0)
        for job in self._late():
            if job.is_active:
                self.violations.append(self._violation(job.identity.index, f"a pass does not stop {job.name}"))

    def _run_pass(self) -> None:
        Reconciler.of(self._grid.plane.deployment).run_pass()  # with its usual grace

    def _late(self) -> list[TrainingJob]:
        return [job for job in self._grid.world(self.submission.id).training_jobs if job.identity.attempt == 1]

    def _of_living(self) -> list[TrainingJob]:
        return [job for job in self._late() if not self._place(job.identity.index).is_killed]

    def _violation(self, index: int, sentence: str) -> Violation:
        text = f"job {index} of {self.submission.id}, frozen at {self._place(index).name}: {sentence}"
        return Violation(invariant="I2", kind="duplicate", submission=self.submission.id, what=text)
