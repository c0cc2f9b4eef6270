"""E8, E9: children that receive SIGTERM at any moment, and the loss of all children and events."""

import random
import time
from collections import Counter
from concurrent.futures import Future, ThreadPoolExecutor

from localcloud.faults.plan import CallFault, EventFault
from localcloud.processes.process_group import ProcessGroup
from traingrid.audit.violation import Violation
from traingrid.backoff import PASS_SECONDS
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.damage import intact
from traingrid.ledger.timestamps import epoch_seconds
from verification.deployed_grid import until
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import otherwise_ended
from verification.faults.submissions import Submission
from verification.faults.table import Outcome

EXIT_SECONDS = 5.0
"""A child must end within this time after SIGTERM (`traingrid.child.supervisor`)."""

_SLOW_SECONDS = 8.0
_CHILDREN_AT_ONCE = 20
"""Less than the grid's limit of concurrent children, so that no line waits for another line's child."""


def at_any_moment(grid: FaultyGrid, children: int, *, slow: bool = False) -> Outcome:
    """E8: send SIGTERM at a random moment and SIGKILL a random time later; children must end before the SIGKILL.

    Args:
        slow: Delay a part of the replies of the engine by more than the time that a child has to end.
    """
    chance = random.Random(grid.seed)  # noqa: S311 - moments, no secrets
    delay = CallFault(effect="delay", service=grid.engine.service, caller="batch/*", share=0.3, seconds=_SLOW_SECONDS)
    grid.plan(stub_seconds=4.0, calls=(delay,) if slow else ())
    submission = grid.submit(children)
    terminated = _terminate_children(grid, chance, children)
    settled(grid, [submission], passes=2)
    late = [
        Violation(invariant="E8", kind="other", submission=submission.id, what=f"{child.label} was slow to end")
        for child, ended in terminated
        if not ended.result()
    ]
    return Outcome(
        volume=f"{len(terminated)} SIGTERM",
        struck=len(terminated),
        violations=[*late, *grid.audit(submission.id), *otherwise_ended(grid, [submission], {"Completed"})],
        facts={f"slower_than_{EXIT_SECONDS:.0f}_s": len(late), "states": _states(grid, submission)},
    )


def _terminate_children(grid: FaultyGrid, chance: random.Random, times: int) -> list[tuple[ProcessGroup, Future[bool]]]:
    """Send SIGTERM and a later SIGKILL to this many children; return each, and whether it ended in time by itself."""
    terminated: dict[ProcessGroup, Future[bool]] = {}
    with ThreadPoolExecutor(times, thread_name_prefix="watch") as watchers:
        while len(terminated) < times:
            fresh = [group for group in grid.running() if group not in terminated]
            if fresh:
                group, grace = chance.choice(fresh), chance.uniform(0.0, 30.0)
                group.stop(grace)
                terminated[group] = watchers.submit(_ends, group, grace)
            elif not grid.children_left():
                break
            time.sleep(chance.uniform(0.0, 0.1))
    return list(terminated.items())


def _ends(group: ProcessGroup, killed_after: float) -> bool:
    """Return True if a child ends in time. A child that is killed before its time is up counts as in time."""
    return group.wait(EXIT_SECONDS) is not None or killed_after <= EXIT_SECONDS


def everything_lost(grid: FaultyGrid, lines: int) -> Outcome:
    """E9: kill all children permanently while their jobs train, and drop all events; the reconciler must finish."""
    grid.plan(stub_seconds=15.0, events=(EventFault(source="aws.sagemaker", drop=1.0),))
    submissions, killed = list[Submission](), 0
    for start in range(0, lines, _CHILDREN_AT_ONCE):
        submissions.append(grid.submit(min(_CHILDREN_AT_ONCE, lines - start)))
        until(lambda: _all_train(grid, submissions[-1]), "every line trains")
        killed += grid.lose_children(submissions[-1])
    settled(grid, submissions)
    left = sum(not grid.recorded(submission) for submission in submissions)
    settled(grid, submissions, passes=2)
    return Outcome(
        volume=f"{lines} lines",
        violations=grid.audit(*(submission.id for submission in submissions)),
        facts={
            "killed": killed,
            "submissions_open_before_the_sweeps": left,
            "states": dict(sum((Counter(_states(grid, lost)) for lost in submissions), Counter[str]())),
        },
    )


def until_the_scheduled_pass(grid: FaultyGrid, lines: int) -> Outcome:
    """E9: kill all children permanently while their jobs train, and wait for the reconciler's own schedule.

    Measures the time from the end of a training job to its record, of which nothing but the pass takes notice.
    """
    grid.plan(stub_seconds=5.0, events=(EventFault(source="aws.sagemaker", drop=1.0),))
    submission = grid.submit(lines)
    until(lambda: _all_train(grid, submission), "every line trains")
    grid.lose_children(submission)
    until(lambda: not grid.active(), "no training job is active")
    ended = time.time()
    until(lambda: grid.recorded(submission), "the schedule has recorded every end", 3 * PASS_SECONDS)
    recorded = [epoch_seconds(item.updated_at) - ended for item in intact(grid.plane.ledger.jobs(submission.id))]
    return Outcome(
        volume=f"{lines} lines",
        violations=grid.audit(submission.id),
        facts={
            "sweep_interval_seconds": PASS_SECONDS,
            "record_delay_most": round(max(recorded)),
            "states": _states(grid, submission),
        },
    )


def _all_train(grid: FaultyGrid, submission: Submission) -> bool:
    """Return True if every line has a training job. On a slow machine the first of them may have ended already."""
    states = grid.states(submission.id)
    return len(states) == submission.lines and set(states.values()) <= {"InProgress", *FINAL_STATES}


def _states(grid: FaultyGrid, submission: Submission) -> dict[str, int]:
    return dict(Counter(grid.states(submission.id).values()))
