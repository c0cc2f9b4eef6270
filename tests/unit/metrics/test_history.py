"""Metric history: a reader finds the parts of all attempts, follows running jobs, and falls back to the log."""

import json
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError

from tests.support.sample_deployment import ACCOUNT, SAMPLE_BUCKETS
from traingrid import names
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.state import JobState
from traingrid.ledger.facts import AttemptFacts
from traingrid.ledger.items import JobKey
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.metrics.history import MetricHistory
from traingrid.submission.files import jobs_key, normalised

SUBMISSION = "0123abcd"
LINE = {
    "region": "us-east-1",
    "s3_uri": f"s3://{SAMPLE_BUCKETS['us-east-1']}/x",
    "replicas": {"us-west-2": f"s3://{SAMPLE_BUCKETS['us-west-2']}/x"},
    "metrics": ["loss"],
}
RUN, LATER_RUN = "20261123T160000000Z", "20261123T170000000Z"
GROUP = "/aws/sagemaker/TrainingJobs"


class Grid:
    """A submission of two equal lines, with the buckets of two Regions."""

    def __init__(self, deployment: Deployment, ledger: Ledger, storage: Storage) -> None:
        self.deployment, self.ledger, self.storage = deployment, ledger, storage
        for region in ("us-east-1", "us-west-2"):
            place = {} if region == "us-east-1" else {"CreateBucketConfiguration": {"LocationConstraint": region}}
            bucket = names.output_bucket("traingrid", ACCOUNT, region)
            boto3.client("s3", region).create_bucket(Bucket=bucket, **place)  # type: ignore[arg-type]  # one of AWS's
            boto3.client("logs", region).create_log_group(logGroupName=GROUP)

    def submit(self, **changes: Any) -> None:
        text = f"{json.dumps(LINE)}\n" * 2
        jobs = jobs_of_lines(parse(text.encode(), self.deployment), self.deployment, SUBMISSION)
        self.jobs = [job.model_copy(update=changes) for job in jobs]
        target = S3Uri(self.deployment.manifest_bucket, jobs_key(SUBMISSION))
        self.storage.write(target, normalised(self.jobs)[0], "application/jsonl")
        self.ledger.claim_submission(SUBMISSION, "request", {"jobs": 2, "manifest": "s3://m/x.csv"})
        self.ledger.record_submitted(SUBMISSION, "array")

    def start(self, index: int = 0, attempt: int = 1) -> JobKey:
        key = JobKey(submission=SUBMISSION, index=index, attempt=attempt)
        self.ledger.open_job(SUBMISSION, self.jobs[index])
        name = names.training_job("traingrid", SUBMISSION, index, attempt)
        self.ledger.record_job(key, {"state": JobState.IN_PROGRESS, "training_job": name})
        return key

    def part(self, name: str, *records: dict[str, Any], key: JobKey, region: str = "us-east-1") -> None:
        lines = "".join(json.dumps({"time": "2026-11-23T16:00:00Z"} | record) + "\n" for record in records)
        output = names.output_prefix("traingrid", ACCOUNT, region, SUBMISSION, key.index)
        training_job = names.training_job("traingrid", SUBMISSION, key.index, key.attempt)
        bucket, _, prefix = names.metric_parts(output, training_job).removeprefix("s3://").partition("/")
        boto3.client("s3", region).put_object(Bucket=bucket, Key=prefix + name, Body=lines.encode())

    def log(self, key: JobKey, *lines: str) -> None:
        logs = boto3.client("logs", "us-east-1")
        stream = f"{names.training_job('traingrid', SUBMISSION, key.index, key.attempt)}/algo-1-1"
        if not logs.describe_log_streams(logGroupName=GROUP, logStreamNamePrefix=stream)["logStreams"]:
            logs.create_log_stream(logGroupName=GROUP, logStreamName=stream)
        events = [{"timestamp": 1_795_449_600_000 + number, "message": line} for number, line in enumerate(lines)]
        logs.put_log_events(logGroupName=GROUP, logStreamName=stream, logEvents=events)  # type: ignore[arg-type]  # dictionaries

    def reader(self) -> MetricHistory:
        return MetricHistory(self.deployment, self.ledger, self.storage, SUBMISSION)


def epoch(number: int, loss: float) -> dict[str, Any]:
    return {"epoch": number, "metrics": {"loss": loss}}


def values(history: MetricHistory, index: int | None = None) -> list[tuple[int, str, int, int | None, float]]:
    return [(point.index, point.region, point.attempt, point.epoch, point.value) for point in history.read(index)]


@pytest.fixture
def grid(deployment: Deployment, ledger: Ledger, storage: Storage) -> Grid:
    return Grid(deployment, ledger, storage)


def test_all_attempts_are_read_each_in_its_region(grid: Grid) -> None:
    grid.submit()
    first = grid.start()
    grid.part(f"{RUN}-000001.jsonl", epoch(1, 3.0), key=first)
    name = names.training_job("traingrid", SUBMISSION, 0, 1)
    facts = AttemptFacts(region="us-east-1", failure="capacity", training_job=name, state=JobState.FAILED)
    moved = grid.ledger.next_attempt(first, facts, "us-west-2")
    assert moved
    second = grid.start(attempt=2)
    grid.part(f"{RUN}-000001.jsonl", epoch(1, 2.0), key=second, region="us-west-2")
    grid.part(f"{RUN}-000001.jsonl", epoch(1, 1.0), key=grid.start(index=1))
    assert values(grid.reader()) == [
        (0, "us-east-1", 1, 1, 3.0),
        (0, "us-west-2", 2, 1, 2.0),
        (1, "us-east-1", 1, 1, 1.0),
    ]
    assert values(grid.reader(), index=1) == [(1, "us-east-1", 1, 1, 1.0)]


