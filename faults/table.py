"""What an experiment has shown: one row each, and all of them as a table and as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from rich.table import Table

from traingrid.audit import counts
from traingrid.violation import Violation


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of an experiment.

    Attributes:
        volume: How much was done, in the experiment's own unit, e.g. "50 kills".
        violations: What the audit found.
        facts: More figures, for the JSON.
    """

    volume: str
    violations: list[Violation]
    facts: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Row:
    """An experiment and its outcome, as counts."""

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
        """Return it for JSON."""
        return asdict(self)


def measured(name: str, seed: int, experiment: Callable[[], Outcome]) -> Row:
    """Run an experiment and return its row."""
    started = monotonic()
    try:
        outcome = experiment()
    except TimeoutError as error:  # what never comes to rest is not accounted for
        violation = Violation(invariant="I1", kind="lost", submission="", what=str(error))
        outcome = Outcome(volume="not ended", violations=[violation])
    kinds = counts(outcome.violations)
    return Row(
        experiment=name,
        volume=outcome.volume,
        duplicates=kinds["duplicate"],
        orphans=kinds["orphan"],
        lost=kinds["lost"],
        violations=len(outcome.violations),
        seed=seed,
        seconds=round(monotonic() - started, 1),
        found=[str(violation) for violation in outcome.violations][:20],
        facts=outcome.facts,
    )


def table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Return rows, as `Row.as_dict` gives them, as a table for a terminal."""
    columns = ("experiment", "volume", "duplicates", "orphans", "lost", "violations", "seed", "seconds")
    shown = Table(*columns)
    for row in rows:
        shown.add_row(*(str(row[column]) for column in columns))
    return shown
