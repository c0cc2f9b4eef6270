"""`make bench-rates`: calls per second by API and Region while 256 children train 10,000 lines, against AWS's rates.

Each line runs the real supervisor, watch, log follower and SageMaker backend, on a clock of its own and on clients that
count. The children are then laid side by side: a line begins when a child is free, and Fargate starts 20 children a
second at most. Children do not influence each other, because no call is refused; the buckets of localcloud's rates tell
afterwards how many calls would have been.

Not in it: the intake's and the reconciler's calls, which are a few in five minutes, and a person's.
"""

import heapq
import random
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from botocore.exceptions import ClientError

from bench.machine import CHECKOUT, description, peak_memory_mib
from bench.report import Result, report
from localcloud.limits.rates import rate_of
from localcloud.limits.throttle import TokenBuckets
from traingrid.attempt import Clock
from traingrid.backends.sagemaker import SageMaker
from traingrid.deployment import Deployment
from traingrid.grid import Grid
from traingrid.job import Channel, Job
from traingrid.pace import DESCRIBES_PER_SECOND, Pace
from traingrid.supervisor import Supervisor

RESULTS = CHECKOUT / "bench/results/rates.json"
LINES, CHILDREN = 10_000, 256
CHILDREN_PER_SECOND = 20
"""How many tasks Fargate starts (https://docs.aws.amazon.com/AmazonECS/latest/developerguide/throttling.html)."""
ACCOUNT = "123456789012"
LAUNCH_SECONDS = (150.0, 240.0)
"""How long SageMaker takes to give a training job its instances: an assumption."""
WINDOW = 10
"""Seconds over which the busiest moment is counted."""
ASSUMED = {"sagemaker.DescribeTrainingJob": DESCRIBES_PER_SECOND}
"""Rates of which AWS publishes none, as the product assumes them."""

Calls = list[tuple[float, str]]


@dataclass(frozen=True, kw_only=True)
class Scenario:
    """What is trained.

    Attributes:
        name: What it is called.
        regions: The training Regions, which take the lines in turn.
        hosts: Instances of each training job.
        minutes: Shortest and longest training.
        lines: How many lines.
    """

    name: str
    regions: tuple[str, ...]
    hosts: int = 1
    minutes: tuple[float, float] = (10.0, 40.0)
    lines: int = LINES


SCENARIOS = (
    Scenario(name="four Regions", regions=("us-east-1", "us-west-2", "eu-west-1", "ap-southeast-2")),
    # Ten generations of children show the same rates as forty.
    Scenario(name="eu-west-1 alone", regions=("eu-west-1",), lines=2_560),
    Scenario(name="eu-west-1 alone, four hosts each", regions=("eu-west-1",), hosts=4, lines=2_560),
)


@dataclass(kw_only=True)
class Line:
    """A training job on a clock of its own, and the clients of AWS that its child calls.

    Attributes:
        name: The training job's name, once it is created.
        calls: When each API was called, in seconds since the child began.
    """

    hosts: int
    runs_at: float
    ends_at: float
    now: float = 0.0
    name: str = ""
    created_at: float = 0.0
    request: dict[str, Any] = field(default_factory=dict)
    calls: Calls = field(default_factory=list)

    @property
    def age(self) -> float:
        """Seconds since the creation."""
        return self.now - self.created_at

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.now += seconds

    def create_training_job(self, **request: Any) -> None:
        """SageMaker's."""
        self.calls.append((self.now, "sagemaker.CreateTrainingJob"))
        self.name, self.request, self.created_at = request["TrainingJobName"], request, self.now

    def describe_training_job(self, **_: Any) -> dict[str, Any]:
        """SageMaker's."""
        self.calls.append((self.now, "sagemaker.DescribeTrainingJob"))
        if not self.name:
            raise _unknown()
        state = "Completed" if self.age >= self.ends_at else "InProgress"
        phase = state if state == "Completed" else "Training" if self.age >= self.runs_at else "Starting"
        arn = f"arn:aws:sagemaker:us-east-1:{ACCOUNT}:training-job/{self.name}"
        return {**self.request, "TrainingJobStatus": state, "SecondaryStatus": phase, "TrainingJobArn": arn}

    def get_paginator(self, _: str) -> "Line":
        """CloudWatch Logs'."""
        return self

    def paginate(self, **_: Any) -> Iterator[dict[str, Any]]:
        """DescribeLogStreams of CloudWatch Logs."""
        self.calls.append((self.now, "logs.DescribeLogStreams"))
        hosts = range(1, self.hosts + 1) if self.age >= self.runs_at else ()
        yield {"logStreams": [{"logStreamName": f"{self.name}/algo-{host}-1"} for host in hosts]}

    def get_log_events(self, **request: Any) -> dict[str, Any]:
        """CloudWatch Logs': a line a second, until the training ends."""
        self.calls.append((self.now, "logs.GetLogEvents"))
        begun = int(request.get("nextToken", 0))
        written = int(max(0.0, min(self.age, self.ends_at) - self.runs_at))
        events = [{"message": "epoch=1"}] if written > begun else []  # one stands for all
        return {"events": events, "nextForwardToken": str(written)}


