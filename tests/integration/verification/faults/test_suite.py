"""A small share of `make faults`: the same experiments with few children, and proof that they can fail."""

from collections.abc import Callable

import pytest

from tests.support.packages import needs
from traingrid.audit.violation import Violation
from verification.faults import (
    budgets,
    by_hand,
    calls,
    catalog_outage,
    child_loss,
    copies,
    events,
    frozen,
    kills,
    kills_cancel,
    kills_intake,
    kills_reconciler,
    manifests,
    races,
    registrations,
    scale,
    shortages,
)
from verification.faults.faulty_grid import FaultyGrid
from verification.faults.table import Outcome, measured, table

Experiment = Callable[[FaultyGrid], Outcome]


def _copies(grid: FaultyGrid) -> Outcome:
    return copies.copied(grid, lines=4)


def _by_hand(grid: FaultyGrid) -> Outcome:
    return by_hand.submitted_by_hand(grid, manifests=6)


def _budget(grid: FaultyGrid) -> Outcome:
    return budgets.reached(grid, lines=4, training_seconds=60.0)


def _frozen(grid: FaultyGrid) -> Outcome:
    return frozen.frozen(grid, lines=7)


HOLDS: dict[str, Experiment] = {
    "children are killed at their calls": lambda grid: kills.of_children(grid, "fresh", kills=6),
    "children find no capacity and are killed": lambda grid: kills.of_children(grid, "capacity", kills=2),
    "the intake is killed at its calls": lambda grid: kills_intake.of_intake(grid, kills=4),
    "the reconciler is killed at its calls": lambda grid: kills_reconciler.of_reconciler(grid, kills=3),
    "the cancel command is killed at its calls": lambda grid: kills_cancel.of_cancel(grid, kills=3),
    "replies are lost": lambda grid: calls.lost_replies(grid, count=2),
    "events come often, late and shuffled": lambda grid: events.duplicates(grid, 10, 2, 3),
    "every line has two children": lambda grid: races.doubled(grid, pairs=4),
    "calls are throttled": lambda grid: calls.throttled(grid, share=0.3, lines=2),
    "all children and events are lost": lambda grid: child_loss.everything_lost(grid, lines=3),
    "manifests are cut off": lambda grid: manifests.truncated(grid, cuts=16, deployed=2),
    "manifests are made up": lambda grid: manifests.made_up(grid, manifests=50, deployed=2),
    "a manifest has many lines": lambda grid: scale.of_lines(grid, lines=24),
    "manifests are submitted by hand": _by_hand,
    "a Region has no capacity for a while": lambda grid: shortages.missing(grid, lines=8),
    "datasets register themselves": lambda grid: registrations.registered(grid, datasets=3, copies=3),
    "children that copy data are killed at their calls": _copies,
    "a budget is reached": _budget,
    "cancels race creations": lambda grid: races.cancelled(grid, races=4),
    "children are frozen while their lines are retried": _frozen,
}

SABOTAGES: dict[str, Experiment] = {
    "attach": lambda grid: kills.after_the_create(grid, kills=2),
    "look by name": lambda grid: kills_intake.after_the_submit(grid, kills=1),
    "check after create": lambda grid: races.intents(grid, lines=2, seconds_to_stop=8.0),
    "second look": _frozen,
    "write once": lambda grid: registrations.after_the_write(grid, kills=2),
    "verified copy": _copies,
    "array size": _by_hand,
    "running jobs": _budget,
}


@pytest.mark.parametrize("what", HOLDS)
def test_invariants_hold_when(grid: FaultyGrid, what: str) -> None:
    assert HOLDS[what](grid).violations == []


@needs("postgresql")
def test_training_does_not_depend_on_the_catalog(grid: FaultyGrid) -> None:
    assert catalog_outage.down(grid, lines=4).violations == []


@pytest.mark.parametrize("safeguard", SABOTAGES)
def test_the_suite_detects_a_missing_safeguard(grid: FaultyGrid, safeguard: str) -> None:
    if SABOTAGES[safeguard] not in HOLDS.values():  # otherwise, the test above has run it
        assert SABOTAGES[safeguard](grid).violations == []
    with grid.sabotaged(safeguard):
        assert SABOTAGES[safeguard](grid).violations


def test_a_timeout_becomes_a_row_with_a_violation() -> None:
    def endless() -> Outcome:
        raise TimeoutError("timed out after 1 s waiting until every line ends")

    row = measured("E0", 7, endless)
    assert (row.violations, row.lost, row.found) == (
        1,
        1,
        ["I1 lost: timed out after 1 s waiting until every line ends"],
    )


def test_an_experiment_without_strikes_proves_nothing() -> None:
    row = measured("E0", 7, lambda: Outcome(volume="0 kills", struck=0, violations=[]))
    assert (row.violations, row.found) == (1, ["I1 other: no fault struck, so the experiment proves nothing"])


def test_the_table_shows_counts_and_the_seed() -> None:
    orphan = Violation(invariant="I3", kind="orphan", submission="", what="one runs")
    row = measured("E0", 7, lambda: Outcome(volume="1 thing", violations=[orphan]))
    assert [str(column.header) for column in table([row.as_dict()]).columns][-2:] == ["seed", "seconds"]
    assert [next(iter(column.cells)) for column in table([row.as_dict()]).columns][:7] == [
        "E0",
        "1 thing",
        "0",
        "1",
        "0",
        "1",
        "7",
    ]
