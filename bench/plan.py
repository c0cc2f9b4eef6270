"""`make bench-plan`: measures the planner with 10,000 datasets, and compares its dollars with simpler strategies.

Each plan is a separate process, so that it has separate memory. The problem is random, from a fixed seed.
"""

import json
import subprocess
import sys
import time
from dataclasses import replace

import numpy as np

from bench.machine import description, peak_memory_mib
from bench.report import Result, report
from bench.size import size
from traingrid.planner.choices import Demand, PlanLimits, Pool, problem_of
from traingrid.planner.problem import PlacementProblem
from traingrid.planner.repair import Room
from traingrid.planner.solver import solve

DATASETS, REGIONS, SEED = size(10_000, 200), 20, 1
HORIZON = 7 * 24.0
TYPES = {"ml.g5.2xlarge": (1.0, 1.5), "ml.g5.12xlarge": (3.8, 7.1), "ml.g5.48xlarge": (7.4, 20.4)}
TYPES |= {"ml.p4d.24xlarge": (22.0, 37.7), "ml.p5.48xlarge": (60.0, 98.3)}
"""Instance types with a speed relative to the first one and dollars per hour. The figures are of the right magnitude,
and invented; the measurement depends on their spread, not on their values."""
ACCELERATORS = {"ml.g5.2xlarge": 1, "ml.g5.12xlarge": 4, "ml.g5.48xlarge": 8, "ml.p4d.24xlarge": 8, "ml.p5.48xlarge": 8}
CASES = ("plain", "limited", "short")
"""Without deadlines; with a deadline on each of seven days, a budget, and accelerators in flight; and with a budget
that is too small for all jobs."""
VERSIONS = ("numpy", "highspy")


def main() -> None:
    """Measure, print and write the result; with the name of a case, only print its figures as JSON."""
    if len(sys.argv) > 1:
        print(json.dumps(measured(sys.argv[1])))
        return
    machine = description(VERSIONS)
    found = {}
    for case in CASES:
        done = subprocess.run([sys.executable, "-m", "bench.plan", case], check=True, capture_output=True, text=True)
        found[case] = json.loads(done.stdout)
        print(case, done.stdout, end="")
    report("plan", results(found), machine=machine, against="the planner's solver, in one process", details=found)


def results(found: dict[str, dict[str, float]]) -> list[Result]:
    """Return the figures with their aims."""
    rows = []
    for case, seconds in (("plain", 20.0), ("limited", 60.0)):
        text = "10,000 datasets" if case == "plain" else "the same with deadlines and budget"
        rows += [
            (f"{text}", found[case]["wall_seconds"], "<=", seconds, "s"),
            (f"{text}, processor time", found[case]["cpu_seconds"], "<=", seconds, "s"),
            (f"{text}, peak memory", found[case]["peak_mib"], "<=", 512.0, "MiB"),
            (f"{text}, gap", found[case]["gap_percent"], "<=", 0.5, "%"),
        ]
    rows += [
        ("the same with a budget 1 % too small, gap", found["short"]["gap_percent"], "<=", 0.5, "%"),
        (
            "dollars to those of the cheapest Region by instance price",
            found["plain"]["to_cheapest_price"],
            "<=",
            1,
            "times",
        ),
        ("dollars to those of no moves at all", found["plain"]["to_no_moves"], "<=", 1, "times"),
    ]
    return [
        Result(id=f"P{number}", what=what, measured=round(value, 3), comparison=sign, aim=aim, unit=unit)
        for number, (what, value, sign, aim, unit) in enumerate(rows, start=1)
    ]


def measured(case: str) -> dict[str, float]:
    """Return the figures of one case."""
    demands, pools = random_jobs(deadlines=case != "plain"), random_pools()
    limits = PlanLimits(hours=HORIZON, accelerators_of=ACCELERATORS)
    if case != "plain":  # the budget is that of a plan without one, plus or less a hundredth
        free = _dollars(solved := problem_of(demands, pools, limits), solve(solved).chosen)
        accelerators = sum(ACCELERATORS[pool.instance_type] * pool.instances for pool in pools) // 2
        budget = free * (1.01 if case == "limited" else 0.99)
        limits = replace(limits, budget=budget, accelerators=accelerators)
    wall, processor = time.perf_counter(), time.process_time()
    problem = problem_of(demands, pools, limits)
    found = solve(problem)
    figures = {
        "wall_seconds": time.perf_counter() - wall,
        "cpu_seconds": time.process_time() - processor,
        "peak_mib": peak_memory_mib("self"),
        "gap_percent": 100 * found.gap,
        "choices": float(len(problem.pool)),
        "keeps_all_limits": float(problem.allows(found.chosen)),
        "unplaced": float((problem.pool[found.chosen] < 0).sum()),
        "dollars": _dollars(problem, found.chosen),
    }
    return figures | (_baselines(problem, demands, pools, found.chosen) if case == "plain" else {})


