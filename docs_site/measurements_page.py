"""Tables of docs/measurements.md: writes them from bench/results/, between the markers of each result.

python -m docs_site.measurements_page

The page has the commit of a measurement and not its age, which changes with each commit: see `python -m bench.ages`.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from bench import results_file
from bench.ages import Measured, measured
from bench.gpu_torch.settings import LIMITS

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs/measurements.md"
_MARKED = re.compile(r"(<!-- results: ([\w-]+) -->\n).*?(<!-- end of results -->)", re.DOTALL)


def page(text: str) -> str:
    """Return the text of the page with the present tables.

    Args:
        text: The page, whose other parts are written by hand.
    """
    return _MARKED.sub(lambda part: f"{part[1]}\n{block(part[2])}\n{part[3]}", text)


def results(text: str) -> list[str]:
    """Return the names of the results whose tables a page has."""
    return [name for _, name, _ in _MARKED.findall(text)]


def block(name: str) -> str:
    """Return the table of a result, and the sentence about its origin."""
    rows = TABLES.get(name, _compared)(results_file.read(name))
    return "\n".join([*_aligned(rows), "", *_origin(name), ""])


def _compared(result: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return the rows of figures with a target."""
    found: list[Sequence[str]] = [("what", "aim", "measured", "met")]
    for row in result["results"]:
        api = f"{row['id']}, " if row["what"].endswith(": mean") or "busiest" in row["what"] else ""
        aim = f"{row['comparison']} {_number(row['aim'])} {row['unit']}"
        met = "yes" if row["met"] else "no"
        found.append((f"{api}{row['what']}", aim, f"{_number(row['measured'])} {row['unit']}", met))
    return found


def _capacity(result: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return the rows of scenarios with and without the memory of shortages."""
    found: list[Sequence[str]] = [("", "memory", "calls", "in vain", "completed", "failed", "half at", "all at")]
    for row in result["scenarios"]:
        times = [f"{_number(row[key])} s" if row["completed"] else "-" for key in ("half_requested", "all_requested")]
        counts = [str(row[key]) for key in ("calls", "in_vain", "completed", "failed")]
        found.append((row["scenario"], row["memory"], *counts, *times))
    return found


def _demo(result: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return the rows of the demo with empty and with filled caches, in seconds."""
    heads = [name for name in result["rows"][0] if name not in ("caches", "aims")]
    rows = [(row["caches"], *(_timed(row[head], row["aims"].get(head)) for head in heads)) for row in result["rows"]]
    return [("caches", *heads), *rows]


def _timed(seconds: int, aim: int | None) -> str:
    return f"{seconds} s" + (f" (aim {aim} s)" if aim else "")


def _lanes(result: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return the rows of the parts of the test commands."""
    columns = ("wall_s", "cpu_s", "largest_process_mib")
    rows = [(row["name"], *(_number(row[column]) for column in columns)) for row in result["lanes"]]
    return [("part", "wall s", "CPU s", "largest process, MiB"), *rows]


def _training(result: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return the rows of medians with an interval, and of the processor time of the baseline and of traingrid."""
    found: list[Sequence[str]] = [("what", "aim", "median", "interval", "CPU s/GB", "met")]
    for row in result["results"]:
        cost = f"{row['base_cpu_s_per_gb']:.2f} -> {row['cpu_s_per_gb']:.2f}" if "cpu_s_per_gb" in row else "-"
        ends = f"{row['low']:.3f} to {row['high']:.3f}"
        found.append((row["what"], row["aim"], f"{row['median']:.3f}", ends, cost, row["met"]))
    return found


def _gpu_torch(result: Mapping[str, Any]) -> list[Sequence[str]]:
    """Return the rows of loops with their ratio to PyTorch alone, and of the limits."""
    found: list[Sequence[str]] = [("loop or limit", "images/s", "of PyTorch alone", "interval", "aim", "met")]
    for row in result["loops"]:
        low, high = row["interval"]
        ratio = (f"{row['to_bare']:.3f}", f"{low:.3f} to {high:.3f}")
        aim = (f">= {row['aim']}", row["met"]) if "aim" in row else ("-", "-")
        found.append((row["loop"], _number(row["images_per_second"]), *ratio, *aim))
    bare, limits = result["loops"][0]["images_per_second"], result["limits"]
    rows = [(words, limits[name]) for name, words in LIMITS.items() if name in limits]
    return [*found, *((words, _number(rate), f"{rate / bare:.3f}", "-", "-", "-") for words, rate in rows)]


TABLES: Mapping[str, Callable[[Mapping[str, Any]], list[Sequence[str]]]] = {
    "capacity": _capacity,
    "demo": _demo,
    "gpu-torch": _gpu_torch,
    "lanes": _lanes,
    "training": _training,
}
"""The results whose table has other columns than aim, measured and met."""


def _number(value: float) -> str:
    """Return a number with four digits, or more before the point."""
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def _aligned(rows: Sequence[Sequence[str]]) -> Iterable[str]:
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for row in rows:
        yield "    " + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _origin(name: str) -> Iterable[str]:
    """Yield the lines about the origin of a result, one for each of its parts."""
    found = measured(name)
    link = f"[bench/results/{name}.json](../bench/results/{name}.json)"
    if len(found) == 1:
        yield f"Measured on {_words(found[0])}:"
        yield f"{link}."
        return
    yield f"The parts of {link} were measured separately:"
    yield ""
    yield from (f"- {one.part} on {_words(one)}" for one in found)


def _words(one: Measured) -> str:
    at = datetime.fromisoformat(one.at)
    return f"{at.day} {at:%B %Y} at commit {one.commit} ({one.machine})"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
