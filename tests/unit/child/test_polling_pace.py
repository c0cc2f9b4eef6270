"""Polling pace: many children together stay below the rate limits of CloudWatch Logs and SageMaker."""

import itertools
import random
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.support.recorded_log import RecordedLog
from tests.support.training_jobs import FakeTime
from traingrid.aws.log_events import LogPosition
from traingrid.backends.base import LogGoneError, LogUnreadableError
from traingrid.backends.sagemaker.log import SageMakerLogs
from traingrid.child.log_following import LogFollower
from traingrid.child.polling_pace import DESCRIBES_PER_SECOND, LOG_READS_PER_SECOND, PollingPace, spread
from traingrid.grid.deployment import Deployment
from traingrid.grid.orchestrator import Orchestrator
from traingrid.job.job import Job

NAME = "traingrid-0123abcd-0-1"
THROTTLED = ClientError({"Error": {"Code": "ThrottlingException", "Message": "Rate exceeded"}}, "GetLogEvents")


def reader(deployment: Deployment, logs: Any) -> SageMakerLogs:
    return SageMakerLogs(deployment, "us-east-1", lambda *_: logs)


class FakeAttempt:
    """An attempt whose log is counted and may be throttled."""

    name = NAME
    error = LogUnreadableError("ThrottlingException", passes=True)

    def __init__(self, job: Job, time: FakeTime, refusals: int = 0) -> None:
        self.job, self.clock, self.backend = job, time.clock, self
        self.refusals = refusals
        self.looks: list[tuple[float, dict[str, bool]]] = []
        self._time = time

    def log_lines(self, _name: str, position: LogPosition, **how: bool) -> Iterator[tuple[str, str]]:
        self.looks.append((self._time.seconds, how))
        if self.refusals:
            self.refusals -= 1
            raise self.error
        position["stream"] = "token"
        yield "algo-1", "line"


def follow(attempt: Any, pace: PollingPace, time: FakeTime, seconds: float) -> list[tuple[str, str]]:
    """Follow a log like a watch, with a read of the ledger every second."""
    follower = LogFollower(attempt=attempt, pace=pace)
    found: list[tuple[str, str]] = []
    while time.seconds < seconds:
        found += follower.lines()
        time.sleep(1.0)
    return found


@pytest.mark.parametrize(("children", "hosts"), [(1, 1), (16, 1), (256, 1), (256, 8)])
def test_children_together_read_logs_at_less_than_half_of_the_slowest_regions_rate(children: int, hosts: int) -> None:
    pace = PollingPace(children=children)
    assert children * hosts / pace.log_seconds(hosts) <= LOG_READS_PER_SECOND / 2
    assert pace.log_seconds(hosts) >= 10
    assert children / pace.describe_seconds(0.0) <= DESCRIBES_PER_SECOND / 2


def test_only_children_that_can_run_at_once_are_counted() -> None:
    orchestrator = Orchestrator()
    assert [PollingPace.of_array(size, orchestrator).children for size in (1, 40, 10_000)] == [1, 40, 256]


def test_a_log_is_read_at_once_and_then_every_ten_seconds_at_most(job: Job) -> None:
    time = FakeTime()
    attempt = FakeAttempt(job, time)
    assert len(follow(attempt, PollingPace(), time, 600)) == len(attempt.looks)
    moments = [at for at, _ in attempt.looks]
    assert moments[0] == 0
    assert 600 / 12 - 5 <= len(moments) <= 600 / 8
    assert min(later - earlier for earlier, later in itertools.pairwise(moments)) >= 8


def test_streams_are_listed_until_all_hosts_have_one_and_rarely_after(job: Job) -> None:
    time = FakeTime()
    attempt = FakeAttempt(job, time)
    follow(attempt, PollingPace(), time, 1500)
    listed = Counter(how["discover"] for _, how in attempt.looks)
    assert listed[True] == 3, "at first, after ten minutes, and after twenty"
    assert not any(how["to_end"] for _, how in attempt.looks)


def test_streams_of_hosts_that_start_again_are_listed_until_they_exist(job: Job) -> None:
    time = FakeTime()
    attempt: Any = FakeAttempt(job, time)
    follower = LogFollower(attempt=attempt, pace=PollingPace())
    list(follower.lines())
    follower.expect_start()
    while time.seconds < 60:
        list(follower.lines())
        time.sleep(1.0)
    follower._position["stream of the second start"] = "token"
    while time.seconds < 120:
        list(follower.lines())
        time.sleep(1.0)
    listed_at = [at for at, how in attempt.looks if how["discover"]]
    assert len(listed_at) > 3
    assert max(listed_at) < 75


