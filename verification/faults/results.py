"""`bench/results/faults.json`: the latest result of each experiment, with the commit that it tested."""

import fcntl
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.machine import description
from bench.results_file import SUMMARIES, commit, compact
from verification.faults.account import DEFAULT_ACCOUNT
from verification.faults.engine import EngineName
from verification.faults.table import Row


def results_of(engine: EngineName) -> Path:
    """Return the file of the results of an engine that are committed with the code."""
    return SUMMARIES / ("faults.json" if engine == "sagemaker" else f"faults-{engine}.json")


RESULTS = results_of("sagemaker")
"""The results of SageMaker."""


@dataclass(frozen=True, kw_only=True)
class Results:
    """Rows of the results file; each contains its commit, share and time.

    Attributes:
        rows: Rows of the experiments, which must find no violations.
        sabotage: Rows of the experiments without a safeguard, which must find violations.
        commit: The commit under test, determined when the run began.
        account: The account profile of the run.
    """

    rows: list[dict[str, Any]] = field(default_factory=list)
    sabotage: list[dict[str, Any]] = field(default_factory=list)
    commit: str = field(default_factory=commit)
    account: str = DEFAULT_ACCOUNT

    def add(self, row: Row, share: float, *, sabotaged: bool = False) -> None:
        """Add the row of an experiment that has just ended, with its share of the full volume."""
        at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        fields = {**row.as_dict(), "share": share, "account": self.account, "commit": self.commit, "ended_at": at}
        (self.sabotage if sabotaged else self.rows).append(fields)

    def write(self, file: Path, order: Sequence[str]) -> "Results":
        """Merge the rows into the results file: replace those of the same experiments, and keep all others.

        A lock makes this safe for a second process that writes to the same file.

        Args:
            order: The names of all experiments, in the order of the table.

        Returns:
            All results in the file.
        """
        with file.open("a+") as stream:
            fcntl.flock(stream, fcntl.LOCK_EX)
            stream.seek(0)
            previous = json.loads(stream.read() or '{"rows": [], "sabotage": []}')
            rows, sabotage = _over(previous["rows"], self.rows), _over(previous["sabotage"], self.sabotage)
            rows.sort(key=lambda row: order.index(row["experiment"]) if row["experiment"] in order else len(order))
            stream.truncate(0)
            report = {"machine": description(), "rows": rows, "sabotage": sabotage}
            stream.write(compact(report))
        return Results(rows=rows, sabotage=sabotage)

    @property
    def good(self) -> bool:
        """True if no experiment found a violation, and every sabotaged one did."""
        return not any(row["violations"] for row in self.rows) and all(row["violations"] for row in self.sabotage)

    @property
    def sentence(self) -> str:
        """One-line summary of all rows."""
        counts = {kind: sum(row[kind] for row in self.rows) for kind in ("duplicates", "orphans", "lost", "violations")}
        seeds = sorted({row["seed"] for row in self.rows})
        sums = ", ".join(f"{count} {kind}" for kind, count in counts.items())
        return f"{sums} in {len(self.rows)} experiments (seed {', '.join(map(str, seeds))})"


def _over(previous: list[dict[str, Any]], now: list[dict[str, Any]]) -> list[dict[str, Any]]:
    names = {row["experiment"] for row in now}
    return [row for row in previous if row["experiment"] not in names] + now
