"""Results files: a committed summary of each measurement in bench/results/, and its raw figures in build/bench/."""

import json
from pathlib import Path
from typing import Any

from bench.machine import CHECKOUT

SUMMARIES = CHECKOUT / "bench" / "results"
RAW = CHECKOUT / "build" / "bench"


def write(name: str, summary: dict[str, Any], details: Any) -> Path:
    """Write a summary and the raw figures, and return the summary's path.

    Args:
        name: The measurement, which is the name of both files without suffix.
        summary: The figures that have a target, and the machine; written with one value or row per line.
        details: The raw figures.
    """
    RAW.mkdir(parents=True, exist_ok=True)
    (RAW / f"{name}.json").write_text(json.dumps({**summary, "details": details}, indent=2) + "\n")
    SUMMARIES.mkdir(exist_ok=True)
    file = SUMMARIES / f"{name}.json"
    file.write_text(compact(summary))
    return file


def read(name: str) -> dict[str, Any]:
    """Return the committed summary of a measurement; empty if it has none."""
    file = SUMMARIES / f"{name}.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}


def compact(document: dict[str, Any]) -> str:
    """Return JSON with one line for each value of the document, and one for each row of a list."""
    fields = (
        f"  {json.dumps(key)}: {_rows(value) if isinstance(value, list) else json.dumps(value)}"
        for key, value in document.items()
    )
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _rows(rows: list[Any]) -> str:
    return "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in rows) + "\n  ]" if rows else "[]"
