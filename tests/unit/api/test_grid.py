"""Python API: a program submits jobs, and finds, awaits and cancels submissions."""

import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

import traingrid as tg
from tests.support.module_time import replace_time
from tests.support.sample_deployment import SAMPLE_BUCKETS
from traingrid.api.control_plane import ControlPlane
from traingrid.api.logs import LogReader
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.grid.deployment import Deployment
from traingrid.ledger.ledger import Ledger

JOB = {"region": "us-east-1", "s3_uri": f"s3://{SAMPLE_BUCKETS['us-east-1']}/x"}


@pytest.fixture
def grid(deployment: Deployment, ledger: Ledger, storage: Storage) -> tg.Grid:
    return tg.Grid(ControlPlane(deployment=deployment, ledger=ledger, batch=None, storage=storage))  # type: ignore[arg-type]  # Batch is not called


def accepted(monkeypatch: pytest.MonkeyPatch) -> None:
    report = {"state": "submitted", "jobs": 1, "submission": "0123abcd", "batch_job": "b"}
    monkeypatch.setattr("traingrid.api.submit.wait_for_report", lambda *_: report)


def claimed(ledger: Ledger, *submissions: str) -> None:
    for submission in submissions:
        ledger.claim_submission(submission, "request", {"jobs": 1, "manifest": "s3://manifests/x.csv"})


def test_every_public_name_can_be_imported() -> None:
    assert [name for name in tg.__all__ if not hasattr(tg, name)] == []
    with pytest.raises(AttributeError, match="has no attribute 'Cluster'"):
        _ = tg.Cluster


def test_importing_the_package_loads_no_library() -> None:
    program = "import sys, traingrid; print([name for name in ('boto3', 'pydantic', 'click') if name in sys.modules])"
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert ended.stdout == "[]\n"


def test_jobs_are_uploaded_as_a_manifest(
    grid: tg.Grid, deployment: Deployment, storage: Storage, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted(monkeypatch)
    announced: list[str] = []
    submission = grid.submit([JOB, JOB | {"name": "b"}], name="sweep.jsonl", announce=announced.append)
    assert submission.id == "0123abcd"
    content = storage.read(S3Uri(deployment.manifest_bucket, "manifests/sweep.jsonl"))
    assert content.decode().splitlines()[0] == "# jobs: 2"
    assert announced[-1].startswith(f"uploaded s3://{deployment.manifest_bucket}/manifests/sweep.jsonl (version ")


def test_a_manifest_file_is_uploaded_unchanged(
    grid: tg.Grid, deployment: Deployment, storage: Storage, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    accepted(monkeypatch)
    (tmp_path / "x.csv").write_text(f"{JOB['region']},{JOB['s3_uri']}\n")
    grid.submit(str(tmp_path / "x.csv"))
    content = storage.read(S3Uri(deployment.manifest_bucket, "manifests/x.csv"))
    assert content == (tmp_path / "x.csv").read_bytes()


def test_a_submission_is_found_by_a_prefix_that_only_it_has(grid: tg.Grid, ledger: Ledger) -> None:
    claimed(ledger, "0123abcd", "0123abff", "77777777")
    assert grid.submission("7").id == "77777777"
    assert grid.submission("0123abff").id == "0123abff"
    with pytest.raises(tg.UsageError, match=r"2 submissions start with 0123: .* Give more characters of the id\."):
        grid.submission("0123")
    with pytest.raises(tg.UsageError, match="The submission's id is empty"):
        grid.submission("")
    for unknown in ("8", "77777777f"):
        with pytest.raises(tg.UsageError, match="There is no submission"):
            grid.submission(unknown)
    assert {item.submission for item in grid.submissions()} == {"0123abcd", "0123abff", "77777777"}
    assert repr(grid.submission("7")) == f"<Submission 77777777 of {grid!r}>"
    assert len(repr(grid)) < 100


def status(*states: tg.JobState) -> tg.SubmissionStatus:
    jobs = [tg.JobStatus(index=index, region="us-east-1", name="x", state=state) for index, state in enumerate(states)]
    return tg.SubmissionStatus(
        submission="0123abcd", manifest="s3://m/x.csv", batch_job="b", batch_state="SUCCEEDED", jobs=jobs
    )


def test_wait_returns_when_every_job_has_ended(grid: tg.Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    coming = iter([status(tg.JobState.IN_PROGRESS), status(tg.JobState.FAILED)])
    monkeypatch.setattr(ControlPlane, "status", lambda *_: next(coming))
    slept: list[float] = []
    replace_time(monkeypatch, "traingrid.api.submission", sleep=slept.append)
    final = tg.Submission(grid, "0123abcd").wait(poll=3)
    assert (final.jobs[0].state, slept) == ("Failed", [3])


def test_wait_gives_up_after_its_timeout(grid: tg.Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ControlPlane, "status", lambda *_: status(tg.JobState.IN_PROGRESS, tg.JobState.COMPLETED))
    with pytest.raises(TimeoutError, match=r"1 of 2 jobs of submission 0123abcd have not ended after 0\.05 s"):
        tg.Submission(grid, "0123abcd").wait(timeout=0.05, poll=0.01)


def test_cancel_takes_an_index_or_a_region(grid: tg.Grid, ledger: Ledger) -> None:
    claimed(ledger, "0123abcd")
    with pytest.raises(tg.UsageError, match="both given"):
        tg.Submission(grid, "0123abcd").cancel(index=0, region="us-east-1")
    assert ledger.cancels("0123abcd") == {}


def test_logs_are_selected_by_time_and_pattern(grid: tg.Grid, monkeypatch: pytest.MonkeyPatch) -> None:
    reads: list[tuple[int | None, int, int | None, bool]] = []
    lines = [tg.LogLine(number * 1000, 0, "us-east-1", "algo-1", f"epoch={number}") for number in range(20)]

    def read(reader: LogReader, tail: int | None = None, *, follow: bool = False) -> Iterator[tg.LogLine]:
        reads.append((reader.index, reader.since, tail, follow))
        return iter(lines)

    monkeypatch.setattr(LogReader, "lines", read)
    submission = tg.Submission(grid, "0123abcd")
    assert [line.text for line in submission.logs(grep="epoch=1.", tail=2)] == ["epoch=18", "epoch=19"]
    list(submission.logs(3, since=datetime(2026, 1, 1, tzinfo=UTC), tail=5, follow=True))
    list(submission.logs(since=timedelta(minutes=10)))
    assert reads[:2] == [(None, 0, None, False), (3, 1767225600000, 5, True)]
    assert 0 <= time.time() - 600 - reads[2][1] / 1000 < 60
