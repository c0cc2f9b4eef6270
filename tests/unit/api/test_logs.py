"""Logs: the logs of all hosts and Regions are merged by time, followed and filtered, despite a Region that is down."""

import json
import re
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import EndpointConnectionError

from tests.support.module_time import replace_time
from tests.support.sample_deployment import sample_deployment
from traingrid.api import child_log
from traingrid.api import logs as reading
from traingrid.api.child_log import ChildEvent
from traingrid.api.control_plane import ControlPlane
from traingrid.api.logs import LogLine, LogReader, matching
from traingrid.aws.log_events import LogEvent
from traingrid.backends.base import LogGoneError
from traingrid.backends.sagemaker.log import SageMakerLogs
from traingrid.errors import TraingridError
from traingrid.job.state import JobState
from traingrid.submission.status import JobStatus, SubmissionStatus

DOWN = EndpointConnectionError(endpoint_url="https://logs.eu-west-1.amazonaws.com")


@dataclass
class FakeBackend:
    """The logs of a Region: streams by training job, each with (time, text) of its events."""

    streams: dict[str, dict[str, list[tuple[int, str]]]]
    down: bool = False
    page: int = 3
    calls: Counter[str] = field(default_factory=Counter)

    log_host, log_pages = SageMakerLogs.log_host, SageMakerLogs.log_pages
    last_log_events = SageMakerLogs.last_log_events

    @property
    def logs(self) -> "FakeBackend":
        return self

    def log_names(self, name: str) -> list[str]:
        return [name]

    def log_streams(self, name: str) -> list[str]:
        if self.down:
            raise DOWN
        return sorted(self.streams.get(name, {}))

    def get_log_events(self, **request: Any) -> dict[str, Any]:
        self.calls["GetLogEvents"] += 1
        assert request["logGroupName"] == "/aws/sagemaker/TrainingJobs"
        stream = request["logStreamName"]
        events = self.streams[stream.partition("/")[0]][stream]
        limit = min(self.page, request.get("limit", self.page))
        if request["startFromHead"]:
            first = int(request.get("nextToken", 0))
            shown, tokens = events[first : first + limit], (first, min(first + limit, len(events)))
        else:
            last = int(request.get("nextToken", len(events)))
            first = max(0, last - limit)
            shown, tokens = events[first:last], (first, last)
        kept = [{"timestamp": at, "message": text} for at, text in shown if at >= request.get("startTime", 0)]
        return {"events": kept, "nextBackwardToken": str(tokens[0]), "nextForwardToken": str(tokens[1])}


def job(index: int, region: str, state: JobState = JobState.COMPLETED) -> JobStatus:
    return JobStatus(index=index, region=region, name=f"line-{index}", state=state, training_job=f"job-{index}")


@pytest.fixture
def backends(monkeypatch: pytest.MonkeyPatch) -> dict[str, FakeBackend]:
    first = {"job-0/algo-1-17": [(n, f"a{n}") for n in range(0, 20, 2)], "job-0/algo-2-17": [(5, "b5"), (7, "b7")]}
    found = {
        "us-east-1": FakeBackend({"job-0": first}),
        "eu-west-1": FakeBackend({"job-1": {"job-1/algo-1-18": [(n, f"c{n}") for n in range(1, 20, 6)]}}),
    }
    monkeypatch.setattr(reading, "logs_of", lambda _deployment, region, _backend: found[region])
    return found


def reader(*statuses: list[JobStatus], **more: Any) -> LogReader:
    """Return a reader of a submission whose jobs have these statuses at each read, the last one from then on."""
    coming = list(statuses)

    class Plane(ControlPlane):
        def status(self, submission: str) -> SubmissionStatus:
            jobs = coming.pop(0) if len(coming) > 1 else coming[0]
            return SubmissionStatus(submission=submission, manifest="", batch_job="b", batch_state="", jobs=jobs)

    nothing: Any = None
    plane = Plane(deployment=sample_deployment(), ledger=nothing, batch=nothing, storage=nothing)
    return LogReader(plane=plane, submission="0123abcd", **more)


