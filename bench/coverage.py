"""Coverage: prints line and branch coverage of each package, from the JSON report of `make coverage`."""

import json
import sys
from collections import Counter, defaultdict
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table


def packages(report: Mapping[str, Any]) -> dict[str, Counter[str]]:
    """Return coverage.py's summaries of all files, added up by package.

    Args:
        report: The report of `coverage json`. A package is a folder of the second level; files beside packages count
            for their top-level folder.
    """
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for file, coverage in report["files"].items():
        parts = Path(file).parts
        package = "/".join(parts[:2]) if len(parts) > 2 else parts[0]
        found[package].update({name: n for name, n in coverage["summary"].items() if isinstance(n, int)})
    return dict(sorted(found.items()))


def _percent(part: int, whole: int) -> str:
    return f"{100 * part / whole:.0f} %" if whole else "-"


def main(report: Path) -> None:
    """Print a table of all packages."""
    table = Table(box=None, pad_edge=False)
    for heading in ("package", "lines", "line coverage", "branches", "branch coverage"):
        table.add_column(heading, justify="left" if heading == "package" else "right")
    for package, n in packages(json.loads(report.read_text())).items():
        lines = _percent(n["covered_lines"], n["num_statements"])
        branches = _percent(n["covered_branches"], n["num_branches"])
        table.add_row(package, f"{n['num_statements']:,}", lines, f"{n['num_branches']:,}", branches)
    Console(width=100).print(table)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
