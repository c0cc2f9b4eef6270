"""`make bench-control`: measures the control plane against localcloud, prints a table, writes results/control.json."""

import json
import operator
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.cost import cost_of_holding
from bench.intake import bytes_read_by_a_child, intake_of_a_large_manifest
from bench.launch import launches
from bench.machine import CHECKOUT, description
from bench.world import World, deployed

RESULTS = CHECKOUT / "bench/results/control.json"
COMPARISONS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}
SAME = 1.1
"""Most by which the bytes of two lines may differ and still count as the same: an index has more or fewer digits."""
_WIDTH = 110


@dataclass(frozen=True, kw_only=True)
class Result:
    """One figure against its aim."""

    id: str
    what: str
    measured: float
    comparison: str
    aim: float
    unit: str

    @property
    def met(self) -> bool:
        """Whether the aim is reached."""
        return COMPARISONS[self.comparison](self.measured, self.aim)


def main() -> None:
    """Measure everything in one deployed grid."""
    machine = description()
    with tempfile.TemporaryDirectory(prefix="traingrid-bench-") as work, deployed(Path(work)) as world:
        details = measure(world)
    found = results(details)
    document = {
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "machine": machine,
        "measured_against": "localcloud on the same machine, not AWS",
        "results": [asdict(result) | {"met": result.met} for result in found],
        "details": details,
    }
    RESULTS.parent.mkdir(exist_ok=True)
    RESULTS.write_text(json.dumps(document, indent=2) + "\n")
    Console(width=_WIDTH).print(table(found))
    print(f"written to {RESULTS.relative_to(CHECKOUT)}")


def measure(world: World) -> dict[str, Any]:
    """Return the measurements, one after the other: nothing else of ours runs meanwhile."""
    return {
        "P1": launches(world),
        "P2": cost_of_holding(world),
        "P6": intake_of_a_large_manifest(world),
        "P7": bytes_read_by_a_child(world),
    }


def results(details: dict[str, Any]) -> list[Result]:
    """Return the figures that have an aim."""
    launch, cost, intake, read = (details[name] for name in ("P1", "P2", "P6", "P7"))
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


def table(found: list[Result]) -> Table:
    """Return the figures as a table for a person."""
    shown = Table(box=None, pad_edge=False)
    for heading in ("", "what", "aim", "measured", "met"):
        shown.add_column(heading, no_wrap=True)
    for one in found:
        aim = f"{one.comparison} {one.aim:g} {one.unit}"
        shown.add_row(one.id, one.what, aim, f"{one.measured:g} {one.unit}", "yes" if one.met else "NO")
    return shown


if __name__ == "__main__":
    main()
