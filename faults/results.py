"""`bench/results/faults.json`: what each experiment has shown when it was last run, and of which commit."""

import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import description
from faults.table import Row

_CHECKOUT = Path(__file__).resolve().parent.parent
RESULTS = _CHECKOUT / "bench/results/faults.json"
"""The results that are kept with the code."""


@dataclass(kw_only=True)
class Results:
    """Rows of a run, as they are written; each tells its commit, share and time.

    Attributes:
        share: Share of the full volume.
        rows: Of the experiments, which must find nothing.
        sabotage: Of those without a safeguard, which must find something.
    """

    share: float
    rows: list[dict[str, Any]] = field(default_factory=list)
    sabotage: list[dict[str, Any]] = field(default_factory=list)

    def add(self, row: Row, *, sabotaged: bool = False) -> None:
        """Add the row of an experiment that has just ended."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        written = {**row.as_dict(), "share": self.share, "commit": _commit(), "ended_at": at}
        (self.sabotage if sabotaged else self.rows).append(written)

    def read(self, file: Path) -> None:
        """Add the rows of a file that another run has written."""
        written = json.loads(file.read_text())
        self.rows += written["rows"]
        self.sabotage += written["sabotage"]

    def write(self, file: Path, order: Sequence[str]) -> None:
        """Write them, beside what the file says of experiments that were not run now; all of that is in the sums then.

        Args:
            file: Where.
            order: The names of all experiments, in the order of the table.
        """
        former = json.loads(file.read_text()) if file.exists() else {"rows": [], "sabotage": []}
        self.rows, self.sabotage = _over(former["rows"], self.rows), _over(former["sabotage"], self.sabotage)
        self.rows.sort(key=lambda row: order.index(row["experiment"]) if row["experiment"] in order else len(order))
        report = {"machine": description(), "rows": self.rows, "sabotage": self.sabotage}
        file.write_text(json.dumps(report, indent=2) + "\n")

    @property
    def good(self) -> bool:
        """Whether nothing was found, and every sabotage was."""
        return not any(row["violations"] for row in self.rows) and all(row["violations"] for row in self.sabotage)

    @property
    def sentence(self) -> str:
        """The sum of all rows in one line."""
        counts = {kind: sum(row[kind] for row in self.rows) for kind in ("duplicates", "orphans", "lost", "violations")}
        seeds = sorted({row["seed"] for row in self.rows})
        sums = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        return f"{sums} in {len(self.rows)} experiments (seed {', '.join(map(str, seeds))})"


def _over(former: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {row["experiment"] for row in now}
    return [row for row in former if row["experiment"] not in names] + now


def _commit() -> str:
    """Return the commit that is checked out, with a mark if files differ from it."""
    described = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(described, cwd=_CHECKOUT, capture_output=True, text=True, check=False).stdout.strip()
