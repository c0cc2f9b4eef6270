"""`python -m verification.faults`: run the experiments, print one table, and write `bench/results/faults.json`."""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable, Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from localcloud.limits.quota import PROFILES
from verification.faults import (
    budgets,
    by_hand,
    calls,
    catalog_outage,
    child_loss,
    copies,
    events,
    kills,
    kills_cancel,
    kills_intake,
    kills_reconciler,
    manifests,
    races,
    registrations,
    scale,
    shortages,
    state_machine,
)
from verification.faults.account import DEFAULT_ACCOUNT, grant_instances
from verification.faults.deployment import faulty_grid
from verification.faults.engine import ENGINES
from verification.faults.faulty_grid import FaultyGrid
from verification.faults.results import Results, results_of
from verification.faults.table import NOT_ENDED, Outcome, measured, table

_WAITING = ("E6", "E7")

Experiment = Callable[[FaultyGrid], Outcome]

_KILLED_CHILDREN = {
    "fresh": (300, 28),
    "attach": (80, 6),
    "quota": (80, 6),
    "capacity": (80, 6),
    "streams": (100, 6),
    "lag": (60, 6),
    "cancel": (80, 6),
    "finish": (80, 6),
}
"""Number of children killed per scenario: at full volume, and at least."""


def experiments(share: float) -> dict[str, Experiment]:
    """Return all experiments by name.

    Args:
        share: Share of the full volume. Each experiment has a minimum volume, below which it proves nothing.
    """

    def of(full: int, least: int) -> int:
        return max(least, round(full * share))

    return {
        **{
            f"E1 children: {scenario}": partial(kills.of_children, scenario=scenario, kills=of(*volume))
            for scenario, volume in _KILLED_CHILDREN.items()
        },
        "E1 intake": partial(kills_intake.of_intake, kills=of(100, 6)),
        "E1 reconciler": partial(kills_reconciler.of_reconciler, kills=of(60, 6)),
        "E1 cancel": partial(kills_cancel.of_cancel, kills=of(60, 6)),
        "E2 lost replies": partial(calls.lost_replies, each=of(50, 2)),
        "E3 duplicated events": partial(
            events.duplicates, copies=of(1000, 20), manifests=of(100, 3), copies_each=of(10, 3)
        ),
        "E4 state machine": partial(state_machine.state_machine, examples=of(5000, 100), steps=50),
        "E5 two children for a line": partial(races.doubled, pairs=of(500, 6)),
        "E5 late writes of dead children": partial(races.zombies, lines=of(20, 2)),
        **{
            f"E6 throttled {throttled:.0%}": partial(calls.throttled, share=throttled, lines=of(200, 4))
            for throttled in (0.0, 0.3, 0.6, 0.95)
        },
        "E7 stalled answers": partial(calls.stalled, lines=of(50, 4)),
        "E8 told to end at any moment": partial(child_loss.at_any_moment, children=of(300, 10)),
        "E9 all children and events lost": partial(child_loss.everything_lost, lines=of(100, 4)),
        "E10 truncated manifests": partial(manifests.truncated, cuts=of(1024, 32), deployed=of(50, 2)),
        "E10 generated manifests": partial(manifests.made_up, manifests=of(20_000, 100), deployed=of(50, 2)),
        "E12 cancel races": partial(races.cancelled, races=of(1000, 6)),
        "E12 intents alone": partial(races.intents, lines=of(40, 3)),
        "E13 expired credentials": partial(calls.expired, lines=of(50, 4)),
        "E14 submitted by hand": partial(by_hand.submitted_by_hand, manifests=of(60, 6)),
        "E15 missing capacity": partial(shortages.missing, lines=of(120, 8)),
        "E16 datasets that register themselves": partial(registrations.registered, datasets=of(60, 4), copies=of(5, 3)),
        "E17 children that copy data": partial(copies.copied, lines=of(112, 4)),
        "E18 budget reached while lines launch": partial(budgets.reached, lines=of(120, 8)),
        "E19 catalog down during 200 lines": partial(catalog_outage.down, lines=of(200, 4)),
        # These run last because they take far longer than the others.
        "E11 10,000 lines": partial(scale.of_lines, lines=of(10_000, 40)),
        "E11 25,000 lines, cancelled": partial(scale.cancelled, lines=of(25_000, 40), begun=of(1_000, 4)),
    }


