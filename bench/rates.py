"""`make bench-rates`: simulates 256 children that train 10,000 lines, and compares their call rates with AWS's limits.

Each line runs the real supervisor, watch, log follower and SageMaker backend, with a simulated clock and counting
clients. The lines are then scheduled: a line begins when a child is free, and Fargate starts at most 20 children per
second. Children do not influence each other, because no call is refused; localcloud's token buckets then determine
how many calls AWS would have refused.

Not included are the calls of the intake and the reconciler, which are a few per five minutes, and those of users.
"""

import heapq
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from bench.machine import description, peak_memory_mib
from bench.report import Result, report
from bench.simulated_line import ACCOUNT, job_of, run_line
from bench.size import size
from localcloud.limits.rates import rate_of
from localcloud.limits.throttle import TokenBuckets
from traingrid.child.polling_pace import DESCRIBES_PER_SECOND
from traingrid.grid.deployment import Deployment
from traingrid.grid.model import GridSettings

LINES, CHILDREN = size(10_000, 20), size(256, 4)
CHILDREN_PER_SECOND = 20
"""Rate at which Fargate starts tasks (https://docs.aws.amazon.com/AmazonECS/latest/developerguide/throttling.html)."""
WINDOW = 10
"""Length in seconds of the interval for the peak rate."""
ASSUMED = {"sagemaker.DescribeTrainingJob": DESCRIBES_PER_SECOND}
"""Rates that AWS does not publish, as assumed by the product."""

LINES_OF_ONE_REGION = 10 * CHILDREN
"""Ten generations of children suffice; forty show the same rates."""


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """A workload.

    Attributes:
        regions: Training Regions, to which the lines are assigned in turn.
        hosts: Instances per training job.
        minutes: Shortest and longest training.
    """

    name: str
    regions: tuple[str, ...]
    hosts: int = 1
    minutes: tuple[float, float] = (10.0, 40.0)
    lines: int = LINES


SCENARIOS = (
    Scenario(name="four Regions", regions=("us-east-1", "us-west-2", "eu-west-1", "ap-southeast-2")),
    Scenario(name="eu-west-1 alone", regions=("eu-west-1",), lines=LINES_OF_ONE_REGION),
    Scenario(name="eu-west-1 alone, four hosts each", regions=("eu-west-1",), hosts=4, lines=LINES_OF_ONE_REGION),
)


@dataclass(kw_only=True)
class Trace:
    """Calls of all children to one API in one Region, by second, and the number that would have been refused."""

    per_second: Counter[int] = field(default_factory=Counter)
    refused: int = 0


def play(scenario: Scenario, children: int = CHILDREN) -> dict[str, Any]:
    """Run a scenario, and return the calls by API and Region."""
    chance = random.Random(1)  # noqa: S311 - not a secret
    random.seed(1)
    deployment = _deployment(scenario.regions)
    free = [(number / CHILDREN_PER_SECOND, number) for number in range(children)]
    heapq.heapify(free)
    traces: dict[tuple[str, str], Trace] = defaultdict(Trace)
    events: list[tuple[float, str, str]] = []
    begun = float("-inf")
    buckets, now = _buckets()
    for index in range(scenario.lines):
        at, number = heapq.heappop(free)
        begun = max(at, begun + 1 / CHILDREN_PER_SECOND)
        region = scenario.regions[index % len(scenario.regions)]
        job = job_of(index, region, scenario.hosts)
        seconds, calls = run_line(deployment, job, LINES, 60 * chance.uniform(*scenario.minutes), chance)
        heapq.heappush(free, (begun + seconds, number))
        for moment, api in calls:
            heapq.heappush(events, (begun + moment, region, api))
        while events and events[0][0] <= begun:  # no earlier event can follow
            _count(heapq.heappop(events), traces, buckets, now)
    while events:
        _count(heapq.heappop(events), traces, buckets, now)
    whole = max(max(trace.per_second) for trace in traces.values())
    rows = [_row(api, region, trace, whole) for (api, region), trace in sorted(traces.items())]
    return {
        "scenario": scenario.name,
        "lines": scenario.lines,
        "children": children,
        "hours": round(whole / 3600, 1),
        "apis": rows,
    }


def _buckets() -> tuple[TokenBuckets, Callable[[float], None]]:
    moment = [0.0]

    def set_to(seconds: float) -> None:
        moment[0] = seconds

    return TokenBuckets(lambda: moment[0]), set_to


def _count(
    event: tuple[float, str, str],
    traces: dict[tuple[str, str], Trace],
    buckets: TokenBuckets,
    set_clock: Callable[[float], None],
) -> None:
    moment, region, api = event
    set_clock(moment)
    trace = traces[api, region]
    trace.per_second[int(moment)] += 1
    trace.refused += not buckets.take(ACCOUNT, region, *api.split("."))


def _row(api: str, region: str, trace: Trace, seconds: int) -> dict[str, Any]:
    rate = rate_of(*api.split("."))
    limit = rate.at(region)[0] if rate else ASSUMED[api]
    windows: Counter[int] = Counter()
    for second, calls in trace.per_second.items():
        windows[second // WINDOW] += calls
    calls = trace.per_second.total()
    return {
        "api": api,
        "region": region,
        "calls": calls,
        "per_second": round(calls / seconds, 2),
        "busiest": round(max(windows.values()) / WINDOW, 2),
        "limit": limit,
        "limit_is": "assumed" if rate is None or rate.assumed else "documented or reported",
        "source": rate.source if rate else "traingrid/child/polling_pace.py",
        "refused": trace.refused if rate else None,
    }


def _deployment(regions: tuple[str, ...]) -> Deployment:
    grid = GridSettings.model_validate(
        {
            "name": "bench",
            "home": "us-east-1",
            "regions": dict.fromkeys(regions),
            "images": {"resnet": {"repository": "training", "tag": "1"}},
            "job": {"image": "resnet", "instance_type": "ml.m5.large"},
        }
    )
    return Deployment(grid=grid, account=ACCOUNT, table="ledger", manifest_bucket="bench")


def results(played: list[dict[str, Any]]) -> list[Result]:
    """Return each API's mean and peak rate in its busiest Region, compared with half of the limit."""
    return [
        Result(
            id=f"{api.partition('.')[2]}{'*' * (worst['limit_is'] == 'assumed')}",
            what=f"{scene['scenario']}: {words}",
            measured=worst[figure],
            comparison="<=",
            aim=worst["limit"] / 2,
            unit="/s",
        )
        for scene in played
        for api in dict.fromkeys(row["api"] for row in scene["apis"])
        for figure, words in (("per_second", "mean"), ("busiest", f"busiest {WINDOW} s"))
        for worst in [_worst(scene["apis"], api, figure)]
    ]


def _worst(rows: list[dict[str, Any]], api: str, figure: str) -> dict[str, Any]:
    return max((row for row in rows if row["api"] == api), key=lambda row: row[figure] / row["limit"])


def main() -> None:
    """Run all scenarios and print a report."""
    machine, started = description(), time.monotonic()
    played = [play(scenario) for scenario in SCENARIOS]
    details = {
        "scenarios": played,
        "seconds": round(time.monotonic() - started, 1),
        "peak_mib": peak_memory_mib("self"),
    }
    against = "the real pacing code with a simulated clock, not AWS"
    report("rates", results(played), machine=machine, against=against, details=details)
    print("* AWS does not publish a limit for this API; the figure is an assumption.")


if __name__ == "__main__":
    main()