ENDED = [job(0, "us-east-1"), job(1, "eu-west-1")]


def test_lines_of_all_hosts_and_regions_are_merged_by_time(backends: dict[str, FakeBackend]) -> None:
    lines = list(reader(ENDED).lines())
    assert [line.milliseconds for line in lines] == sorted([*range(0, 20, 2), 5, 7, 1, 7, 13, 19])
    assert {(line.job, line.region, line.host) for line in lines} == {
        (0, "us-east-1", "algo-1"),
        (0, "us-east-1", "algo-2"),
        (1, "eu-west-1", "algo-1"),
    }
    assert str(lines[0].time) == "1970-01-01 00:00:00+00:00"
    assert {line.text for line in reader(ENDED, index=1).lines()} == {"c1", "c7", "c13", "c19"}


@pytest.mark.parametrize("count", [0, 1, 5, 9, 100])
def test_the_last_lines_are_read_from_the_end(backends: dict[str, FakeBackend], count: int) -> None:
    every = list(reader(ENDED).lines())
    backends["us-east-1"].calls.clear()
    assert list(reader(ENDED).lines(tail=count)) == (every[-count:] if count else [])
    if count == 1:
        assert backends["us-east-1"].calls["GetLogEvents"] == 2, "one for each host"


def test_lines_before_a_time_are_not_read(backends: dict[str, FakeBackend]) -> None:
    assert [line.text for line in reader(ENDED, since=13).lines()] == ["c13", "a14", "a16", "a18", "c19"]
    assert [line.text for line in reader(ENDED, since=13).lines(tail=2)] == ["a18", "c19"]


def test_matching_lines_are_counted_after_the_search(backends: dict[str, FakeBackend]) -> None:
    lines = reader(ENDED).lines()
    assert [line.text for line in matching(lines, re.compile("^c"), 2)] == ["c13", "c19"]
    assert len(list(matching(reader(ENDED).lines(), re.compile("7")))) == 2


@pytest.mark.parametrize(
    ("text", "rank"),
    [
        ("epoch=1 loss=0.5", 0),
        ("[1,3]<stdout>:loss=0.5", 3),
        # https://github.com/aws/sagemaker-training-toolkit, test/unit/test_process.py
        ("[1,mpirank:10,algo-2]<stderr>:This is stderr", 10),
    ],
)
def test_the_rank_of_a_line_is_that_of_its_mark(text: str, rank: int) -> None:
    assert LogLine(0, 0, "us-east-1", "algo-1", text).rank == rank


def test_lines_of_a_rank_are_counted_after_the_selection() -> None:
    lines = [LogLine(at, 0, "us-east-1", "algo-1", f"[1,{at % 2}]<stdout>:{at}") for at in range(9)]
    assert [line.milliseconds for line in matching(iter(lines), None, 2, rank=1)] == [5, 7]


@pytest.mark.parametrize("tail", [None, 3])
def test_new_lines_and_hosts_are_followed_until_the_jobs_have_ended(
    backends: dict[str, FakeBackend], monkeypatch: pytest.MonkeyPatch, tail: int | None
) -> None:
    streams = backends["us-east-1"].streams["job-0"]
    rounds = 0

    def sleep(_: float) -> None:
        nonlocal rounds
        rounds += 1
        streams["job-0/algo-1-17"].append((100 + rounds, f"new{rounds}"))
        streams["job-0/algo-3-19"] = [(200, "restarted host")]

    replace_time(monkeypatch, "traingrid.api.logs", sleep=sleep)
    running = [job(0, "us-east-1", JobState.IN_PROGRESS), job(1, "eu-west-1")]
    texts = [line.text for line in reader(running, running, running, ENDED).lines(tail, follow=True)]
    assert texts[-4:] == ["new1", "new2", "new3", "restarted host"]
    assert len(texts) == len(set(texts)) == (tail or 16) + 4