def test_only_the_parts_of_the_given_jobs_are_read(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    grid.submit()
    for index in range(2):
        grid.part(f"{RUN}-000001.jsonl", epoch(1, float(index)), key=grid.start(index))
    listed, keys_after = list[str](), Storage.keys_after

    def recorded(storage: Storage, prefix: S3Uri, last: str) -> Any:
        listed.append(prefix.key)
        return keys_after(storage, prefix, last)

    monkeypatch.setattr(Storage, "keys_after", recorded)
    assert [point.index for point in grid.reader().read({1})] == [1]
    assert [key for key in listed if f"{SUBMISSION}/1/" not in key] == []


def test_a_run_after_an_interruption_replaces_the_epochs_that_it_repeats(grid: Grid) -> None:
    grid.submit()
    key = grid.start()
    grid.part(f"{LATER_RUN}-000001.jsonl", epoch(2, 0.2), key=key)
    grid.part(f"{RUN}-000002.jsonl", epoch(2, 9.0), epoch(3, 9.0), key=key)
    grid.part(f"{RUN}-000001.jsonl", epoch(1, 0.3), key=key)
    assert [value[3:] for value in values(grid.reader())] == [(1, 0.3), (2, 0.2)]


def test_a_reader_of_a_running_job_gets_each_part_once(grid: Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    grid.submit()
    key, history = grid.start(), grid.reader()
    assert values(history) == []
    gets, read = list[str](), Storage.read

    def counted(storage: Storage, uri: S3Uri, limit: int) -> bytes:
        gets.append(uri.key)
        return read(storage, uri, limit=limit)

    monkeypatch.setattr(Storage, "read", counted)
    for number in range(1, 4):
        grid.part(f"{RUN}-{number:06d}.jsonl", epoch(number, 1.0), key=key)
        assert [value[3] for value in values(history)] == list(range(1, number + 1))
    grid.ledger.record_job(key, {"state": JobState.COMPLETED})
    grid.part(f"{LATER_RUN}-000001.jsonl", epoch(4, 1.0), key=key)
    assert len(values(history)) == 4
    assert len(values(history)) == 4
    assert len(gets) == 4


def test_missing_and_foreign_objects_do_not_matter(grid: Grid) -> None:
    grid.submit()
    key = grid.start()
    grid.part(f"{RUN}-000003.jsonl", epoch(3, 1.0), key=key)
    grid.part("notes.txt", epoch(7, 1.0), key=key)
    grid.part(f"copies/{RUN}-000001.jsonl", epoch(7, 1.0), key=key)
    assert [value[3] for value in values(grid.reader())] == [3]


@pytest.mark.parametrize("ended", [False, True])
def test_a_job_of_another_image_is_read_from_its_log(grid: Grid, *, ended: bool) -> None:
    grid.submit(metric_history=False)
    key, history = grid.start(), grid.reader()
    assert values(history) == []
    grid.log(key, "starting", "epoch=1 loss=0.5", "epoch=2 loss=nan")
    if ended:
        grid.ledger.record_job(key, {"state": JobState.COMPLETED})
    assert values(history) == [(0, "us-east-1", 1, 1, 0.5)]
    assert values(history) == [(0, "us-east-1", 1, 1, 0.5)]
    (point,) = history.read()
    assert point.time.isoformat() == "2026-11-23T16:00:00.001000+00:00"


def test_a_log_is_read_when_a_job_has_ended_without_parts_but_not_before(grid: Grid) -> None:
    grid.submit()
    key = grid.start()
    grid.log(key, "epoch=1 loss=0.5")
    assert values(grid.reader()) == []
    grid.ledger.record_job(key, {"state": JobState.FAILED})
    assert values(grid.reader()) == [(0, "us-east-1", 1, 1, 0.5)]


def test_a_job_without_training_job_has_no_values(grid: Grid) -> None:
    grid.submit()
    grid.ledger.open_job(SUBMISSION, grid.jobs[0])
    assert grid.reader().read() == []


def test_an_unknown_submission_or_job_is_an_error(grid: Grid) -> None:
    with pytest.raises(UsageError, match="0123abcd"):
        grid.reader().read()
    grid.submit()
    with pytest.raises(UsageError, match="has no job with index 2"):
        grid.reader().read(2)


def test_a_region_that_refuses_is_named_and_a_later_read_is_complete(
    grid: Grid, monkeypatch: pytest.MonkeyPatch
) -> None:
    grid.submit()
    grid.part(f"{RUN}-000001.jsonl", epoch(1, 1.0), key=grid.start())
    history = grid.reader()

    def refuse(*_: Any, **__: Any) -> bytes:
        raise ClientError({"Error": {"Code": "SlowDown", "Message": "reduce your rate"}}, "GetObject")

    with monkeypatch.context() as patch:
        patch.setattr(Storage, "read", refuse)
        with pytest.raises(TraingridError, match=r"traingrid-0123abcd-0-1 in us-east-1 cannot be read: .*SlowDown"):
            history.read()
    assert len(history.read()) == 1
