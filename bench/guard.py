"""`make bench-guard`: compares the cost of this commit with that of the last release, and fails if it has grown.

Every run is a separate process, and both commits run at the same time, so that other work on the machine slows both.
A figure is red if its lowest value in this commit is above 1.1 times the median of the base and above the highest value
of the base: one busy moment then does not decide. A red time is measured again, up to three times in all, and all runs
count. A figure that stays red fails the guard, unless accepted.md states the reason.
The base is the last release tag; until there is one, the commit in guard_base.py.
"""

import json
import os
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from bench.guard_base import PINNED, MissingBaseError, Tree, base_commit, checked_out
from bench.machine import CHECKOUT

LIMIT, ROUNDS, MEASUREMENTS = 1.1, 4, 3
TIME = "CPU s"
"""The figure that other work on the machine changes; calls, bytes and memory hardly vary."""
_COLUMNS, _WIDTH = 5, 110

Run = Callable[[Tree, str], Mapping[str, float | str]]
"""Runs a benchmark once in a tree, and returns its figures."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """The values of one figure of a benchmark in all runs of both commits."""

    benchmark: str
    figure: str
    base: list[float]
    new: list[float]

    @property
    def ratio(self) -> float:
        """The ratio of the medians."""
        return _ratio(statistics.median(self.new), statistics.median(self.base))

    @property
    def spread(self) -> str:
        """The lowest and the highest value of this commit, relative to the median of the base."""
        base = statistics.median(self.base)
        return f"{_ratio(min(self.new), base):.2f} to {_ratio(max(self.new), base):.2f}"

    @property
    def is_red(self) -> bool:
        """True if this commit is worse by more than the limit and the noise."""
        return min(self.new) > max(LIMIT * statistics.median(self.base), *self.base)


@dataclass(frozen=True, kw_only=True)
class Accepted:
    """A row of accepted.md."""

    limit: float
    commit: str
    reason: str


def _ratio(value: float, base: float) -> float:
    return value / base if base else float(value > 0) + 1


def accepted_rows(text: str) -> dict[tuple[str, str], Accepted]:
    """Return the rows of accepted.md by benchmark and figure.

    Raises:
        ValueError: A row has no commit or reason.
    """
    rows: dict[tuple[str, str], Accepted] = {}
    for line in [line for line in text.splitlines() if line.startswith("|")][2:]:
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != _COLUMNS or not all(cells):
            raise ValueError(f"a row needs benchmark, figure, ratio, commit and reason: {line}")
        benchmark, figure, limit, commit, reason = cells
        rows[benchmark, figure] = Accepted(limit=float(limit), commit=commit, reason=reason)
    return rows


def run_once(tree: Tree, benchmark: str) -> dict[str, float | str]:
    """Run a benchmark of `bench.guard_cases` in a process, with the packages of a tree."""
    environment = {**os.environ, "PYTHONPATH": str(tree.folder), "PYTHONHASHSEED": "0"}
    command = [str(tree.python), "-m", "bench.guard_cases", benchmark]
    ended = subprocess.run(command, cwd=tree.folder, env=environment, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{benchmark} failed in {tree.folder}:\n{ended.stderr[-2000:]}")
    return dict(json.loads(ended.stdout.splitlines()[-1]))


def compare(benchmark: str, base: Tree, new: Tree, run: Run = run_once) -> list[Comparison] | str:
    """Return the figures of a benchmark in runs side by side, or the reason why the base cannot run it."""
    skipped = run(base, benchmark).get("skipped")  # a run that is not counted, because it compiles the base's sources
    if skipped:
        return str(skipped)
    runs: list[tuple[Mapping[str, float | str], ...]] = []
    with ThreadPoolExecutor(max_workers=2) as pool:
        for _ in range(MEASUREMENTS):
            runs += [tuple(pool.map(run, (base, new), (benchmark, benchmark))) for _ in range(ROUNDS)]
            if reason := runs[0][1].get("skipped"):
                raise RuntimeError(f"{benchmark} cannot run in this commit: {reason}")
            comparisons = _comparisons(benchmark, runs)
            if not any(comparison.is_red for comparison in comparisons if comparison.figure == TIME):
                break
    return comparisons


def _comparisons(benchmark: str, runs: Sequence[Sequence[Mapping[str, float | str]]]) -> list[Comparison]:
    return [
        Comparison(
            benchmark=benchmark,
            figure=figure,
            base=[float(old[figure]) for old, _ in runs],
            new=[float(own[figure]) for _, own in runs],
        )
        for figure in runs[0][0]
    ]


def verdict(comparison: Comparison, rows: Mapping[tuple[str, str], Accepted]) -> str:
    """Return "red", the accepted reason of a red figure, or an empty text."""
    row = rows.get((comparison.benchmark, comparison.figure))
    if not comparison.is_red:
        return ""
    return f"accepted: {row.reason} ({row.commit})" if row and comparison.ratio <= row.limit else "red"


def report(
    benchmarks: Iterable[str], base: Tree, new: Tree, rows: Mapping[tuple[str, str], Accepted], run: Run = run_once
) -> int:
    """Print one table of all figures, and return the exit code: 1 if one is red."""
    table, is_red = Table(box=None, pad_edge=False), False
    for heading in ("benchmark", "figure", "base", "ratio", "spread", ""):
        table.add_column(heading)
    for benchmark in benchmarks:
        compared = compare(benchmark, base, new, run)
        if isinstance(compared, str):
            table.add_row(benchmark, "", "", "", "", f"skipped, the base lacks it: {compared}")
            continue
        for comparison in compared:
            result = verdict(comparison, rows)
            is_red |= result == "red"
            median = f"{statistics.median(comparison.base):,.2f}".removesuffix(".00")
            table.add_row(benchmark, comparison.figure, median, f"{comparison.ratio:.2f}", comparison.spread, result)
    Console(width=_WIDTH).print(table)
    return int(is_red)


def main() -> int:
    """Compare all benchmarks with the base; in a clone without the base's commit, print that nothing was compared."""
    from bench.guard_cases import CASES  # noqa: PLC0415  # only the names; the runs import them in their own processes

    rows = accepted_rows((CHECKOUT / "bench" / "accepted.md").read_text())
    try:
        commit = base_commit(CHECKOUT, PINNED)
        print(f"base: {commit}, {ROUNDS} runs of each commit")
        with checked_out(CHECKOUT, commit) as base:
            return report(sys.argv[1:] or CASES, base, Tree(folder=CHECKOUT, python=Path(sys.executable)), rows)
    except MissingBaseError as error:
        print(f"Nothing was compared. {error}", file=sys.stderr)
        return 0


if __name__ == "__main__":
    sys.exit(main())
