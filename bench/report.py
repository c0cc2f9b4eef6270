"""Report of a measurement: a table of figures with their targets, and a JSON file in bench/results/."""

import operator
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench import results_file
from bench.machine import CHECKOUT

COMPARISONS: dict[str, Callable[[float, float], bool]] = {">=": operator.ge, "<=": operator.le}
_WIDTH = 110


@dataclass(frozen=True, kw_only=True)
class Result:
    """One figure and its target."""

    id: str
    what: str
    measured: float
    comparison: str
    aim: float
    unit: str

    @property
    def met(self) -> bool:
        """True if the target is reached."""
        return COMPARISONS[self.comparison](self.measured, self.aim)


def report(  # noqa: PLR0913  # the parts of a result
    name: str,
    found: list[Result],
    *,
    machine: dict[str, Any],
    against: str,
    details: dict[str, Any],
    more: dict[str, Any] | None = None,
) -> None:
    """Write the figures to bench/results/ and the details to build/bench/, and print the figures as a table.

    Args:
        name: The measurement, which is the name of its file.
        found: The figures that have a target.
        machine: Description of the machine, taken before the measurement.
        against: The system under test.
        details: The raw measurements.
        more: Figures without a target that belong into the summary, too.
    """
    document = {
        "measured_against": against,
        "results": [asdict(result) | {"met": result.met} for result in found],
        **(more or {}),
    }
    file = results_file.write(name, document, details, machine)
    Console(width=_WIDTH).print(table(found))
    print(f"written to {file.relative_to(CHECKOUT)}")


def table(found: list[Result]) -> Table:
    """Return the figures as a table for a terminal."""
    shown = Table(box=None, pad_edge=False)
    for heading in ("", "what", "aim", "measured", "met"):
        shown.add_column(heading, no_wrap=True)
    for one in found:
        aim = f"{one.comparison} {one.aim:g} {one.unit}"
        shown.add_row(one.id, one.what, aim, f"{one.measured:g} {one.unit}", "yes" if one.met else "NO")
    return shown
