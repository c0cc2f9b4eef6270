"""`make bench-capacity`: counts the CreateTrainingJob calls of 200 lines while a Region has no capacity.

Each line runs the product's own child in the in-memory AWS of `verification.model`, with a simulated clock, once with
the shared shortages and once with a ledger that remembers none. SageMaker's times are assumptions.
"""

import logging
import random
import time
from collections import Counter
from dataclasses import asdict, dataclass
from typing import Any

from rich.console import Console
from rich.table import Table

from bench.machine import description, peak_memory_mib
from bench.report import Result, report
from bench.simulated_line import LAUNCH_SECONDS
from bench.size import size
from traingrid.aws.s3_uri import S3Uri
from traingrid.job.state import FINAL_STATES
from traingrid.ledger.ledger import Ledger
from traingrid.ledger.shortages import CapacityPool, Shortage
from traingrid.submission.intake import ManifestVersion
from verification.model.grid import REGIONS, ModelGrid
from verification.model.sagemaker import TrainingJob

LINES, SHORT_SECONDS = size(200, 5), size(600.0, 120.0)
SEARCH_SECONDS = (30.0, 90.0)
"""Assumed time until a training job without capacity fails. AWS publishes none."""
TRAINING_SECONDS = 60.0
CHILDREN_PER_SECOND = 20.0
"""Rate at which Fargate starts tasks (https://docs.aws.amazon.com/AmazonECS/latest/developerguide/throttling.html)."""
_NO_CAPACITY = "CapacityError: Unable to provision requested ML compute capacity."
_TICK_SECONDS = 2.0


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A workload whose first Region has no capacity during its first `SHORT_SECONDS`.

    Attributes:
        replicas: Whether each line has a replica in a Region with capacity.
        children_per_second: Rate at which children start.
    """

    name: str
    retries: int
    replicas: bool = False
    children_per_second: float = CHILDREN_PER_SECOND
    lines: int = LINES


SCENARIOS = (
    Scenario(name="all at once, retries 30", retries=30),
    Scenario(name="all at once, retries 2", retries=2),
    Scenario(name="over ten minutes, retries 30", retries=30, children_per_second=LINES / SHORT_SECONDS),
    Scenario(name="over ten minutes, a replica", retries=2, replicas=True, children_per_second=LINES / SHORT_SECONDS),
)


class ForgetfulLedger(Ledger):
    """A ledger that remembers no shortage."""

    def shortage(self, _pool: CapacityPool) -> Shortage | None:
        """Return no shortage."""
        return None

    def replace_shortage(self, _read: Shortage | None, _new: Shortage) -> bool:
        """Record nothing."""
        return False


@dataclass(frozen=True, kw_only=True)
class Run:
    """The result of a scenario. Times are in seconds since the first child began.

    Attributes:
        calls: Accepted CreateTrainingJob calls.
        in_vain: Those whose training job found no capacity.
        half_requested: Time at which half of the lines had requested the training job that completed.
        all_requested: Time at which all of them had.
    """

    calls: int
    in_vain: int
    completed: int
    failed: int
    half_requested: float
    all_requested: float


def play(scenario: Scenario, ledger: type[Ledger]) -> Run:
    """Run a scenario to its end."""
    random.seed(1)
    grid = ModelGrid()
    try:
        grid.programs.ledger = ledger
        began = grid.turns.now
        simulated = _Simulated(grid)
        _submit(grid, scenario)
        waiting = list(grid.waiting)
        while waiting or grid.turns.actors or grid.active:
            due = (grid.turns.now - began) * scenario.children_per_second
            while waiting and scenario.lines - len(waiting) <= due:
                grid.start(waiting.pop(0))
            simulated.advance(grid.turns.now - began)
            for actor in [one for one in grid.turns.actors if one.wakes_at <= grid.turns.now]:
                grid.turns.give(actor, 1000)
            grid.turns.now += _TICK_SECONDS
        return _result(grid, began)
    finally:
        grid.end()


class _Simulated:
    """SageMaker: finds or does not find instances, and trains."""

    def __init__(self, grid: ModelGrid) -> None:
        self._grid, self._chance = grid, random.Random(2)  # noqa: S311 - not a secret
        self._next: dict[str, tuple[float, str]] = {}

    def advance(self, now: float) -> None:
        """Advance every training job whose time has come, and deliver its event."""
        for job in self._grid.active:
            at, reason = self._next.get(job.name) or self._begun(job, now)
            if at > now:
                continue
            self._grid.account.regions[job.region].move(job, reason)
            self._next[job.name] = now + TRAINING_SECONDS, ""
            self._grid.programs.record_event(job.name, job.region)

    def _begun(self, job: TrainingJob, now: float) -> tuple[float, str]:
        lacks = job.region == REGIONS[0] and now < SHORT_SECONDS
        seconds = self._chance.uniform(*(SEARCH_SECONDS if lacks else LAUNCH_SECONDS))
        self._next[job.name] = now + seconds, _NO_CAPACITY if lacks else ""
        return self._next[job.name]


def _submit(grid: ModelGrid, scenario: Scenario) -> None:
    here, there = REGIONS
    replica = f"s3://data-{there}/x" if scenario.replicas else ""
    rows = [f"{here},s3://data-{here}/{number},{scenario.retries},{replica}" for number in range(scenario.lines)]
    body = "\n".join([f"region,s3_uri,retries,replica.{there}", *rows]).encode()
    uri = S3Uri(grid.deployment.manifest_bucket, "manifests/bench.csv")
    version = grid.account.bucket.put_object(Bucket=uri.bucket, Key=uri.key, Body=body)["VersionId"]
    grid.programs.intake(ManifestVersion(uri=uri, version=version))


def _result(grid: ModelGrid, began: float) -> Run:
    items = [item for (_, kind), item in grid.account.table.items.items() if kind.startswith("job#")]
    states = Counter(item["state"] for item in items)
    if grid.account.wrong or set(states) - FINAL_STATES:
        raise RuntimeError(f"the simulation is wrong: {grid.account.wrong or states}")
    jobs = grid.account.training_jobs
    requested = sorted(job.created_at - began for job in jobs if job.state == "Completed")
    return Run(
        calls=len(grid.account.calls) - 1,  # without SubmitJob
        in_vain=sum(job.state == "Failed" for job in jobs),
        completed=states["Completed"],
        failed=states["Failed"],
        half_requested=round(requested[len(requested) // 2 - 1], 0) if requested else 0.0,
        all_requested=round(requested[-1], 0) if requested else 0.0,
    )


def results(played: dict[str, dict[str, Run]]) -> list[Result]:
    """Return the figures that have a target; the target of the calls is their number without the memory."""
    rows = []
    for name, runs in played.items():
        with_, without = runs["with"], runs["without"]
        rows.append((f"{name}: calls", float(with_.calls), float(without.calls), "calls"))
        rows.append((f"{name}: without capacity", float(with_.in_vain), float(without.in_vain), "calls"))
        rows.append((f"{name}: lines that fail", float(with_.failed), 0.0, "lines"))
    return [
        Result(id="", what=what, measured=measured, comparison="<=", aim=aim, unit=unit)
        for what, measured, aim, unit in rows
    ]


def _table(played: dict[str, dict[str, Run]]) -> Table:
    """Return all runs as a table."""
    shown = Table(box=None, pad_edge=False)
    for heading in ("", "memory", "calls", "in vain", "completed", "failed", "half at", "all at"):
        shown.add_column(heading, no_wrap=True)
    for name, runs in played.items():
        for which, run in runs.items():
            times = (f"{run.half_requested:.0f} s", f"{run.all_requested:.0f} s") if run.completed else ("-", "-")
            counts = map(str, (run.calls, run.in_vain, run.completed, run.failed))
            shown.add_row(name, which, *counts, *times)
    return shown


def main() -> None:
    """Run all scenarios and print a report."""
    logging.disable(logging.WARNING)
    machine, started = description(), time.monotonic()
    played = {
        scenario.name: {"without": play(scenario, ForgetfulLedger), "with": play(scenario, Ledger)}
        for scenario in SCENARIOS
    }
    Console(width=110).print(_table(played))
    details: dict[str, Any] = {
        "seconds": round(time.monotonic() - started, 1),
        "peak_mib": peak_memory_mib("self"),
    }
    against = "the product's children in an in-memory AWS with a simulated clock, not AWS"
    rows = [
        {"scenario": name, "memory": which, **asdict(run)}
        for name, runs in played.items()
        for which, run in runs.items()
    ]
    report("capacity", results(played), machine=machine, against=against, details=details, more={"scenarios": rows})


if __name__ == "__main__":
    main()