def test_children_that_start_together_read_at_different_times(job: Job) -> None:
    random.seed(1)
    looks: Counter[int] = Counter()
    for _ in range(256):
        attempt = FakeAttempt(job, time := FakeTime())
        follow(attempt, PollingPace(children=256), time, 600)
        looks.update(int(at) for at, _ in attempt.looks)
    assert max(looks.values()) <= 2 * LOG_READS_PER_SECOND
    assert sum(looks.values()) / 600 <= LOG_READS_PER_SECOND / 2


def test_a_throttled_child_backs_off_and_logs_it_once(job: Job, log: RecordedLog) -> None:
    time = FakeTime()
    attempt = FakeAttempt(job, time, refusals=5)
    follow(attempt, PollingPace(), time, 1200)
    gaps = [later[0] - earlier[0] for earlier, later in itertools.pairwise(attempt.looks)]
    assert gaps[4] > 60, "the sixth look"
    assert gaps[5] < 15, "after a look that succeeds"
    assert len(log.lines) == 1


def test_the_rest_of_a_log_is_read_although_aws_throttles(job: Job, log: RecordedLog) -> None:
    time = FakeTime()
    attempt = FakeAttempt(job, time, refusals=3)
    follower: Any = LogFollower(attempt=attempt, pace=PollingPace())  # type: ignore[arg-type]  # a fake attempt
    assert list(follower.rest()) == [("algo-1", "line")]
    assert (len(attempt.looks), log.lines) == (4, [])
    attempt.refusals = 100
    assert list(follower.rest()) == []
    assert (len(attempt.looks), len(log.lines)) == (12, 1)


def test_the_rest_of_a_log_that_is_gone_is_not_waited_for(job: Job, log: RecordedLog) -> None:
    attempt = FakeAttempt(job, FakeTime(), refusals=1)
    attempt.error = LogGoneError("The pods no longer exist.", "Keep logs in CloudWatch Logs.")
    follower: Any = LogFollower(attempt=attempt, pace=PollingPace())  # type: ignore[arg-type]  # a fake attempt
    assert list(follower.rest()) == []
    assert (len(attempt.looks), len(log.lines)) == (1, 1)


def event(message: object) -> dict[str, Any]:
    return {"timestamp": 0, "message": str(message)}


class FakeLogs:
    """A stream of three pages; the first is large."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.pages = [[*map(event, range(1000))], [event("one")], [event("two")]]

    def get_log_events(self, **request: Any) -> dict[str, Any]:
        self.calls["GetLogEvents"] += 1
        page = int(request.get("nextToken", 0))
        token = str(min(page + 1, len(self.pages)))
        return {"events": self.pages[page] if page < len(self.pages) else [], "nextForwardToken": token}

    def get_paginator(self, _operation: str) -> "FakeLogs":
        return self

    def paginate(self, **_request: Any) -> list[dict[str, Any]]:
        self.calls["DescribeLogStreams"] += 1
        return [{"logStreams": [{"logStreamName": f"{NAME}/algo-1-1700000000"}]}]


def test_a_read_is_one_call_per_stream_unless_a_page_is_large(deployment: Deployment) -> None:
    logs = FakeLogs()
    backend = reader(deployment, logs)
    position: LogPosition = {}
    assert len(list(backend.log_lines(NAME, position, to_end=False))) == 1001
    assert logs.calls == {"DescribeLogStreams": 1, "GetLogEvents": 2}
    assert list(backend.log_lines(NAME, position, to_end=False, discover=False)) == [("algo-1", "two")]
    assert logs.calls == {"DescribeLogStreams": 1, "GetLogEvents": 3}
    assert list(backend.log_lines(NAME, position)) == []


def test_a_throttled_read_is_skipped(deployment: Deployment) -> None:
    logs = FakeLogs()
    backend = reader(deployment, logs)

    def refuse(**_request: Any) -> dict[str, Any]:
        raise THROTTLED

    logs.get_log_events = refuse  # type: ignore[method-assign]  # replaced for the test
    with pytest.raises(LogUnreadableError) as error:
        list(backend.log_lines(NAME, {}))
    assert error.value.passes


def test_durations_vary_randomly_around_their_average() -> None:
    random.seed(1)
    found = [spread(100.0) for _ in range(1000)]
    assert (min(found) >= 80, max(found) <= 120, 98 < sum(found) / 1000 < 102) == (True, True, True)
