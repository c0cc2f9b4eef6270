"""`python -m verification.faults.report`: prints the committed results as the tables of docs/reliability.md."""

import json
from typing import Any

from verification.faults.engine import ENGINES, EngineName
from verification.faults.experiments import experiments
from verification.faults.results import results_of

_COLUMNS = ("experiment", "volume", "duplicates", "orphans", "lost", "violations", "seconds")


def markdown(results: dict[str, Any], engine: EngineName = "sagemaker") -> str:
    """Return the rows of an engine's results as Markdown tables, followed by the experiments without a row.

    Omits rows with a violation or less than the full volume, and lists their experiments as not run.
    """
    heading = f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}\n"
    rows = [row for row in results["rows"] if row["share"] >= 1.0 and not row["violations"]]
    lines = ["| " + " | ".join(str(row[column]) for column in _COLUMNS) + " |\n" for row in rows]
    measured = {row["experiment"] for row in rows}
    missing = [name for name in experiments(1, engine) if name not in measured]
    none = f"\nNot run at full volume yet: {'; '.join(missing)}.\n" if missing else ""
    sabotage_rows = [
        f"| {row['experiment']} | {row['volume']} | {row['violations']} |\n" for row in results["sabotage"]
    ]
    sabotage = (
        "\n| sabotage | volume | violations found |\n|---|---|---|\n" + "".join(sabotage_rows) if sabotage_rows else ""
    )
    return heading + "".join(lines) + none + sabotage


if __name__ == "__main__":
    for engine in ENGINES:
        print(f"{engine}:\n\n{markdown(json.loads(results_of(engine).read_text()), engine)}")
