"""`python -m verification.faults.report`: prints the committed results as the tables of docs/reliability.md."""

import json
from typing import Any

from verification.faults.__main__ import experiments
from verification.faults.results import RESULTS

_COLUMNS = ("experiment", "volume", "duplicates", "orphans", "lost", "violations", "seconds")


def markdown(results: dict[str, Any]) -> str:
    """Return the rows of bench/results/faults.json as Markdown tables, followed by the experiments without a row.

    Omits rows with less than the full volume or with a violation, and lists their experiments as not run.
    """
    head = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"
    rows = [row for row in results["rows"] if row["share"] >= 1 and not row["violations"]]
    lines = ["| " + " | ".join(str(row[column]) for column in _COLUMNS) + " |\n" for row in rows]
    shown = {row["experiment"] for row in rows}
    missing = [name for name in experiments(1) if name not in shown]
    none = f"\nNot run at full volume yet: {'; '.join(missing)}.\n" if missing else ""
    found = [f"| {row['experiment']} | {row['volume']} | {row['violations']} |\n" for row in results["sabotage"]]
    sabotage = "\n| sabotage | volume | violations found |\n|---|---|---|\n" + "".join(found) if found else ""
    return head + "".join(lines) + none + sabotage


if __name__ == "__main__":
    print(markdown(json.loads(RESULTS.read_text())), end="")
