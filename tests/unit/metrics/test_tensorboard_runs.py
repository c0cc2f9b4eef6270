"""Event files: TensorBoard data of all Regions is copied into one folder, where files grow as they do in S3."""

from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import EndpointConnectionError
from click.testing import CliRunner

from tests.support.sample_deployment import SAMPLE
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.s3 import Storage
from traingrid.aws.s3_uri import S3Uri
from traingrid.cli.main import cli
from traingrid.errors import TraingridError, UsageError
from traingrid.grid.deployment import Deployment
from traingrid.job.job import Job
from traingrid.job.state import JobState
from traingrid.ledger.ledger import Ledger
from traingrid.manifest.line import jobs_of_lines
from traingrid.manifest.parse import parse
from traingrid.metrics.tensorboard_runs import TensorBoardRuns
from traingrid.submission.files import jobs_key, normalised
from traingrid.submission.status import JobStatus, SubmissionStatus


@pytest.fixture
def jobs(deployment: Deployment, storage: Storage, ledger: Ledger) -> list[Job]:
    """The jobs of the submitted sample, whose output buckets exist."""
    made = jobs_of_lines(parse(SAMPLE.encode(), deployment), deployment, "0123abcd")
    made = [job.model_copy(update={"tensorboard": True}) for job in made]
    storage.write(S3Uri(deployment.manifest_bucket, jobs_key("0123abcd")), normalised(made)[0], "application/jsonl")
    ledger.claim_submission("0123abcd", "request-1", {"jobs": 4, "manifest": "s3://bucket/manifests/x.csv"})
    ledger.record_submitted("0123abcd", "array")
    for bucket in {job.output.split("/")[2] for job in made}:
        boto3.client("s3").create_bucket(Bucket=bucket)
    return made


@pytest.fixture
def plane(
    deployment: Deployment, storage: Storage, ledger: Ledger, jobs: list[Job], monkeypatch: pytest.MonkeyPatch
) -> ControlPlane:
    def status(_plane: ControlPlane, submission: str) -> SubmissionStatus:
        found = [
            JobStatus(
                index=job.index,
                region=job.region,
                name=job.name,
                state=JobState.IN_PROGRESS,
                training_job=f"job-{job.index}",
            )
            for job in jobs
        ]
        return SubmissionStatus(submission=submission, manifest="", batch_job="b", batch_state="", jobs=found)

    monkeypatch.setattr(ControlPlane, "status", status)
    nothing: Any = None
    made = ControlPlane(deployment=deployment, ledger=ledger, batch=nothing, storage=storage)
    monkeypatch.setattr(ControlPlane, "of", lambda _grid: made)
    return made


def put(job: Job, name: str, content: bytes) -> None:
    bucket, _, key = job.output.removeprefix("s3://").partition("/")
    boto3.client("s3").put_object(Bucket=bucket, Key=f"{key}tensorboard/{name}", Body=content)


def contents(folder: Path) -> dict[str, bytes]:
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_files_of_all_regions_are_in_one_folder_and_grow(plane: ControlPlane, jobs: list[Job], tmp_path: Path) -> None:
    files = TensorBoardRuns(plane=plane, submissions=["0123abcd"], folder=tmp_path)
    put(jobs[0], "train/events.1", b"one")
    put(jobs[-1], "events.2", b"two")
    assert files.sync() == 2
    first, last = sorted(contents(tmp_path))
    assert first.startswith("0123abcd-0-")
    assert first.endswith("/train/events.1")
    assert last.startswith(f"0123abcd-{len(jobs) - 1}-")
    assert files.sync() == 0
    with (tmp_path / first).open("rb") as open_in_tensorboard:
        open_in_tensorboard.read()
        put(jobs[0], "train/events.1", b"one, and more")
        assert files.sync() == 1
        assert open_in_tensorboard.read() == b", and more"
    again = TensorBoardRuns(plane=plane, submissions=["0123abcd"], folder=tmp_path)
    assert again.sync() == 0, "an interrupted copy continues where it ended"


def test_a_shorter_file_replaces_the_local_one(plane: ControlPlane, jobs: list[Job], tmp_path: Path) -> None:
    files = TensorBoardRuns(plane=plane, submissions=["0123abcd"], folder=tmp_path)
    put(jobs[0], "events.1", b"an earlier training")
    files.sync()
    put(jobs[0], "events.1", b"new")
    assert files.sync() == 1
    assert list(contents(tmp_path).values()) == [b"new"]


def test_no_key_leads_outside_of_the_jobs_folder(plane: ControlPlane, jobs: list[Job], tmp_path: Path) -> None:
    folder = tmp_path / "logs"
    for name in ("../../outside", "a/../../../outside", "/outside", "a//b", "folder/"):
        put(jobs[0], name, b"x")
    put(jobs[0], "events", b"good")
    assert TensorBoardRuns(plane=plane, submissions=["0123abcd"], folder=folder).sync() == 1
    assert list(contents(tmp_path).values()) == [b"good"]


def test_a_region_that_does_not_answer_is_reported_and_the_others_are_copied(
    plane: ControlPlane, jobs: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    put(jobs[0], "events", b"good")
    sizes, down = Storage.sizes, jobs[-1].region

    def listed(storage: Storage, prefix: S3Uri) -> Any:
        if down in prefix.bucket:
            raise EndpointConnectionError(endpoint_url=f"https://s3.{down}.amazonaws.com")
        return sizes(storage, prefix)

    monkeypatch.setattr(Storage, "sizes", listed)
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, ["tensorboard", "0123", "--once"])
    assert "copied 1 file into tensorboard" in result.output
    assert isinstance(result.exception, TraingridError)
    assert down in result.exception.what
    assert list(contents(tmp_path).values()) == [b"good"]


def test_an_unknown_submission_and_jobs_without_data_are_errors(
    plane: ControlPlane, jobs: list[Job], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(UsageError, match="There is no submission 77777777"):
        TensorBoardRuns(plane=plane, submissions=["77777777"], folder=tmp_path).sync()
    monkeypatch.setattr("traingrid.metrics.tensorboard_runs.last_submitted_jobs", lambda *_: {})
    with pytest.raises(TraingridError, match="No job of these submissions writes TensorBoard data"):
        TensorBoardRuns(plane=plane, submissions=["0123abcd"], folder=tmp_path).sync()
    assert contents(tmp_path) == {}


def test_a_given_prefix_is_read_instead(plane: ControlPlane, jobs: list[Job], tmp_path: Path, storage: Storage) -> None:
    bucket = jobs[0].output.split("/")[2]
    given = jobs[0].model_copy(
        update={"tensorboard": False, "hyperparameters": {"tensorboard_s3": f"s3://{bucket}/elsewhere"}}
    )
    where = S3Uri(plane.deployment.manifest_bucket, jobs_key("0123abcd"))
    storage.write(where, normalised([given, *jobs[1:]])[0], "application/jsonl")
    boto3.client("s3").put_object(Bucket=bucket, Key="elsewhere/events", Body=b"x")
    assert TensorBoardRuns(plane=plane, submissions=["0123abcd"], folder=tmp_path).sync() == 1
