"""`make bench-control`: measures the control plane in localcloud, prints a table, and writes results/control.json."""

import tempfile
from pathlib import Path
from typing import Any

from bench.cost import cost_of_holding
from bench.intake import bytes_read_by_a_child, intake_of_a_large_manifest
from bench.launch import RECIPE_PYTHON, launches
from bench.machine import description
from bench.report import Result, report
from bench.size import IS_TINY
from bench.world import World, deployed

SAME = 1.1
"""Largest ratio of bytes read that counts as equal; indexes differ in their number of digits."""


def main() -> None:
    """Take all measurements in one deployed grid."""
    machine = description()
    with tempfile.TemporaryDirectory(prefix="traingrid-bench-") as work, deployed(Path(work)) as world:
        details = measure(world)
    found = results(details)
    report("control", found, machine=machine, against="localcloud on the same machine, not AWS", details=details)


def measure(world: World) -> dict[str, Any]:
    """Return the measurements, taken one at a time so that they do not influence each other."""
    has_recipe = RECIPE_PYTHON.exists() or not IS_TINY
    return {
        **({"P1": launches(world)} if has_recipe else {}),
        "P2": cost_of_holding(world),
        "P6": intake_of_a_large_manifest(world),
        "P7": bytes_read_by_a_child(world),
    }


def results(details: dict[str, Any]) -> list[Result]:
    """Return the figures that have a target."""
    launch = details.get("P1", {"times_faster": 0.0, "times_less_memory": 0.0})  # missing at the tiny size only
    cost, intake, read = (details[name] for name in ("P2", "P6", "P7"))
    large = f"{intake['lines']:,} lines through the intake"
    rows: list[tuple[str, str, float, str, float, str]] = [
        ("P1", "child to accepted CreateTrainingJob, faster", launch["times_faster"], ">=", 6, "times"),
        ("P1", "child until then, less memory", launch["times_less_memory"], ">=", 4, "times"),
        ("P2", "a job held for an hour, cheaper", cost["times_less"], ">=", 7, "times"),
        ("P2", "the same with each child's public address", cost["times_less_with_public_address"], ">=", 7, "times"),
        ("P6", large, intake["seconds"], "<=", 3, "s"),
        ("P6", f"{large}, peak memory", intake["peak_mib"], "<=", 256, "MiB"),
        ("P6", f"{large}, API calls", intake["calls"], "<=", 10, "calls"),
        ("P7", "bytes a child reads, most to least over all sizes", read["most_to_least"], "<=", SAME, "times"),
    ]
    return [
        Result(id=name, what=what, measured=measured, comparison=comparison, aim=aim, unit=unit)
        for name, what, measured, comparison, aim, unit in rows
    ]


if __name__ == "__main__":
    main()