def _unknown() -> Exception:
    error: Any = {"Error": {"Code": "ValidationException", "Message": "Requested resource not found."}}
    return ClientError(error, "DescribeTrainingJob")


class Backend(SageMaker):
    """The product's backend on counting clients."""

    def __init__(self, deployment: Deployment, region: str, line: Line) -> None:
        super().__init__(deployment, region, make=lambda *_: line)
        self._creating = self._logs = line


class Ledger:
    """One job's item; DynamoDB on demand has no rate that children come near."""

    def __init__(self, job: Job, line: Line) -> None:
        self._item: dict[str, Any] = {"attempt": 1, "state": "Pending", "region": job.region, "regions": [job.region]}
        self._line = line

    def open_job(self, *_: Any) -> dict[str, Any]:
        """Open it."""
        return dict(self._item)

    def job(self, *_: Any) -> dict[str, Any]:
        """Return it as SageMaker's events, which come within seconds, have left it."""
        line = self._line
        if line.name and line.age >= line.runs_at and self._item["state"] != "Completed":
            self._item |= {"state": "InProgress", "phase": "Training"}
        if line.name and line.age >= line.ends_at:
            self._item |= {"state": "Completed", "phase": "Completed"}
        return dict(self._item)

    def record_job(self, _s: str, _i: int, _n: int, facts: dict[str, Any], **_: Any) -> bool:
        """Record facts."""
        self._item |= facts
        return True

    def record_progress(self, *_: Any) -> None:
        """Record nothing."""

    def cancels(self, *_: Any) -> list[Any]:
        """Return no cancel."""
        return []

    def pause(self, *_: Any) -> None:
        """Return no pause."""


def run_line(deployment: Deployment, scenario: Scenario, index: int, chance: random.Random) -> tuple[float, Calls]:
    """Run one child to its end; return how long it took and what it called."""
    runs_at = chance.uniform(*LAUNCH_SECONDS)
    line = Line(hosts=scenario.hosts, runs_at=runs_at, ends_at=runs_at + 60 * chance.uniform(*scenario.minutes))
    region = scenario.regions[index % len(scenario.regions)]
    job = _job(index, region, scenario.hosts)
    Supervisor(
        grid="bench",
        submission="0123abcd",
        job=job,
        backend_in=lambda _: Backend(deployment, region, line),
        ledger=Ledger(job, line),  # type: ignore[arg-type]
        say=_silent,
        pace=Pace.of_array(LINES, deployment.grid.orchestrator),
        clock=Clock(now=lambda: line.now, sleep=line.sleep),
    ).run()
    return line.now, line.calls


def _silent(sentence: str, **facts: Any) -> None:
    """Print nothing: the log is not the point here."""


def _job(index: int, region: str, hosts: int) -> Job:
    return Job(
        index=index,
        line=index + 1,
        name=f"job-{index}",
        region=region,
        inputs={"train": Channel(uri=f"s3://bench-data-{ACCOUNT}-{region}/x/")},
        image=f"{ACCOUNT}.dkr.ecr.{region}.amazonaws.com/bench/training:1",
        instance_type="ml.m5.large",
        instance_count=hosts,
        volume_gb=5,
        max_runtime_seconds=7200,
        processes_per_host=1,
        mpi_options="",
        output=f"s3://bench-output-{ACCOUNT}-{region}/",
    )


@dataclass(kw_only=True)
class Trace:
    """Calls of all children in one Region and API, in whole seconds, and how many would have been refused."""

    per_second: Counter[int] = field(default_factory=Counter)
    refused: int = 0


def play(scenario: Scenario, children: int = CHILDREN) -> dict[str, Any]:
    """Run a scenario; return what each API was called in each Region."""
    chance = random.Random(1)  # noqa: S311 - no secret
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
        seconds, calls = run_line(deployment, scenario, index, chance)
        heapq.heappush(free, (begun + seconds, number))
        region = scenario.regions[index % len(scenario.regions)]
        for moment, api in calls:
            heapq.heappush(events, (begun + moment, region, api))
        while events and events[0][0] <= begun:  # nothing earlier can come any more
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
        "source": rate.source if rate else "traingrid/pace.py",
        "refused": trace.refused if rate else None,
    }


def _deployment(regions: tuple[str, ...]) -> Deployment:
    grid = Grid.model_validate(
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
    """Return each API's rate in its worst Region against half of the limit, on average and in the busiest seconds."""
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
    """Play all scenarios and report."""
    machine, started = description(), time.monotonic()
    played = [play(scenario) for scenario in SCENARIOS]
    details = {
        "scenarios": played,
        "seconds": round(time.monotonic() - started, 1),
        "peak_mib": peak_memory_mib("self"),
    }
    against = "the real pacing code with a clock of its own, not AWS"
    report(RESULTS, results(played), machine=machine, against=against, details=details)
    print("* AWS publishes no figure for this API; the limit is an assumption.")


if __name__ == "__main__":
    main()
