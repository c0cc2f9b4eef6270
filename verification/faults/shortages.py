"""E15: a Region lacks capacity for a while; children, and the probes that test it, are killed meanwhile."""

import random
import time
from collections import Counter
from collections.abc import Iterable, Iterator

from localcloud.faults.plan import CallFault, Capacity
from traingrid.job.failures import CAPACITY, SHORTAGE
from traingrid.ledger.damage import intact
from traingrid.ledger.shortages import CapacityPool, Shortage
from verification.deployed_grid import until
from verification.faults.faulty_grid import FaultyGrid, settled
from verification.faults.kills import KILLS, kills_of, otherwise_ended, states
from verification.faults.races import SHUFFLED, count_created
from verification.faults.submissions import REGIONS, Submission
from verification.faults.table import Outcome

_LINES_AT_ONCE = 12
_MAX_CALLS = 24
"""Upper bound of the call at which a child is killed; a child that waits makes more calls than one that launches."""

_SHORT_SECONDS = 25.0
"""Duration of the lack of capacity: the first failure, and about two probes that fail."""

_KNOWN_SECONDS = 15
"""Duration of a shortage that is known before the children start, so that those with a replica move at once."""

_PROBES_DIE = CallFault(
    effect="kill_after", service="sagemaker", action="CreateTrainingJob", caller="batch/*", share=0.3, times=4
)
"""Kills children right after their creation, which while capacity lacks are the probes."""


def missing(grid: FaultyGrid, lines: int) -> Outcome:
    """E15: kill each line's child at one of its calls while its Region, for half of the lines, has no capacity.

    Every line has two children, which Batch retries, and half of the lines have a replica in the other Region. Each
    line must complete without the reconciler, with one training job at a time. In every other round the shortage is
    known before the children start.
    """
    chance, struck, submissions = random.Random(grid.seed), list[str](), list[Submission]()  # noqa: S311 - moments
    for start in range(0, lines, _LINES_AT_ONCE):
        some = min(_LINES_AT_ONCE, lines - start)
        _known(grid, seconds=0 if start % (2 * _LINES_AT_ONCE) else _KNOWN_SECONDS)
        lack = (Capacity(region=REGIONS[0], seconds=0.3),)
        grid.plan(stub_seconds=0.5, capacity=lack, calls=(_PROBES_DIE, *_kills(some, chance), *SHUFFLED))
        with grid.children_at_once(2 * _LINES_AT_ONCE):
            submissions.append(grid.submit(some, retries=20))
            again = grid.submit_again(submissions[-1])
            time.sleep(_SHORT_SECONDS)
            struck += kills_of(grid)
            grid.plan(stub_seconds=0.5, calls=(_PROBES_DIE, *SHUFFLED))
            settled(grid, submissions[-1:])
            grid.at_rest(again)
        struck += kills_of(grid)
    for submission in submissions:
        until(lambda current=submission: grid.recorded(current), "every end is recorded")  # type: ignore[misc]  # mypy infers no type for this lambda
    ids = [submission.id for submission in submissions]
    return Outcome(
        volume=f"{len(struck)} kills, {lines} lines",
        struck=len(struck),
        violations=[*grid.audit(*ids), *otherwise_ended(grid, submissions, {"Completed"})],
        facts={
            "kills_by_call": dict(Counter(struck)),
            "states": states(grid, submissions),
            "training_jobs": count_created(grid, ids),
            "earlier_attempts": dict(_earlier(grid, ids)),
        },
    )


def _known(grid: FaultyGrid, seconds: int) -> None:
    """Record a shortage of the first Region for some seconds, as jobs of another submission do, or end it."""
    now, pool = int(time.time()), CapacityPool(region=REGIONS[0], instance_type=grid.engine.instance_type, spot=False)
    shortage = Shortage(
        pool=pool,
        until=now + seconds if seconds else 0,
        since=now,
        failed_at=now,
        failures=1,
        training_job="grid-00000000-0-1",
    )
    grid.plane.ledger.replace_shortage(grid.plane.ledger.shortage(pool), shortage)


def _kills(lines: int, chance: random.Random) -> Iterator[CallFault]:
    """Yield a kill for each line, and for half of them another one at their child's next try."""
    for index in range(lines):
        for attempt in range(1, 2 + (chance.random() < 0.5)):
            effect, nth = chance.choice(KILLS), chance.randint(1, _MAX_CALLS)
            caller = f"batch/*:{index}/{attempt}"
            yield CallFault(effect=effect, nth=nth, caller=caller, host_lost=chance.random() < 0.5)


def _earlier(grid: FaultyGrid, submissions: Iterable[str]) -> Counter[str]:
    """Return the number of earlier attempts by failure: training jobs without capacity, and moves without one."""
    items = (item for submission in submissions for item in intact(grid.plane.ledger.jobs(submission)))
    failures = Counter(previous.failure for item in items for previous in item.tried)
    return Counter({name: failures[name] for name in (CAPACITY.name, SHORTAGE.name)})
