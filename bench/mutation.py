"""Mutation: changes single places of the code, drawn at random, in a copy, and prints those that no test notices.

A test counts only if it passes in the unchanged copy. A mutant without different behavior is listed with a reason
in bench/equivalent_mutants.yaml.
"""

import argparse
import json
import resource
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import yaml
from rich.console import Console
from rich.table import Table

from bench.mutants import Mutant, draw, mutants_of
from bench.mutated_copy import ROOT, MutatedCopy
from bench.reaching_tests import GROUPS, ReachingTests

_EQUIVALENT = ROOT / "bench" / "equivalent_mutants.yaml"
_IN_CONTAINERS = ROOT / "batch_job" / "image_root.py"
"""It runs while the orchestrator's image is built, so only `make test-containers` notices changes."""


def packages() -> dict[str, list[Path]]:
    """Return the files of each package of the control plane; modules beside packages count for their folder."""
    files: dict[str, list[Path]] = {}
    for file in (path for folder in ("traingrid", "lambda", "batch_job") for path in (ROOT / folder).rglob("*.py")):
        parts = file.relative_to(ROOT).parts
        if file == _IN_CONTAINERS:
            continue
        files.setdefault("/".join(parts[: min(2, len(parts) - 1)]), []).append(file)
    return dict(sorted(files.items()))


def again(results: Iterable[dict[str, Any]]) -> list[Mutant]:
    """Return the mutants of earlier results that the code still has."""
    present: list[Mutant] = []
    for result in results:
        file = ROOT / result["file"]
        mutants = {mutant.key: mutant for mutant in mutants_of(ROOT, file)} if file.is_file() else {}
        present += [mutants[result["key"]]] if result["key"] in mutants else []
    return present


def run(mutants: list[Mutant], out: Path) -> list[dict[str, Any]]:
    """Test mutants, first all with the fastest tests, and write the results after each."""
    equivalent, tests = yaml.safe_load(_EQUIVALENT.read_text()) or {}, ReachingTests(ROOT)
    results = {
        mutant.key: _result(mutant, "equivalent" if mutant.key in equivalent else "survived") for mutant in mutants
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    failing: set[str] = set()
    with tempfile.TemporaryDirectory() as folder:
        copy = MutatedCopy.create(Path(folder).resolve())
        while survivors := [mutant for mutant in mutants if results[mutant.key]["result"] == "survived"]:
            for group in range(GROUPS):
                for mutant in survivors:
                    result = results[mutant.key]
                    if result["result"] == "survived" and (files := tests.of(mutant.file)[group]):
                        before = _cpu_seconds()
                        test = copy.killer(mutant, files, failing)
                        result |= {"test": test, "result": "killed" if test else "survived"}
                        result["cpu_seconds"] += round(_cpu_seconds() - before)
                        out.write_text(json.dumps([*results.values()], indent=1) + "\n")
            failing |= copy.failing({result["test"] for result in results.values() if "::" in (result["test"] or "")})
            if not (unclear := [result for result in results.values() if result["test"] in failing]):
                break
            for result in unclear:
                result |= {"test": None, "result": "survived"}
    return [*results.values()]


def _result(mutant: Mutant, result: str) -> dict[str, Any]:
    described = {"key": mutant.key, "file": mutant.file, "line": mutant.line, "change": mutant.change}
    return {**described, "result": result, "test": None, "cpu_seconds": 0}


def _cpu_seconds() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def show(results: list[dict[str, Any]]) -> int:
    """Print a table of results, and return the number of mutants that survived."""
    table = Table("place", "change", "killed by", "CPU s", box=None, pad_edge=False)
    for result in results:
        change = result["change"]
        shown = change if len(change) < 100 else f"{change[:48]} ... {change[-48:]}"
        by = result["test"] or result["result"].upper()
        table.add_row(f"{result['file']}:{result['line']}", shown, by, str(result["cpu_seconds"]))
    console = Console(width=200, markup=False)
    console.print(table)
    counts = Counter(result["result"] for result in results)
    console.print(", ".join(f"{n} {name}" for name, n in counts.items()))
    return counts["survived"]


def compare(before: list[dict[str, Any]], after: list[dict[str, Any]]) -> int:
    """Print the mutants that were killed before and survived after, and return their number."""
    killed = {result["key"]: result["test"] for result in before if result["result"] == "killed"}
    lost = [result for result in after if result["result"] == "survived" and result["key"] in killed]
    for result in lost:
        print(f"{result['key']}\n  was killed by {killed[result['key']]}")
    print(f"{len(lost)} of {len(killed)} killed mutants survive now.")
    return len(lost)


def main(arguments: list[str]) -> int:
    """Run one command; return 1 if a mutant survived."""
    parser = argparse.ArgumentParser(prog="python -m bench.mutation", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    draw_options = commands.add_parser("draw", help="draw mutants and test them")
    draw_options.add_argument("--seed", type=int, required=True)
    draw_options.add_argument("--count", type=int, default=60)
    again_options = commands.add_parser("again", help="test the mutants of earlier results, with the tests of today")
    again_options.add_argument("results", type=Path)
    again_options.add_argument("--survivors", action="store_true", help="only those that survived")
    for options in (draw_options, again_options):
        options.add_argument("--out", type=Path, default=ROOT / "build" / "mutation.json")
    compare_options = commands.add_parser("compare", help="print mutants that were killed before and survive now")
    compare_options.add_argument("results", type=Path, nargs=2)
    chosen = parser.parse_args(arguments)
    if chosen.command == "compare":
        return min(compare(*(json.loads(path.read_text()) for path in chosen.results)), 1)
    if chosen.command == "draw":
        return min(show(run(draw(ROOT, packages(), chosen.seed, chosen.count), chosen.out)), 1)
    earlier = json.loads(chosen.results.read_text())
    repeated = [result for result in earlier if result["result"] == "survived" or not chosen.survivors]
    return min(show(run(again(repeated), chosen.out)), 1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
