"""E27: lines that move from a cluster without capacity to SageMaker, while children are killed at any call."""

import random
import time
from collections import Counter
from collections.abc import Iterator

from localcloud.faults.plan import CallFault, Capacity
from localcloud.kubernetes.resources import NODE
from traingrid.audit.violation import Violation
from traingrid.ledger.damage import intact
from verification.deployed_grid import until
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import KILLS, kills_of, otherwise_ended, states
from verification.faults.live_jobs import Monitor
from verification.faults.races import SHUFFLED, count_created
from verification.faults.submissions import REGIONS, Submission
from verification.faults.table import Outcome

_LINES_AT_ONCE = 12
_MAX_CALLS = 40
"""Upper bound of the call at which a child is killed; a child that waits for capacity and moves makes about as many."""
_FIELDS = {"backend": "eks sagemaker", "capacity_wait": "2s"}
_WITHOUT = Capacity(instance_type="p4d.*")
"""EC2's type, which nodes have; that of SageMaker is ml.p4d.24xlarge."""


def failover(grid: FaultyGrid, lines: int) -> Outcome:
    """E27: move lines to SageMaker because their cluster has no capacity; kill two children of each line at any call.

    Both engines are sampled all the time: a line may never have training jobs on both. In every third round capacity
    arrives while children decide to move.
    """
    chance, struck, submissions = random.Random(grid.seed), list[str](), list[Submission]()  # noqa: S311 - moments
    monitor = Monitor(grid=grid)
    with monitor.watching():
        for start in range(0, lines, _LINES_AT_ONCE):
            some = max(2, min(_LINES_AT_ONCE, lines - start))
            kills = (*_kills(some, chance), *SHUFFLED)
            grid.plan(stub_seconds=1.0, capacity=(_WITHOUT,), calls=kills)
            _remove_nodes(grid)
            with grid.children_at_once(2 * _LINES_AT_ONCE):
                submissions.append(grid.submit(some, fields=_FIELDS))
                again = grid.submit_again(submissions[-1])
                if start // _LINES_AT_ONCE % 3 == 2:
                    time.sleep(chance.uniform(3.0, 6.0))
                    struck += kills_of(grid)
                    grid.plan(stub_seconds=1.0, calls=SHUFFLED)
                settled(grid, submissions[-1:])
                grid.at_rest(again)
            struck += kills_of(grid)
    for submission in submissions:
        until(lambda current=submission: grid.recorded(current), "every end is recorded")  # type: ignore[misc]  # see kills.py
    ids = [deployed.id for deployed in submissions]
    return Outcome(
        volume=f"{len(struck)} kills, {sum(deployed.lines for deployed in submissions)} lines",
        struck=len(struck),
        violations=[
            *grid.audit(*ids),
            *otherwise_ended(grid, submissions, {"Completed"}),
            *monitor.found.values(),
            *_never_moved(grid, submissions),
        ],
        facts={
            "kills_by_call": dict(Counter(struck)),
            "states": states(grid, submissions),
            "training_jobs": count_created(grid, ids),
            "samples": monitor.samples,
            "engines": dict(_engines(grid, submissions)),
        },
    )


def _remove_nodes(grid: FaultyGrid) -> None:
    """Remove the empty nodes of earlier lines, which would be capacity."""
    for region in REGIONS:
        client = grid.cluster(region).client
        for node in client.store.all(NODE)[0]:
            client.delete(NODE, "", node["metadata"]["name"])


def _kills(lines: int, chance: random.Random) -> Iterator[CallFault]:
    """Yield a kill for each line, and for half of them another one at their child's next try."""
    for index in range(lines):
        for attempt in range(1, 2 + (chance.random() < 0.5)):
            effect, nth = chance.choice(KILLS), chance.randint(1, _MAX_CALLS)
            caller = f"batch/*:{index}/{attempt}"
            yield CallFault(effect=effect, nth=nth, caller=caller, host_lost=chance.random() < 0.5)


def _engines(grid: FaultyGrid, submissions: list[Submission]) -> Counter[str]:
    """Return the number of lines that ended on each engine."""
    return Counter(item.backend for submission in submissions for item in intact(grid.plane.ledger.jobs(submission.id)))


def _never_moved(grid: FaultyGrid, submissions: list[Submission]) -> Iterator[Violation]:
    """Yield a violation if no line has moved, because the experiment then proves nothing."""
    if not _engines(grid, submissions)["sagemaker"]:
        yield Violation(invariant="E27", kind="other", submission="", what="no line moved to SageMaker")
