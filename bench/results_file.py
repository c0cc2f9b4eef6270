"""Results files: a committed summary of each measurement in bench/results/, and its raw figures in build/bench/."""

import json
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from bench.machine import CHECKOUT
from bench.measured_code import CODE
from bench.size import IS_TINY

RAW = CHECKOUT / "build" / "bench"
SUMMARIES = RAW / "tiny" if IS_TINY else CHECKOUT / "bench" / "results"
UNKNOWN = "unknown"


def write(name: str, summary: dict[str, Any], details: Any, machine: dict[str, Any]) -> Path:
    """Write a summary with its origin, and the raw figures, and return the summary's path.

    Args:
        name: The measurement, which is the name of both files without suffix.
        summary: The figures that have a target; written with one value or row per line.
        details: The raw figures.
        machine: The description of the machine, taken before the measurement.
    """
    raw = SUMMARIES if IS_TINY else RAW
    raw.mkdir(parents=True, exist_ok=True)
    document = {**origin(name, machine), **summary}
    (raw / f"{name}{'.raw' * IS_TINY}.json").write_text(json.dumps({**document, "details": details}, indent=2) + "\n")
    file = SUMMARIES / f"{name}.json"
    file.write_text(compact(document))
    return file


def origin(name: str, machine: dict[str, Any]) -> dict[str, Any]:
    """Return the time, the commit and the machine of a measurement that has just ended."""
    at = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    return {"at": at, "commit": commit(CODE[name]), "machine": machine}


def read(name: str) -> dict[str, Any]:
    """Return the committed summary of a measurement; empty if it has none."""
    file = SUMMARIES / f"{name}.json"
    return dict(json.loads(file.read_text())) if file.exists() else {}


def commit(paths: Sequence[str] = (), checkout: Path = CHECKOUT) -> str:
    """Return the checked-out commit, with the suffix -dirty if one of these paths, by default any, differs from it."""
    head = git(checkout, "rev-parse", "--short=12", "HEAD")
    changed = git(checkout, "status", "--porcelain", "--untracked-files=no", "--", *paths)
    return f"{head}-dirty" if head and changed else head or UNKNOWN


def git(checkout: Path, *arguments: str) -> str:
    """Return the output of git; empty if it fails, as in a copy without history, or is not installed."""
    try:
        done = subprocess.run(["git", *arguments], cwd=checkout, capture_output=True, text=True, check=False)
    except FileNotFoundError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def compact(document: dict[str, Any]) -> str:
    """Return JSON with one line for each value of the document, and one for each row of a list."""
    fields = (
        f"  {json.dumps(key)}: {_rows(value) if isinstance(value, list) else json.dumps(value)}"
        for key, value in document.items()
    )
    return "{\n" + ",\n".join(fields) + "\n}\n"


def _rows(rows: list[Any]) -> str:
    return "[\n" + ",\n".join(f"    {json.dumps(row)}" for row in rows) + "\n  ]" if rows else "[]"
