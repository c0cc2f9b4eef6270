"""Tables of docs/spot.md: writes them from bench/results/spot.json and spot-traces.json, between their markers.

python -m docs_site.spot_page
"""

import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from bench import results_file
from bench.spot.cases import MAIN

PAGE = Path(__file__).resolve().parent.parent / "docs/spot.md"
_MARKED = re.compile(r"(<!-- costs: ([\w-]+) -->\n).*?(<!-- end of costs -->)", re.DOTALL)
_DEADLINES = (1.1, 1.25, 1.5, 2.0, 3.0)
_COLUMNS = {
    "traingrid": "traingrid",
    "uniform_progress": "Uniform Progress",
    "greedy": "greedy",
    "before": "former rule",
    "on_demand": "on demand",
}


def page(text: str) -> str:
    """Return the text of the page with the present tables.

    Args:
        text: The page, whose other parts are written by hand.
    """
    return _MARKED.sub(lambda part: f"{part[1]}\n{_table(results_file.read(part[2]))}\n\n{part[3]}", text)


def _table(result: Mapping[str, Any]) -> str:
    heads = ("places", "deadline / duration", "lower bound", *_COLUMNS.values(), "late, of jobs")
    lines = [heads, ("---",) * len(heads), *_rows(result["rows"])]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)


def _rows(rows: Iterable[Mapping[str, Any]]) -> Iterable[tuple[str, ...]]:
    for row in rows:
        if (row["hours"], row["restart_minutes"]) == MAIN and row["deadline"] in _DEADLINES:
            rules = row["rules"]
            costs = (f"{rules[name]['cost']:.2f}" for name in _COLUMNS)
            late = f"{rules['traingrid']['late']} of {row['jobs']}"
            yield row["places"], f"{row['deadline']:g}", f"{row['bound']:.2f}", *costs, late


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
