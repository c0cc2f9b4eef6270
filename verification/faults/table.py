"""Results of experiments: one row each, shown as a table and written as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from rich.table import Table

from traingrid.audit.audit import counts
from traingrid.audit.violation import Violation

NOT_ENDED = "not ended"
"""Volume of an experiment that timed out."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """Result of an experiment.

    Attributes:
        volume: Amount of work done, in the experiment's own unit, e.g. "50 kills".
        violations: Violations found by the audit.
        facts: Additional figures for the JSON.
        struck: Number of faults that struck; None for an experiment without faults. Zero is a violation.
    """

    volume: str
    violations: list[Violation]
    facts: dict[str, Any] = field(default_factory=dict)
    struck: int | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """An experiment's result as counts."""

    experiment: str
    volume: str
    duplicates: int
    orphans: int
    lost: int
    violations: int
    seed: int
    seconds: float
    found: list[str]
    facts: dict[str, Any]

    def as_dict(self) -> dict[str, Any]:
        """Return the row as a dictionary for JSON."""
        return asdict(self)


def measured(name: str, seed: int, experiment: Callable[[], Outcome]) -> Row:
    """Run an experiment and return its row."""
    started = monotonic()
    try:
        outcome = experiment()
    except TimeoutError as error:  # work that never comes to rest counts as lost
        violation = Violation(invariant="I1", kind="lost", submission="", what=str(error))
        outcome = Outcome(volume=NOT_ENDED, violations=[violation])
    violations = [*outcome.violations]
    if outcome.struck == 0:
        sentence = "no fault struck, so the experiment proves nothing"
        violations.append(Violation(invariant="I1", kind="other", submission="", what=sentence))
    kinds = counts(violations)
    return Row(
        experiment=name,
        volume=outcome.volume,
        duplicates=kinds["duplicate"],
        orphans=kinds["orphan"],
        lost=kinds["lost"],
        violations=len(violations),
        seed=seed,
        seconds=round(monotonic() - started, 1),
        found=[str(violation) for violation in violations][:20],
        facts=outcome.facts,
    )


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows (see `Row.as_dict`) as a table for a terminal."""
    columns = ("experiment", "volume", "duplicates", "orphans", "lost", "violations", "seed", "seconds")
    rich_table = Table(*columns)
    for row in rows:
        rich_table.add_row(*(str(row[column]) for column in columns))
    return rich_table
