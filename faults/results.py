"""`bench/results/faults.json`: what each experiment has shown when it was last run, and of which commit."""

import fcntl
import json
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import description
from faults.account import DEFAULT_ACCOUNT
from faults.table import Row

_CHECKOUT = Path(__file__).resolve().parent.parent
RESULTS = _CHECKOUT / "bench/results/faults.json"
"""The results that are kept with the code."""


def _commit() -> str:
    """Return the commit that is checked out, with a mark if files differ from it."""
    described = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    return subprocess.run(described, cwd=_CHECKOUT, capture_output=True, text=True, check=False).stdout.strip()


@dataclass(frozen=True, kw_only=True)
class Results:
    """Rows as they are written; each tells its commit, share and time.

    Attributes:
        rows: Of the experiments, which must find nothing.
        sabotage: Of those without a safeguard, which must find something.
        commit: The commit that is run, as it was found at the beginning.
        account: The profile of the account that it runs in.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    sabotage: list[dict[str, Any]] = field(default_factory=list)
    commit: str = field(default_factory=_commit)
    account: str = DEFAULT_ACCOUNT

    def add(self, row: Row, share: float, *, sabotaged: bool = False) -> None:
        """Add the row of an experiment that has just ended, with the share of the full volume that it was of."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        written = {**row.as_dict(), "share": share, "account": self.account, "commit": self.commit, "ended_at": at}
        (self.sabotage if sabotaged else self.rows).append(written)

    def write(self, file: Path, order: Sequence[str]) -> "Results":
        """Write them over what the file says of the same experiments; others' rows stay, also those of a run beside.

        Args:
            file: Where.
            order: The names of all experiments, in the order of the table.

        Returns:
            Everything that the file says now.
        """
        with file.open("a+") as written:
            fcntl.flock(written, fcntl.LOCK_EX)
            written.seek(0)
            former = json.loads(written.read() or '{"rows": [], "sabotage": []}')
            rows, sabotage = _over(former["rows"], self.rows), _over(former["sabotage"], self.sabotage)
            rows.sort(key=lambda row: order.index(row["experiment"]) if row["experiment"] in order else len(order))
            written.truncate(0)
            report = {"machine": description(), "rows": rows, "sabotage": sabotage}
            written.write(json.dumps(report, indent=2) + "\n")
        return Results(rows=rows, sabotage=sabotage)

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