def random_jobs(*, deadlines: bool) -> list[Demand]:
    """Return the jobs: each has data in one Region, three of ten must stay on its continent."""
    rng = np.random.default_rng(SEED)
    transfer = rng.uniform(0.02, 0.09, (REGIONS, REGIONS))
    np.fill_diagonal(transfer, 0.0)
    found = []
    for _ in range(DATASETS):
        home, gigabytes = int(rng.integers(REGIONS)), float(np.exp(rng.normal(np.log(300), 1.2)))
        instances, first = int(rng.integers(1, 11)), int(rng.integers(0, 3))
        work = gigabytes * float(rng.lognormal(0, 0.5)) * 0.6 * (1 + 0.05 * (instances - 1)) / instances
        first_region, last_region = (home // 5 * 5, home // 5 * 5 + 5) if rng.random() < 0.3 else (0, REGIONS)
        price = transfer[home] + np.where(np.arange(REGIONS) == home, 0.0, 0.023 * 7 / 30)
        deadline = HORIZON * int(rng.integers(1, 8)) / 7
        found.append(
            Demand(
                instances=instances,
                hours={name: work / TYPES[name][0] for name in list(TYPES)[first : first + 4]},
                data={f"region-{at}": gigabytes * float(price[at]) for at in range(first_region, last_region)},
                spot=True,
                deadline=deadline if deadlines else HORIZON,
            )
        )
    return found


def random_pools() -> list[Pool]:
    """Return the pools: all together have about twice the hours that the jobs need, and some are far too small."""
    rng = np.random.default_rng(SEED + 1)
    found = []
    for name, (speed, dollars) in TYPES.items():
        for option, most in (("on_demand", 1.0), ("spot", 0.45)):
            shares = rng.dirichlet(np.full(REGIONS, 2.0))
            for at in range(REGIONS):
                price = (
                    dollars * float(rng.uniform(0.9, 1.35)) * most * float(rng.uniform(0.7, 1.3) if most < 1 else 1.0)
                )
                instances = max(10, round(float(shares[at]) * DATASETS * 0.7 / speed))
                found.append(
                    Pool(region=f"region-{at}", instance_type=name, option=option, instances=instances, dollars=price)
                )
    return found


def _baselines(
    problem: PlacementProblem, demands: list[Demand], pools: list[Pool], chosen: np.ndarray
) -> dict[str, float]:
    """Return the dollars of two strategies relative to the plan's, each for the jobs that both place.

    One takes the Region with the lowest price of an instance-hour that has room, and pays for the transfer; the other
    the cheapest choice where the data is.
    """
    data = [demand.data for demand in demands]
    placed = problem.pool >= 0
    moves = np.zeros(len(problem.pool))
    moves[placed] = [
        data[job][pools[pool].region]
        for job, pool in zip(problem.job[placed].tolist(), problem.pool[placed].tolist(), strict=True)
    ]
    by_price = np.where(placed, problem.cost - moves, problem.cost)
    stays = np.where(moves > 0, np.inf, problem.cost)
    found: dict[str, float] = {}
    for name, costs in (("cheapest_price", by_price), ("no_moves", stays)):
        other = _in_turn(problem, costs)
        both = (problem.pool[other] >= 0) & (problem.pool[chosen] >= 0)
        plan, baseline = problem.dollars[chosen][both].sum(), problem.dollars[other][both].sum()
        found |= {f"to_{name}": float(plan / baseline), f"{name}_dollars": float(baseline)}
        found |= {f"{name}_unplaced": float((problem.pool[other] < 0).sum()), f"{name}_both": float(both.sum())}
    return found


def _in_turn(problem: PlacementProblem, costs: np.ndarray) -> np.ndarray:
    """Return the assignment in which one job after the other takes its cheapest choice that fits."""
    room, chosen = Room(problem), problem.starts[:-1].copy()
    for job in range(problem.jobs):
        chosen[job] = room.best(job, costs)
        room.take(job, int(chosen[job]))
    found: np.ndarray = chosen
    return found


def _dollars(problem: PlacementProblem, chosen: np.ndarray) -> float:
    return float(problem.dollars[chosen].sum())


if __name__ == "__main__":
    main()