def sabotages(share: float) -> dict[str, Experiment]:
    """Return, for each safeguard that can be disabled, the experiment that must detect its absence."""
    return {
        "look by name": partial(kills_intake.after_the_submit, kills=max(1, round(5 * share))),
        "attach": partial(kills.after_the_create, kills=max(4, round(20 * share))),
        "check after create": partial(races.intents, lines=max(3, round(20 * share))),
        "array size": partial(by_hand.submitted_by_hand, manifests=max(6, round(12 * share))),
        "write once": partial(registrations.after_the_write, kills=max(3, round(10 * share))),
        "verified copy": partial(copies.copied, lines=max(4, round(12 * share))),
        "running jobs": partial(budgets.reached, lines=max(6, round(12 * share)), training_seconds=60.0),
        "conditional write": partial(races.zombies, lines=max(2, round(10 * share))),
    }


@dataclass(frozen=True, kw_only=True)
class Run:
    """Experiments that one process runs.

    Attributes:
        options: Command-line options.
        results: Collects the rows. They are written after each experiment, so that an interrupted run keeps them.
        console: Displays progress.
    """

    options: argparse.Namespace
    results: Results
    console: Console

    def all(self, names: Collection[str]) -> None:
        """Run the experiments with these names in one localcloud."""
        share = self.options.share
        with tempfile.TemporaryDirectory(prefix="faults-") as work, _grid(self.options, Path(work)) as world:
            for name, experiment in experiments(share).items():
                if name in names:
                    self._one(world, name, experiment)
            for safeguard, experiment in sabotages(share).items():
                if f"sabotage: {safeguard}" in names:
                    with world.sabotaged(safeguard):
                        self._one(world, f"without {safeguard}", experiment, sabotaged=True)

    def _one(self, grid: FaultyGrid, name: str, experiment: Experiment, *, sabotaged: bool = False) -> None:
        grant_instances(grid.cloud, name, grid.engine.instance_type)
        row = measured(name, self.options.seed, partial(experiment, grid))
        self.console.print(f"{name}: {row.volume}, {row.violations} violations in {row.seconds} s", row.facts)
        for line in row.found[:5]:
            self.console.print("  ", line, markup=False)
        self.results.add(row, self.options.share, sabotaged=sabotaged)
        self.written()
        if row.volume == NOT_ENDED:
            grid.clear()

    def written(self) -> Results:
        """Write the results collected so far, and return the results of all experiments."""
        return self.results.write(self.options.output, [*experiments(1)])


def _grid(options: argparse.Namespace, work: Path) -> AbstractContextManager[FaultyGrid]:
    return faulty_grid(work, options.seed, options.account, options.engine)


@contextmanager
def _beside(run: Run, names: Collection[str]) -> Iterator[None]:
    """Run experiments in a separate process for the duration of the block. It writes its rows to the same file."""
    options = run.options
    same = ["--seed", str(options.seed), "--share", str(options.share), "--output", str(options.output)]
    same += ["--account", options.account, "--engine", options.engine]
    program = subprocess.Popen([sys.executable, "-m", "verification.faults", "--only", ",".join(names), *same])
    try:
        yield
        run.console.print(f"waiting for {', '.join(names)}")
        program.wait()
    finally:
        program.terminate()
        program.wait()


def main() -> int:
    """Run the suite and print a report; return 1 if any experiment found a violation or did not run."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.faults", description="Check a grid's invariants under faults."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="share of the full volume, from 0 to 1")
    parser.add_argument(
        "--only", default="", help="run experiments with these name prefixes, e.g. E1,E3,sabotage; keep other rows"
    )
    parser.add_argument("--account", choices=PROFILES, default=DEFAULT_ACCOUNT, help="quotas of the account")
    parser.add_argument("--engine", choices=ENGINES, default="sagemaker", help="engine that trains the lines")
    parser.add_argument("--output", type=Path, help="results file; by default that of the engine in bench/results")
    options = parser.parse_args()
    options.output = options.output or results_of(options.engine)
    only = list(filter(None, options.only.split(",")))
    names = [*experiments(1), *(f"sabotage: {safeguard}" for safeguard in sabotages(1))]
    chosen = [name for name in names if not only or any(re.match(rf"{re.escape(word)}(?!\w)", name) for word in only)]
    run = Run(options=options, results=Results(account=options.account), console=Console(width=120))
    if not only:
        options.output.unlink(missing_ok=True)
    # Experiments that mostly wait run in parallel with the others, for about an hour.
    waiting = [name for name in chosen if name.startswith(_WAITING) and not only]
    with _beside(run, waiting) if waiting else nullcontext():
        run.all([name for name in chosen if name not in waiting])
    known = run.written()
    run.console.print(table(known.rows))
    if known.sabotage:
        run.console.print("Sabotage: each of these experiments must find a violation.", table(known.sabotage))
    run.console.print(known.sentence)
    rows = {*(row["experiment"] for row in known.rows), *(row["experiment"] for row in known.sabotage)}
    missing = [name for name in chosen if name.replace("sabotage:", "without") not in rows]
    if missing:
        run.console.print(f"These experiments have no result: {', '.join(missing)}")
    return 0 if known.good and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
