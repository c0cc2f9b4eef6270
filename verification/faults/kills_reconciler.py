"""E1: the deployed reconciler, killed before and after every call of its passes, until a pass completes."""

import json
import random
from collections import Counter
from collections.abc import Iterator

from localcloud.faults.plan import CallFault
from traingrid.audit.violation import Violation
from traingrid.aws.clients import client
from verification.deployed_grid import until
from verification.faults.engine import Engine
from verification.faults.faulty_grid import FaultyGrid
from verification.faults.kills import KILLS, kills_of, states
from verification.faults.lost_children import EVENTS_LOST, LostChildren
from verification.faults.table import Outcome

_FEW = 10
"""Volume of a quick run: it kills only at writes, and does not lose the intake, which takes three Lambda attempts."""


def of_reconciler(grid: FaultyGrid, kills: int) -> Outcome:
    """E1: lose children, events and the intake, and kill each pass at its call `k` until one completes.

    Args:
        kills: Number of passes to kill, in as many lost worlds as that requires.
    """
    passes = _Passes(grid)
    ids, violations, worlds = list[str](), list[Violation](), 0
    while len(passes.struck) < kills:
        world = LostChildren(grid, worlds, intake_lost=kills > _FEW)
        passes.killed(kills - len(passes.struck))
        until(lambda: passes.run() and world.at_rest(), "passes have closed all lost lines")  # noqa: B023  # called within the same pass
        violations += world.wrong()
        ids += world.closed()
        worlds += 1
    return Outcome(
        volume=f"{len(passes.struck)} kills in {worlds} lost worlds",
        struck=len(passes.struck),
        violations=[*grid.audit(*ids), *violations],
        facts={
            "kills_by_call": dict(Counter(passes.struck)),
            "states": states(grid, [grid.submitted(submission) for submission in ids]),
        },
    )


class _Passes:
    """Passes of the deployed function, and their kills, each as the call that it preceded or followed."""

    def __init__(self, grid: FaultyGrid) -> None:
        self.struck: list[str] = []
        self._grid = grid
        self._function = grid.output("ReconcileFunction")
        self._longest = 0
        self._chance = random.Random(grid.seed)  # noqa: S311 - moments, no secrets

    def killed(self, most: int) -> None:
        """Kill up to this many passes, or one per kill point if there are fewer."""
        for fault in self._moments() if most > _FEW else _writes(self._grid.engine):
            if most <= 0:
                break
            own = fault.model_copy(update={"caller": f"lambda/{self._function}", "times": 1})
            self._grid.plan(stub_seconds=2.0, events=EVENTS_LOST, calls=(own,))
            went_through = self.run()
            struck = kills_of(self._grid)
            self.struck += struck
            most -= len(struck)
            if went_through and fault.nth:  # this pass has fewer than `nth` calls, and little work is left
                break
            self._longest = max(self._longest, fault.nth)
        self._grid.plan(stub_seconds=2.0, events=EVENTS_LOST)

    def run(self) -> bool:
        """Run one pass without a grace period; return True if it succeeded."""
        reply = client("lambda", "us-east-1").invoke(
            FunctionName=self._function, Payload=json.dumps({"grace_seconds": 0})
        )
        reply["Payload"].read()
        return "FunctionError" not in reply

    def _moments(self) -> Iterator[CallFault]:
        """Yield a kill before and after every call in order, and in later worlds in random order."""
        if not self._longest:
            for nth in range(1, 1000):
                yield from (CallFault(effect=effect, nth=nth) for effect in KILLS)
        places = [(effect, nth) for nth in range(1, self._longest + 1) for effect in KILLS]
        for effect, nth in self._chance.sample(places, len(places)):
            yield CallFault(effect=effect, nth=nth)


def _writes(engine: Engine) -> tuple[CallFault, ...]:
    """Return kills between the writes of a pass, each of which leaves the pass's work incomplete."""
    return (
        CallFault(effect="kill_before", action="UpdateItem"),
        CallFault(effect="kill_after", action=engine.stop),
        CallFault(effect="kill_after", action="UpdateItem"),
        CallFault(effect="kill_after", action="PutItem"),
        CallFault(effect="kill_before", action=engine.stop),
    )
