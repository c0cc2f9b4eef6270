"""E5, E12: two children for every line, and cancels that coincide with a create."""

import random
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor

from localcloud.faults.plan import CallFault, Capacity, EventFault
from traingrid.audit.calls import created_resource
from traingrid.ledger.user_requests import CANCEL_ALL, cancel_of_job
from verification.deployed_grid import until
from verification.faults.faulty_grid import ENDLESS_SECONDS, FaultyGrid, settled
from verification.faults.submissions import Submission
from verification.faults.table import Outcome

_LINES_AT_ONCE = 100
_WAITING_LINES = 8
"""Number of lines whose pods find no capacity: they wait for nodes of the other lines that train at once, up to 24."""
ZOMBIE_SECONDS = 20.0
"""Delay of a late write: longer than another child needs to complete the line."""

SHUFFLED = tuple(
    CallFault(effect="delay", service=service, caller="batch/*", share=0.3, seconds=seconds)
    for service in ("sagemaker", "kubernetes", "dynamodb")
    for seconds in (0.1, 0.4)
)
"""Delays that change the order in which two children of one line make their calls."""


CLAIM = CallFault(effect="delay", service="dynamodb", action="UpdateItem", caller="batch/*")
"""Delays nothing; it only records a child's writes to the ledger, of which the first claims the attempt."""


def doubled(grid: FaultyGrid, pairs: int) -> Outcome:
    """E5: start two children for every line concurrently; up to a third of the first attempts find no capacity."""
    submissions, again = [], list[str]()
    for start in range(0, pairs, _LINES_AT_ONCE):
        lines = min(_LINES_AT_ONCE, pairs - start)
        without = lines // 3 if grid.engine.name == "sagemaker" else min(lines // 3, _WAITING_LINES)
        grid.plan(stub_seconds=1.0, calls=SHUFFLED, capacity=(Capacity(times=without, seconds=0.3),))
        submissions.append(grid.submit(lines))
        again.append(grid.submit_again(submissions[-1]))
        settled(grid, submissions[-1:])
        grid.at_rest(again[-1])
    ids = [submission.id for submission in submissions]
    return Outcome(
        volume=f"{pairs} pairs of children",
        violations=grid.audit(*ids),
        facts={
            "states": dict(sum((Counter(grid.states(identifier).values()) for identifier in ids), Counter[str]())),
            "training_jobs": count_created(grid, ids),
        },
    )


def zombies(grid: FaultyGrid, lines: int) -> Outcome:
    """E5: kill a child while its write is delayed; another child completes the line in the meantime.

    The first child's write sets the state "InProgress", which is outdated when it arrives, and must be rejected.
    """
    late = CallFault(effect="delay", seconds=ZOMBIE_SECONDS, action="UpdateItem", caller="batch/*", nth=2)
    unheard = (EventFault(source="aws.sagemaker", drop=1.0),)
    grid.plan(stub_seconds=1.0, calls=(late,), events=unheard)
    submission = grid.submit(lines)
    until(lambda: grid.cloud.faults.struck().get("calls/0", 0) == lines, "every first child's write is on its way")
    arrived = time.monotonic() + ZOMBIE_SECONDS
    grid.plan(stub_seconds=1.0, events=unheard)
    grid.lose_children(submission)
    grid.at_rest(grid.submit_again(submission))
    time.sleep(max(0.0, arrived - time.monotonic()) + 1.0)
    return Outcome(
        volume=f"{lines} late writes",
        violations=grid.audit(submission.id),
        facts={"states": dict(Counter(grid.states(submission.id).values()))},
    )


def cancelled(grid: FaultyGrid, races: int) -> Outcome:
    """E12: cancel each line at a random moment of its child's first seconds."""
    chance = random.Random(grid.seed)  # noqa: S311 - moments, no secrets
    submissions = []
    for start in range(0, races, _LINES_AT_ONCE):
        lines = min(_LINES_AT_ONCE, races - start)
        grid.plan(stub_seconds=ENDLESS_SECONDS, calls=(CLAIM, *SHUFFLED))
        submissions.append(grid.submit(lines))
        cancel_each(grid, submissions[-1], chance)
        settled(grid, submissions[-1:], passes=2)
    ids = [submission.id for submission in submissions]
    return Outcome(
        volume=f"{races} cancels",
        violations=grid.audit(*ids),
        facts={
            "states": dict(sum((Counter(grid.states(identifier).values()) for identifier in ids), Counter[str]())),
            "training_jobs": count_created(grid, ids),
        },
    )


def cancel_each(grid: FaultyGrid, submission: Submission, chance: random.Random) -> None:
    """Cancel each line within a second after its child has claimed it, when the child creates its training job."""
    left = set(range(submission.lines))
    with ThreadPoolExecutor(8, thread_name_prefix="cancel") as people:
        while left:
            labels = [call.caller for fault, call in grid.cloud.faults.struck_calls() if fault is CLAIM]
            started = {int(label.rpartition("/")[0].rpartition(":")[2]) for label in labels if ":" in label} & left
            started = started or (set() if grid.children_left() else left)
            for index in sorted(started):
                people.submit(_cancel_soon, grid, submission, index, chance.uniform(0.0, 1.0))
            left -= started
            time.sleep(0.05)


def _cancel_soon(grid: FaultyGrid, submission: Submission, index: int, seconds: float) -> None:
    time.sleep(seconds)
    grid.cancel(submission, index)


def intents(grid: FaultyGrid, lines: int, seconds_to_stop: float = 20.0) -> Outcome:
    """E12: record only the intent to cancel, while each line's create call is under way.

    This is the state that a user's command leaves if it is killed right after the write. Only the child can stop the
    training job that it has created.

    Args:
        seconds_to_stop: Time that the children have to stop their training jobs.
    """
    slow = CallFault(effect="delay", action=grid.engine.create, seconds=1.5)
    grid.plan(stub_seconds=120.0, calls=(slow,))
    submission = grid.submit(lines)
    until(lambda: len(grid.cloud.faults.struck_calls()) >= lines, "every line is being created")
    for index in range(lines):
        grid.plane.ledger.request_cancel(submission.id, cancel_of_job(index), {"by": "test", "reason": ""})
    deadline = time.monotonic() + seconds_to_stop
    while time.monotonic() < deadline and not (grid.recorded(submission) and not grid.active()):
        time.sleep(0.5)
    violations = grid.audit(submission.id)
    grid.plane.ledger.request_cancel(submission.id, CANCEL_ALL, {"by": "test", "reason": "clean up"})
    grid.run_pass()
    grid.at_rest(submission.batch_job)
    return Outcome(volume=f"{lines} intents", violations=violations)


def count_created(grid: FaultyGrid, submissions: list[str]) -> int:
    """Return the number of training jobs that were accepted for some submissions."""
    entries = (entry for entry in grid.cloud.record.entries() if entry["action"] != "SubmitJob")
    return sum(
        any(f"-{submission}-" in name for submission in submissions)
        for entry in entries
        if (name := created_resource(entry))
    )
