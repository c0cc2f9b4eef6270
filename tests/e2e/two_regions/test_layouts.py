"""Two-field lines on folders with other layouts than train/ and validation/: each child finds the channels."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.small_program import uploaded_program
from tests.e2e.submissions import DIGITS, ended, submit
from traingrid import names
from traingrid.api.control_plane import ControlPlane
from traingrid.aws.clients import client
from traingrid.submission.status import SubmissionStatus

HERE, THERE = "us-east-1", "eu-west-1"


def uploaded(plane: ControlPlane, region: str, folder: str, files: dict[str, Path]) -> str:
    """Upload files into a folder of a Region's data bucket, and return its URI."""
    bucket = names.data_bucket("traingrid", plane.deployment.account, region)
    for name, file in files.items():
        client("s3", region).upload_file(str(file), bucket, f"{folder}/{name}")
    return f"s3://{bucket}/{folder}"


@pytest.fixture(scope="module")
def submission(plane: ControlPlane) -> SubmissionStatus:
    """Train lines on one folder with all TFRecord files, on any files with a script, and on a folder with two layouts.

    The manifest is put into S3, so only the intake and the children see it.
    """
    files = {
        file.name: file for channel in ("train", "validation") for file in (DIGITS / "campaign-1" / channel).iterdir()
    }
    any_file = next(iter(files.values()))
    lines: list[dict[str, Any]] = [
        {"region": HERE, "s3_uri": uploaded(plane, HERE, "imagenet2012/resized", files | {"labels.txt": any_file})},
        {"region": THERE, "s3_uri": uploaded(plane, THERE, "points", {"a.csv": any_file, "_tmp/b.csv": any_file})},
        {"region": HERE, "s3_uri": uploaded(plane, HERE, "odd", {"train/a": any_file, "validation-0": any_file})},
    ]
    lines[1] |= uploaded_program(plane, THERE)
    report = submit(plane, "layouts.jsonl", "".join(f"{json.dumps(line)}\n" for line in lines))
    return ended(plane, report["submission"])


def channels_of(submission: SubmissionStatus, index: int) -> dict[str, str]:
    """Return the rest of the URI of each channel of a job's training job after the folder."""
    job = submission.jobs[index]
    described = client("sagemaker", job.region).describe_training_job(TrainingJobName=job.training_job)
    sources = {
        channel["ChannelName"]: channel["DataSource"]["S3DataSource"] for channel in described["InputDataConfig"]
    }
    assert {source["S3DataType"] for source in sources.values()} == {"S3Prefix"}
    return {name: source["S3Uri"].rpartition("/")[2] for name, source in sources.items()}


def test_the_built_in_trainer_trains_and_validates_on_the_files_of_one_folder(submission: SubmissionStatus) -> None:
    job = submission.jobs[0]
    assert (job.state, job.reason) == ("Completed", "")
    assert 0 < job.metrics["validation_top1"] <= 1
    assert channels_of(submission, 0) == {"train": "train-", "validation": "validation-"}


def test_a_script_trains_on_a_folder_with_any_files(submission: SubmissionStatus) -> None:
    assert (submission.jobs[1].state, submission.jobs[1].reason) == ("Completed", "")
    assert channels_of(submission, 1) == {"train": ""}


def test_a_folder_without_certain_channels_fails_before_a_training_job_is_created(
    submission: SubmissionStatus, plane: ControlPlane
) -> None:
    job = submission.jobs[2]
    assert job.state == "Failed"
    assert "/odd/ has the folder train/ and files validation-*, so its channels are not certain. Move" in job.reason
    created = client("sagemaker", HERE).list_training_jobs(NameContains=f"{submission.submission}-2-")
    assert created["TrainingJobSummaries"] == []
    children = list(plane.batch.children(submission.batch_job, 3))
    assert [child["status"] for child in children] == ["SUCCEEDED", "SUCCEEDED", "FAILED"]
