"""`python -m verification.faults`: run the experiments, print one table, and write `bench/results/faults*.json`."""

import argparse
import re
import subprocess
import sys
import tempfile
from collections.abc import Collection, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rich.console import Console

from localcloud.limits.quota import PROFILES
from verification.faults.account import DEFAULT_ACCOUNT, grant_instances
from verification.faults.deployment import faulty_grid
from verification.faults.engine import ENGINES
from verification.faults.experiments import WAITING, Experiment, experiments, sabotages
from verification.faults.faulty_grid import FaultyGrid
from verification.faults.results import Results, results_of
from verification.faults.table import NOT_ENDED, measured, table


@dataclass(frozen=True, kw_only=True)
class Run:
    """Experiments that one process runs.

    Attributes:
        results: Collects the rows. They are written after each experiment, so that an interrupted run keeps them.
    """

    options: argparse.Namespace
    results: Results
    console: Console

    def all(self, names: Collection[str]) -> None:
        """Run the experiments with these names in one localcloud."""
        share, engine = self.options.share, self.options.engine
        with tempfile.TemporaryDirectory(prefix="faults-") as work, _grid(self.options, Path(work)) as world:
            for name, experiment in experiments(share, engine).items():
                if name in names:
                    self._one(world, name, experiment)
            for safeguard, experiment in sabotages(share, engine).items():
                if f"sabotage: {safeguard}" in names:
                    with world.sabotaged(safeguard):
                        self._one(world, f"without {safeguard}", experiment, sabotaged=True)

    def _one(self, grid: FaultyGrid, name: str, experiment: Experiment, *, sabotaged: bool = False) -> None:
        grant_instances(grid.cloud, name, grid.engine.instance_type)
        row = measured(name, self.options.seed, partial(experiment, grid))
        self.console.print(f"{name}: {row.volume}, {row.violations} violations in {row.seconds} s", row.facts)
        for line in row.found[:5]:
            self.console.print("  ", line, markup=False)
        self.results.add(row, self.options.share, sabotaged=sabotaged)
        self.written()
        if row.volume == NOT_ENDED:
            grid.clear()

    def written(self) -> Results:
        """Write the results collected so far, and return the results of all experiments."""
        return self.results.write(self.options.output, [*experiments(1, self.options.engine)])


def _grid(options: argparse.Namespace, work: Path) -> AbstractContextManager[FaultyGrid]:
    return faulty_grid(work, options.seed, options.account, options.engine)


@contextmanager
def _beside(run: Run, names: Collection[str]) -> Iterator[None]:
    """Run experiments in a separate process for the duration of the block. It writes its rows to the same file."""
    options = run.options
    same = ["--seed", str(options.seed), "--share", str(options.share), "--output", str(options.output)]
    same += ["--account", options.account, "--engine", options.engine]
    program = subprocess.Popen([sys.executable, "-m", "verification.faults", "--only", ",".join(names), *same])
    try:
        yield
        run.console.print(f"waiting for {', '.join(names)}")
        program.wait()
    finally:
        program.terminate()
        program.wait()


def main() -> int:
    """Run the suite and print a report; return 1 if any experiment found a violation or did not run."""
    parser = argparse.ArgumentParser(
        prog="python -m verification.faults", description="Check a grid's invariants under faults."
    )
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--share", type=float, default=1.0, help="share of the full volume, from 0 to 1")
    parser.add_argument(
        "--only", default="", help="run experiments with these name prefixes, e.g. E1,E3,sabotage; keep other rows"
    )
    parser.add_argument("--account", choices=PROFILES, default=DEFAULT_ACCOUNT, help="quotas of the account")
    parser.add_argument("--engine", choices=ENGINES, default="sagemaker", help="engine that trains the lines")
    parser.add_argument("--output", type=Path, help="results file; by default that of the engine in bench/results")
    options = parser.parse_args()
    options.output = options.output or results_of(options.engine)
    only = list(filter(None, options.only.split(",")))
    everything, disabled = experiments(1, options.engine), sabotages(1, options.engine)
    names = [*everything, *(f"sabotage: {safeguard}" for safeguard in disabled)]
    chosen = [name for name in names if not only or any(re.match(rf"{re.escape(word)}(?!\w)", name) for word in only)]
    run = Run(options=options, results=Results(account=options.account), console=Console(width=120))
    if not only:
        options.output.unlink(missing_ok=True)
    # Experiments that mostly wait run in parallel with the others, for about an hour.
    waiting = [name for name in chosen if name.startswith(WAITING) and not only]
    with _beside(run, waiting) if waiting else nullcontext():
        run.all([name for name in chosen if name not in waiting])
    results = run.written()
    run.console.print(table(results.rows))
    if results.sabotage:
        run.console.print("Sabotage: each of these experiments must find a violation.", table(results.sabotage))
    run.console.print(results.sentence)
    rows = {*(row["experiment"] for row in results.rows), *(row["experiment"] for row in results.sabotage)}
    missing = [name for name in chosen if name.replace("sabotage:", "without") not in rows]
    if missing:
        run.console.print(f"These experiments have no result: {', '.join(missing)}")
    return 0 if results.good and not missing else 1


if __name__ == "__main__":
    sys.exit(main())
