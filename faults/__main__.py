"""`python -m faults`: run the experiments, print one table, and write `bench/results/faults.json`."""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable
from functools import partial
from pathlib import Path

from rich.console import Console

from bench.machine import description
from faults import (
    calls,
    endings,
    events,
    kills,
    kills_cancel,
    kills_intake,
    kills_reconciler,
    manifests,
    races,
    scale,
    state_machine,
)
from faults.arena import Arena, arena
from faults.table import Outcome, Row, measured, table

_RESULTS = Path(__file__).resolve().parent.parent / "bench/results/faults.json"

Experiment = Callable[[Arena], Outcome]

_KILLED_CHILDREN = {
    "fresh": (300, 28),
    "attach": (80, 6),
    "quota": (80, 6),
    "capacity": (80, 6),
    "lag": (60, 6),
    "cancel": (80, 6),
    "finish": (80, 6),
}
"""Of each scenario in which children are killed, the full volume and the least."""


def experiments(share: float) -> dict[str, Experiment]:
    """Return the experiments by their name.

    Args:
        share: Share of the full volume; each experiment has a least volume below which it shows nothing.
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
        "E8 told to end at any moment": partial(endings.at_any_moment, children=of(300, 10)),
        "E9 all children and events lost": partial(endings.everything_lost, lines=of(100, 4)),
        "E10 truncated manifests": partial(manifests.truncated, cuts=of(1024, 32), deployed=of(50, 2)),
        "E10 generated manifests": partial(manifests.made_up, manifests=of(20_000, 100), deployed=of(50, 2)),
        "E12 cancel races": partial(races.cancelled, races=of(1000, 6)),
        "E12 intents alone": partial(races.intents, lines=of(40, 3)),
        # Last: all that is listed after it is longer by so much.
        **{f"E11 {lines:,} lines": partial(scale.of_lines, lines=of(lines, 40)) for lines in (10_000, 25_000)},
    }


def sabotages(share: float) -> dict[str, Experiment]:
    """Return, by the safeguard that the children or the intake lack, the experiment that must notice."""
    return {
        "look by name": partial(kills_intake.after_the_submit, kills=max(1, round(5 * share))),
        "attach": partial(kills.after_the_create, kills=max(4, round(20 * share))),
        "check after create": partial(races.intents, lines=max(3, round(20 * share))),
        "conditional write": partial(races.zombies, lines=max(2, round(10 * share))),
    }


def _row(arena: Arena, name: str, seed: int, experiment: Experiment, console: Console) -> Row:
    row = measured(name, seed, partial(experiment, arena))
    console.print(f"{name}: {row.volume}, {row.violations} violations in {row.seconds} s", row.facts)
    for line in row.found[:5]:
        console.print("  ", line, markup=False)
    return row


def main() -> int:
    """Run and report; returns 1 where anything was found."""
    parser = argparse.ArgumentParser(prog="python -m faults", description="What must hold of a grid, whatever fails.")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="share of the full volume, from 0 to 1")
    parser.add_argument("--only", default="", help="names of experiments begin with one of these, e.g. E1,E3")
    parser.add_argument("--output", type=Path, default=_RESULTS)
    chosen = parser.parse_args()
    only = set(filter(None, chosen.only.split(",")))
    console, rows, sabotaged = Console(width=120), list[Row](), list[Row]()
    with tempfile.TemporaryDirectory(prefix="faults-") as work, arena(Path(work), chosen.seed) as world:
        for name, experiment in experiments(chosen.share).items():
            if not only or name.split()[0] in only:
                rows.append(_row(world, name, chosen.seed, experiment, console))
        for safeguard, experiment in sabotages(chosen.share).items() if not only or "sabotage" in only else ():
            with world.sabotaged(safeguard):
                sabotaged.append(_row(world, f"without {safeguard}", chosen.seed, experiment, console))
    console.print(table(rows))
    if sabotaged:
        console.print("Sabotage: each of these must find something.", table(sabotaged))
    report = {"machine": description(), "share": chosen.share, "rows": [row.as_dict() for row in rows]}
    report["sabotage"] = [row.as_dict() for row in sabotaged]
    chosen.output.write_text(json.dumps(report, indent=2) + "\n")
    return 1 if any(row.violations for row in rows) or not all(row.violations for row in sabotaged) else 0


if __name__ == "__main__":
    sys.exit(main())
