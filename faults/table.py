"""What an experiment has shown: one row each, and all of them as a table and as JSON."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from time import monotonic
from typing import Any

from rich.table import Table

from traingrid.audit import counts
from traingrid.violation import Violation

NOT_ENDED = "not ended"
"""The volume of an experiment that did not come to its end in time."""


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What came of an experiment.

    Attributes:
        volume: How much was done, in the experiment's own unit, e.g. "50 kills".
        violations: What the audit found.
        facts: More figures, for the JSON.
        struck: How often what the experiment is about has happened; None for what has no faults. Never is a violation.
    """

    volume: str
    violations: list[Violation]
    facts: dict[str, Any] = field(default_factory=dict)
    struck: int | None = None


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
        outcome = Outcome(volume=NOT_ENDED, violations=[violation])
    violations = [*outcome.violations]
    if outcome.struck == 0:
        what = "nothing has struck, so nothing was shown"
        violations.append(Violation(invariant="I1", kind="other", submission="", what=what))
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
    """Return rows, as `Row.as_dict` gives them, as a table for a terminal."""
    columns = ("experiment", "volume", "duplicates", "orphans", "lost", "violations", "seed", "seconds")
    shown = Table(*columns)
    for row in rows:
        shown.add_row(*(str(row[column]) for column in columns))
    return shown