def test_a_region_that_does_not_answer_is_reported_after_the_lines_of_the_others(
    backends: dict[str, FakeBackend],
) -> None:
    backends["eu-west-1"].down = True
    lines = []
    with pytest.raises(TraingridError, match="The logs of eu-west-1 cannot be read completely"):  # noqa: PT012  # yields before it raises
        for line in reader(ENDED).lines():
            lines.append(line)  # noqa: PERF402  # as above
    assert len(lines) == 12


def test_an_outage_that_ends_while_lines_are_followed_loses_none(
    backends: dict[str, FakeBackend], monkeypatch: pytest.MonkeyPatch
) -> None:
    backends["eu-west-1"].down = True

    def sleep(_: float) -> None:
        backends["eu-west-1"].down = False

    replace_time(monkeypatch, "traingrid.api.logs", sleep=sleep)
    running = [job(0, "us-east-1", JobState.IN_PROGRESS), job(1, "eu-west-1")]
    assert len(list(reader(running, running, ENDED).lines(follow=True))) == 16


def printed(host: str, text: str, *, event: str = "training", training_job: str = "job-0") -> str:
    message = f"[{host}] {text}" if host != "algo-3" else text  # the only host of its training job
    line = {"message": message, "event": event, "host": host, "training_job": training_job}
    return json.dumps(line)


@pytest.fixture
def gone(monkeypatch: pytest.MonkeyPatch, backends: dict[str, FakeBackend]) -> None:
    """The log of job-0 is gone."""

    def log_streams(_name: str) -> list[str]:
        raise LogGoneError("The pods of job-0 no longer exist.")

    monkeypatch.setattr(backends["us-east-1"], "log_streams", log_streams, raising=False)


def test_lines_of_a_log_that_is_gone_are_those_that_the_child_has_printed(
    monkeypatch: pytest.MonkeyPatch, gone: None
) -> None:
    """The second attempt of the child has printed the log from its start again."""
    events = [
        ("try-1", 1, printed("algo-1", "epoch=1")),
        ("try-2", 5, printed("algo-1", "epoch=1")),
        ("try-2", 6, printed("algo-2", "[x] y")),
        ("try-2", 7, printed("algo-1", "epoch=2")),
        ("try-2", 8, printed("algo-3", "alone")),
        ("try-2", 8, printed("algo-1", "an earlier attempt", training_job="job-00")),
        ("try-2", 9, printed("algo-1", "Completed", event="state")),
        ("try-2", 9, "Traceback"),
    ]
    made = [ChildEvent(stream, LogEvent(time, text)) for stream, time, text in events]
    monkeypatch.setattr(child_log, "child_log", lambda *_: iter(made))
    lines = [(line.milliseconds, line.host, line.text) for line in reader([job(0, "us-east-1")]).lines()]
    assert lines == [(5, "algo-1", "epoch=1"), (6, "algo-2", "[x] y"), (7, "algo-1", "epoch=2"), (8, "algo-3", "alone")]
    assert [line.text for line in reader([job(0, "us-east-1")]).lines(tail=1)] == ["alone"]
    followed = reader([job(0, "us-east-1")]).lines(follow=True)
    assert [line.text for line in followed] == ["epoch=1", "[x] y", "epoch=2", "alone"]


def test_lines_of_a_single_host_that_its_child_has_printed_have_no_prefix(
    monkeypatch: pytest.MonkeyPatch, gone: None
) -> None:
    line = {"message": "epoch=1 [a] b", "event": "training", "host": "algo-1", "training_job": "job-0"}
    monkeypatch.setattr(child_log, "child_log", lambda *_: iter([ChildEvent("try", LogEvent(1, json.dumps(line)))]))
    assert [line.text for line in reader([job(0, "us-east-1")]).lines()] == ["epoch=1 [a] b"]


def test_a_log_that_is_gone_with_its_child_is_an_error(monkeypatch: pytest.MonkeyPatch, gone: None) -> None:
    def forgotten(*_: object) -> None:
        raise TraingridError("The child has no log.")

    monkeypatch.setattr(child_log, "child_log", forgotten)
    with pytest.raises(TraingridError, match=r"The pods of job-0 no longer exist\."):
        list(reader([job(0, "us-east-1")]).lines())
