"""`python -m faults.report`: the results that are kept, as the table of docs/reliability.md."""

import json
from typing import Any

from faults.results import RESULTS

_COLUMNS = ("experiment", "volume", "duplicates", "orphans", "lost", "violations", "seconds")


def markdown(results: dict[str, Any]) -> str:
    """Return the rows of bench/results/faults.json, and what was found without each safeguard, as Markdown tables."""
    head = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"
    rows = ["| " + " | ".join(str(row[column]) for column in _COLUMNS) + " |\n" for row in results["rows"]]
    found = [f"| {row['experiment']} | {row['volume']} | {row['violations']} |\n" for row in results["sabotage"]]
    return head + "".join(rows) + "\n| sabotage | volume | violations found |\n|---|---|---|\n" + "".join(found)


if __name__ == "__main__":
    print(markdown(json.loads(RESULTS.read_text())), end="")
